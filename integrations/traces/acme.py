"""The jobs of Shanghai AI Laboratory's Acme clusters (``trace_seren.csv``, ``trace_kalos.csv``; Hu et al., NSDI'24).

| column | is |
|---|---|
| job_id, user | id, user |
| type | kind of workload, as the job's name |
| gpu_num, cpu_num, node_num | GPUs (0 for CPU jobs), CPUs, nodes of the whole job |
| mem_per_pod_GB | Kalos only: host memory of a pod, taken as one of ``node_num``, in GiB |
| state | COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL |
| submit_time, start_time, end_time | times with their zone |
| duration | seconds; in Kalos it holds the time in the queue too, so start and end go first |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from analyzers.types import JobRecord
from integrations.traces.csv_records import records
from integrations.traces.plain_csv import PublishedTable
from schedmate.ports import TraceNotes

_NAMES = {
    "job_id": "job_id", "user": "user", "name": "type", "gpus": "gpu_num", "cpus": "cpu_num", "nodes": "node_num",
    "status": "state", "submit": "submit_time", "start": "start_time", "end": "end_time", "duration": "duration",
    "memory_mib": "mem_per_pod_GB",
}  # fmt: skip
_SIGNS = frozenset({"type", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "gpu_time", "duration"})
_MIB_PER_GIB = 1024


class AcmeTrace(PublishedTable):
    """Reads the job traces of both clusters."""

    def __init__(self) -> None:
        super().__init__("acme", _NAMES, _SIGNS, "UTC")

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield a job a row, those without GPUs too; bad rows are counted in ``notes``."""
        numbered, maker, layout = self.open(path, notes, options)
        jobs = records(numbered, maker, notes, ",")
        return map(_whole_memory, jobs) if "memory_mib" in layout.columns else jobs


def _whole_memory(record: JobRecord) -> JobRecord:
    if record.memory_mib is None:
        return record
    return replace(record, memory_mib=record.memory_mib * _MIB_PER_GIB * (record.nodes or 1))
