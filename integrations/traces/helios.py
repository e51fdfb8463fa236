"""The jobs of SenseTime's Helios clusters (``cluster_log.csv``; Hu et al., SC'21): Earth, Saturn, Uranus, Venus.

| column | is |
|---|---|
| job_id, user, vc | id, user, tenant |
| gpu_num, cpu_num, node_num | GPUs (0 for CPU jobs), CPUs, nodes of the whole job |
| state | COMPLETED, CANCELLED, FAILED, TIMEOUT, NODE_FAIL |
| submit_time, start_time, end_time | local times; the zone is not stated, Asia/Shanghai is assumed |
| duration, queue | seconds, end minus start and start minus submit; used where a time is missing |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analyzers.types import JobRecord
from integrations.traces.csv_records import records
from integrations.traces.plain_csv import PublishedTable
from schedmate.ports import TraceNotes

_NAMES = {
    "job_id": "job_id", "user": "user", "tenant": "vc", "gpus": "gpu_num", "cpus": "cpu_num", "nodes": "node_num",
    "status": "state", "submit": "submit_time", "start": "start_time", "end": "end_time", "duration": "duration",
}  # fmt: skip
_SIGNS = frozenset({"vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "queue", "duration"})


class HeliosTrace(PublishedTable):
    """Reads ``cluster_log.csv``."""

    def __init__(self) -> None:
        super().__init__("helios", _NAMES, _SIGNS, "Asia/Shanghai")

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield a job a row, those without GPUs too; bad rows are counted in ``notes``."""
        numbered, maker, _ = self.open(path, notes, options)
        return records(numbered, maker, notes, ",")
