"""Requested times are hard limits: a replay ends a job at what it asked for.

A trace may hold jobs that ran for longer: a system kills a little late, or an operator let a job go on. When that was
decided the trace does not say, so a scheduler that knew it at submission would see the future. See
docs/decisions/0008-a-requested-time-is-a-hard-limit.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from analyzers.types import JobRecord


def within_limit(record: JobRecord) -> JobRecord:
    """The job as it is played: ended at its requested time if it ran for longer. Each of its ``attempts`` has that
    limit. As it is where nothing was requested."""
    limit_s, duration_s = record.requested_s, record.duration_s
    if not limit_s or limit_s < 0 or duration_s is None:
        return record
    limit_s *= max(1, record.attempts or 1)
    return replace(record, duration_s=limit_s) if duration_s > limit_s else record


class Cut(NamedTuple):
    """How many jobs ran for longer than they had asked, and the share of all GPU time that is not played for that."""

    jobs: int
    share: float


def cut_at_limits(records: Iterable[JobRecord]) -> Cut:
    """What `within_limit` takes from a trace."""
    jobs, lost_gpu_s, all_gpu_s = 0, 0.0, 0.0
    for record in records:
        played = within_limit(record)
        duration_s = record.duration_s or 0.0
        all_gpu_s += duration_s * record.gpus
        if played is not record:
            jobs += 1
            lost_gpu_s += (duration_s - (played.duration_s or 0.0)) * record.gpus
    return Cut(jobs, lost_gpu_s / all_gpu_s if all_gpu_s > 0 else 0.0)
