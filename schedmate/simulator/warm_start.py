"""A replay that begins with the cluster as it was at a moment of the trace, not with an empty one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from analyzers.types import JobRecord
from schedmate.scheduler import Job, Scheduler, Unschedulable
from schedmate.simulator.estimates import Estimates
from schedmate.simulator.limits import within_limit
from schedmate.trace_window import RunningJob, window

RAN = "it ran when the replay began"


@dataclass(frozen=True, slots=True)
class WarmStart:
    """A stretch from ``begin_s`` to ``end_s``. ``running`` ran at its beginning, in the order in which they had
    started. They are load: what becomes of them is in no figure of a job. ``unknown`` counts jobs of which the trace
    does not say whether they ran or waited then."""

    begin_s: float
    end_s: float
    running: tuple[RunningJob, ...] = ()
    unknown: int = 0


def warm_start(records: Iterable[JobRecord], begin_s: float, end_s: float) -> tuple[WarmStart, list[JobRecord]]:
    """What ran at ``begin_s``, and the jobs to be replayed: those that waited then, and those submitted before
    ``end_s``. A job that was held (``eligible_s``) counts as submitted when nothing but the queue kept it waiting."""
    found = window(records, begin_s, end_s)
    played = [when_eligible(record) for record in (*found.waiting, *found.arriving)]
    running = sorted(found.running, key=lambda each: -each.ran_s)
    return WarmStart(begin_s, end_s, tuple(running), found.unknown), sorted(played, key=lambda record: record.submit_s)


def when_eligible(record: JobRecord) -> JobRecord:
    """The job, submitted when nothing but the queue kept it waiting: one that was held (by a dependency, or until a
    time) could not have been started before by any scheduler. As it is if it started before it was eligible."""
    eligible_s = record.eligible_s
    if eligible_s is None or eligible_s <= record.submit_s:
        return record
    if record.start_s is not None and eligible_s > record.start_s:  # which can not be
        return record
    return replace(record, submit_s=eligible_s)


def left_of(job: RunningJob, warm: WarmStart) -> JobRecord:
    """The rest of a job that runs, as a job of its own, which its limit ends (`limits`). Where the trace does not tell
    its end that is what its limit leaves, without one the whole stretch."""
    left_s, limit_s = job.left_s, job.record.requested_s
    if left_s is None:
        left_s = warm.end_s - warm.begin_s if limit_s is None else max(0.0, limit_s - job.ran_s)
    elif limit_s:
        whole = within_limit(replace(job.record, duration_s=job.ran_s + left_s))
        left_s = min(left_s, max(0.0, (whole.duration_s or 0.0) - job.ran_s))
    return replace(job.record, duration_s=left_s)


def known_of(job: RunningJob, estimates: Estimates) -> Job:
    """What the scheduler may know of the rest: what was said of the whole job, less what it has run."""
    whole_s = None if job.left_s is None else job.ran_s + job.left_s
    told, ran_s = estimates.job(replace(job.record, duration_s=whole_s)), job.ran_s
    hints = told.hints
    if hints is not None and hints.expected_s is not None and hints.high_s is not None:
        hints = replace(hints, expected_s=_less(hints.expected_s, ran_s), high_s=_less(hints.high_s, ran_s))
    return replace(told, estimate_s=_maybe(told.estimate_s, ran_s), limit_s=_maybe(told.limit_s, ran_s), hints=hints)


def put_running(
    scheduler: Scheduler, jobs: Sequence[Job], now: float, refused: Callable[[Unschedulable], None]
) -> tuple[list[int | None], int]:
    """Start jobs that run already, in order, each where its policy would put it; one that finds no room waits. Their
    slots, in the same order, and how many wait; None for a job that no pool could hold, which ``refused`` is told."""
    slots, waiting = list[int | None](), 0
    state, transaction = scheduler.state, scheduler.transaction
    for job in jobs:
        try:
            slot = scheduler.submit(job)
        except Unschedulable as error:
            refused(error)
            slots.append(None)
            continue
        slots.append(slot)
        _, queue_lane, demand = scheduler.lanes.of(job)
        lane = state.table.lanes[slot] or queue_lane
        for pool in lane.pools if lane is not None else ():
            shares = state.place(state.cluster.pools[pool], demand)
            if shares is not None:
                transaction.begin()
                transaction.start(slot, pool, shares, now, RAN)
                transaction.commit()
                break
        else:
            waiting += 1
    return slots, waiting


def _less(seconds: float, ran_s: float) -> float:
    return max(0.0, seconds - ran_s)


def _maybe(seconds: float | None, ran_s: float) -> float | None:
    return None if seconds is None else _less(seconds, ran_s)
