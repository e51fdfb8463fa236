"""Generated jobs as the rest of SchedMate sees them: submissions, rows of a trace, job records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analyzers.types import JobRecord, Submission
from schedmate.workload.types import Ask, Truth

#: Folder of the source trees below a workload.
WORK = "work"
#: Columns of the trace, by the names that the CSV reader knows.
TRACE_COLUMNS = (
    "job_id", "submit", "duration", "gpus", "nodes", "user", "tenant", "name", "command", "requested",
    "status", "peak_gpu_memory_mib", "mean_gpu_utilization", "peak_host_memory_mib", "workdir",
)  # fmt: skip


def submission_of(ask: Ask, root: Path) -> Submission:
    """What a scheduler is told about a job of the workload below ``root``."""
    return Submission(
        command=ask.command,
        workdir=root / WORK / ask.tree,
        user=ask.user,
        tenant=ask.tenant,
        name=ask.name,
        gpus=ask.gpus,
        gpu_type=ask.gpu_type,
        nodes=ask.nodes,
        limit_s=ask.limit_s,
        submit_s=ask.submit_s,
    )


def record_of(ask: Ask, truth: Truth) -> JobRecord:
    """The ended job, as a trace has it: a replay needs the true duration to know when it ends.

    The type of GPU is not given: the cluster has one pool, and a replay's may have another name.
    """
    return JobRecord(
        job_id=ask.job_id,
        submit_s=ask.submit_s,
        duration_s=truth.duration_s,
        gpus=ask.gpus,
        user=ask.user,
        tenant=ask.tenant,
        name=ask.name,
        command=ask.command,
        nodes=ask.nodes,
        requested_s=ask.limit_s,
        outcome=truth.outcome,
        peak_gpu_memory_mib=truth.peak_gpu_memory_mib,
        mean_gpu_utilization=truth.mean_gpu_utilization,
        peak_host_memory_mib=truth.peak_host_memory_mib,
        workdir=f"{WORK}/{ask.tree}",
    )


def trace_row(record: JobRecord) -> list[Any]:
    """The cells of one row, in the order of `TRACE_COLUMNS`."""
    names = {"submit": "submit_s", "duration": "duration_s", "requested": "requested_s", "status": "outcome"}
    return [getattr(record, names.get(column, column)) for column in TRACE_COLUMNS]
