"""Logs in their frameworks' own formats, with the cause of a failure under its echoes, written piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from schedmate.workload.logs.failure import Scene, write_failure
from schedmate.workload.logs.trail import Trail, trail_of
from schedmate.workload.logs.training import pieces
from schedmate.workload.rng import stream
from schedmate.workload.sessions import Draft
from schedmate.workload.types import FailureTruth, Generated, LogFile, moment

__all__ = ["Trail", "logs_of", "pieces", "running_trail"]


def logs_of(
    job: Generated[Draft], start_s: float, nodes: tuple[str, ...], seed: int
) -> tuple[list[LogFile], FailureTruth | None]:
    """The logs of an ended job that started at ``start_s`` on ``nodes``; the cause where it ended badly."""
    ask, truth = job.ask, job.truth
    end_s = start_s + truth.duration_s
    written = pieces(trail_of(ask, truth, job.recipe, start_s, truth.duration_s, seed))
    if truth.outcome in ("failed", "timeout"):
        scene = Scene(
            ask=ask,
            truth=truth,
            project=job.recipe.project,
            batch=job.recipe.hyper.batch,
            nodes=nodes,
            end=moment(end_s),
            training_log="".join(written),
            rng=stream(seed, "failure", ask.job_id),
        )
        files, cause = write_failure(scene)
        return [LogFile(name, iter([text])) for name, text in files.items()], cause
    ending: Iterator[str] = iter(())
    if truth.outcome == "cancelled":
        when = f"{moment(end_s):%Y-%m-%dT%H:%M:%S}"
        ending = iter([f"slurmstepd: error: *** STEP {ask.job_id}.0 ON {nodes[0]} CANCELLED AT {when} ***\n"])
    return [LogFile(f"slurm-{ask.job_id}.out", chain(written, ending))], None


def running_trail(job: Generated[Draft], start_s: float, now_s: float, seed: int) -> Trail:
    """A running job's run as far as it has got at ``now_s``."""
    return trail_of(job.ask, job.truth, job.recipe, start_s, now_s - start_s, seed)
