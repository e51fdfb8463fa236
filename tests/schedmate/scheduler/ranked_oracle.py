"""Policies that evict by rank on one flat node, written a second time: a plain loop over every second that ranks all
jobs anew and knows nothing of events, queues, classes or indexes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Job:
    """Whole seconds and GPUs."""

    number: int
    submit_s: int
    gpus: int
    runtime_s: int
    done_s: int = 0
    served_s: int = 0
    evictions: int = 0
    starts_s: list[int] = field(default_factory=list)
    runs: bool = False
    end_s: int | None = None

    def worked_s(self, now: int, restart_s: int) -> int:
        """In this run."""
        return max(0, now - self.starts_s[-1] - (restart_s if self.evictions else 0)) if self.runs else 0


Rank = Callable[[Job, int], float]


def remaining(job: Job, worked_s: int) -> float:
    return job.runtime_s - job.done_s - worked_s


def remaining_area(job: Job, worked_s: int) -> float:
    return job.gpus * remaining(job, worked_s)


def levels(*bounds: int) -> Rank:
    return lambda job, worked_s: sum(job.gpus * (job.served_s + worked_s) >= bound for bound in bounds)


def play(
    asked: list[tuple[int, int, int]], gpus: int, rank: Rank, checkpoint_s: int | None, restart_s: int
) -> list[Job]:
    """``asked``: (submit, GPUs, runtime), in order of submission."""
    jobs = [Job(i, *row) for i, row in enumerate(asked)]
    now = 0
    while any(job.end_s is None for job in jobs):
        for job in jobs:
            if job.runs and job.done_s + job.worked_s(now, restart_s) == job.runtime_s:
                job.runs, job.end_s = False, now
        _walk(
            [job for job in jobs if job.submit_s <= now and job.end_s is None], gpus, rank, now, checkpoint_s, restart_s
        )
        now += 1
    return jobs


def _walk(jobs: list[Job], gpus: int, rank: Rank, now: int, checkpoint_s: int | None, restart_s: int) -> None:
    def place(job: Job) -> tuple[float, int]:
        return rank(job, job.worked_s(now, restart_s)), job.number

    blocked = set[int]()
    while waiting := [job for job in jobs if not job.runs and job.number not in blocked]:
        job = min(waiting, key=place)
        free = gpus - sum(other.gpus for other in jobs if other.runs)
        victims = list[Job]()
        for other in sorted((o for o in jobs if o.runs and o.starts_s[-1] < now), key=place, reverse=True):
            if free + sum(v.gpus for v in victims) < job.gpus and place(other)[0] > place(job)[0]:
                victims.append(other)
        if free + sum(v.gpus for v in victims) < job.gpus:
            blocked.add(job.number)
            continue
        for other in victims[::-1]:
            if free + sum(v.gpus for v in victims) - other.gpus >= job.gpus:
                victims.remove(other)
        for other in victims:
            worked_s = other.worked_s(now, restart_s)
            other.done_s += worked_s // checkpoint_s * checkpoint_s if checkpoint_s else 0
            other.served_s += worked_s
            other.evictions += 1
            other.runs = False
        job.runs = True
        job.starts_s.append(now)
