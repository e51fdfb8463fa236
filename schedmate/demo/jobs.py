"""The demo's workload: generated jobs in memory, and their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from schedmate.workload import Ask, FailureTruth, Generated, SemanticGenerator, Truth, WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.logs import pieces, running_trail
from schedmate.workload.sessions import Draft
from schedmate.workload.types import moment
from schedmate.workload.writer import write_logs, write_workload

FOLDER = "workload"
RUNS = f"{FOLDER}/runs"
RUNNING = f"{FOLDER}/running"


@dataclass(frozen=True)
class Workload:
    """Jobs in order of submission. ``truth`` is for the replay, which must know when jobs end, and for scoring."""

    generator: SemanticGenerator
    jobs: tuple[Generated[Draft], ...]

    @cached_property
    def asks(self) -> tuple[Ask, ...]:
        """The jobs as they are handed in."""
        return tuple(job.ask for job in self.jobs)

    @cached_property
    def truth(self) -> dict[str, Truth]:
        """The truth by job."""
        return {job.ask.job_id: job.truth for job in self.jobs}

    @cached_property
    def trees(self) -> set[str]:
        """The names of all source trees."""
        return {ask.tree for ask in self.asks}

    @cached_property
    def span_s(self) -> float:
        """Length of the arrival window in seconds."""
        return self.generator.span_s()


@dataclass(frozen=True, slots=True)
class RunningLog:
    """The log of a job at the moment of the snapshot, with what is true of it."""

    job_id: str
    path: Path
    now: datetime
    step: int
    steps_planned: int
    left_s: float
    completes: bool


def make_workload(spec: WorkloadSpec) -> Workload:
    """Draw the whole workload. The same spec gives the same workload."""
    generator = SemanticGenerator(spec)
    return Workload(generator, tuple(generator.jobs()))


def write_sources(out: OutFolder, workload: Workload) -> None:
    """Write trees, submissions and truth below the demo's folder."""
    write_workload(workload.generator, out.below(FOLDER))


def write_runs(
    out: OutFolder, workload: Workload, starts_s: Mapping[str, float], nodes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[Path, FailureTruth]]:
    """Write the logs of all ended jobs; returns folder and true cause of those that ended badly.

    ``nodes`` are the indices of the nodes that a job ran on.
    """
    failed = {}
    for job in workload.jobs:
        job_id = job.ask.job_id
        names = tuple(f"gpu-{index + 1:02d}" for index in nodes[job_id])
        logs, cause = workload.generator.logs(job, starts_s[job_id], names)
        write_logs(out, f"{RUNS}/{job_id}", iter(logs))
        if cause is not None:
            failed[job_id] = (out.root / RUNS / job_id, cause)
    return failed


def write_running(out: OutFolder, workload: Workload, starts_s: Mapping[str, float], now_s: float) -> list[RunningLog]:
    """Write the logs, as far as they had got, of the jobs that train at ``now_s``."""
    found = []
    for job in workload.jobs:
        ask, truth, start_s = job.ask, job.truth, starts_s[job.ask.job_id]
        training = truth.kind != "evaluation" and truth.steps_done > 0
        if not training or not truth.startup_s * 1.5 < now_s - start_s < truth.duration_s:
            continue
        trail = running_trail(job, start_s, now_s, workload.generator.spec.seed)
        path = out.write(f"{RUNNING}/{ask.job_id}.log", "".join(pieces(trail)))
        found.append(
            RunningLog(
                job_id=ask.job_id,
                path=path,
                now=moment(now_s),
                step=trail.steps_done,
                steps_planned=trail.steps_planned,
                left_s=(trail.steps_planned - trail.steps_done) * trail.pace_s,
                completes=truth.outcome == "completed" and not truth.stopped_early,
            )
        )
    return found
