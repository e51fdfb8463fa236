"""What a trace does not say, and which policies and predictions that rules out."""

from __future__ import annotations

from dataclasses import dataclass

from schedmate.trace_summary.collect import Collected

#: Field -> what can not be had without it.
_NEEDED_FOR = {
    "start_s": "recorded waiting times, to compare a replay with; a start from what ran at a moment",
    "duration_s": "any replay of these jobs: they never ran or still run",
    "requested_s": "backfill on requested times and guaranteed starts (--estimates requested)",
    "user": "fair share between users, QSSF, predictions from a user's own past",
    "tenant": "quotas of tenants",
    "gpu_type": "telling pools apart: every job may run on any GPU",
    "nodes": "the nodes that were used: placement is that of the replay alone",
    "state": "failures, cancellations and time limits, and predictions of them",
    "name": "predictions from jobs of the same name",
    "command": "predictions from the launch command",
    "cpus": "packing by CPUs beside GPUs",
    "memory_mib": "packing by host memory beside GPUs",
    "eligible_s": "telling dependencies and holds from waiting for GPUs",
    "attempts": "requeues and restarts",
}
_ALL = 0.995


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that less than all jobs have. ``share`` of the jobs have it; ``rules_out`` says what needs it."""

    field: str
    share: float
    rules_out: str


def missing_from(jobs: Collected) -> list[Missing]:
    """Fields that some or all jobs lack, in order of what hurts most; those that nearly all have are not told."""
    with_gpus = int((jobs.gpus > 0).sum())
    counts = {"gpu_type": with_gpus}
    shares = {name: jobs.known.get(name, 0) / max(1, counts.get(name, len(jobs))) for name in _NEEDED_FOR}
    return [Missing(name, share, _NEEDED_FOR[name]) for name, share in shares.items() if share < _ALL]
