"""Job records as SWF 2.2. GPUs stand where the format has processors; what it has no place for is counted.

Jobs are numbered anew in order of submission and times count from the first submission, as the format wants it; users,
tenants, names and partitions become numbers, which the header explains.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TextIO

from analyzers.types import JobRecord, State
from integrations.traces.swf import STATES
from schedmate.ports import TraceNotes

_UNKNOWN = -1
_STATUS: Mapping[str, int] = {
    **{outcome: int(code) for code, outcome in STATES.items()},
    "timeout": 0, "node_fail": 0, "out_of_memory": 0, "boot_fail": 0, "deadline": 0, "preempted": 5,
}  # fmt: skip
_EXACT: frozenset[State | None] = frozenset({*STATES.values(), None})
#: Fields that SWF has no column for, and what is told where a job has them.
_NO_PLACE = {
    "gpu_type": "the GPU type", "cpus": "the number of CPUs", "command": "the command", "nodes": "the number of nodes",
    "gpu_milli": "the share of each GPU", "eligible_s": "when it became eligible", "attempts": "the number of attempts",
    "fingerprint": "the fingerprint", "peak_gpu_memory_mib": "the GPU memory",
    "mean_gpu_utilization": "the utilisation",
}  # fmt: skip
_KIB_PER_MIB = 1024
_MAX_NAME_CHARS = 80

#: The eighteen numbers of a line, the job's number still missing.
_Line = tuple[float, ...]


class SwfWriter:
    """Writes SWF."""

    name = "swf"

    def write(self, records: Iterable[JobRecord], stream: TextIO, notes: TraceNotes) -> tuple[int, Mapping[str, int]]:
        """Write the jobs that ask for GPUs, in order of submission; one of their lines at a time is held as numbers."""
        lost: Counter[str] = Counter()
        names = _Numbers()
        rows = []
        first_s = math.inf
        for record in records:
            if record.gpus < 1:
                lost["the job itself, which asks for no GPU"] += 1
                continue
            first_s = min(first_s, record.submit_s)
            rows.append(_line(record, names, lost))
        rows.sort(key=lambda row: row[0])
        since_s = math.floor(first_s) if rows else 0
        for text in _header(notes, rows, since_s, names):
            stream.write(f"; {text}\n")
        for number, (submit_s, *rest) in enumerate(rows, start=1):
            stream.write(f"{number} {round(submit_s - since_s)} {' '.join(map(_text, rest))}\n")
        return len(rows), dict(lost)


class _Numbers:
    """Numbers for names, in order of appearance from 1."""

    def __init__(self) -> None:
        self.by_kind: dict[str, dict[str, int]] = {"User": {}, "Group": {}, "Application": {}, "Partition": {}}

    def __call__(self, kind: str, name: str | None) -> int:
        if name is None:
            return _UNKNOWN
        known = self.by_kind[kind]
        return known.setdefault(name, len(known) + 1)


def _line(record: JobRecord, names: _Numbers, lost: Counter[str]) -> _Line:
    _count_lost(record, lost)
    ran_s = _UNKNOWN if record.duration_s is None else record.duration_s
    wait_s = _UNKNOWN if record.start_s is None else max(0.0, record.start_s - record.submit_s)
    memory = _UNKNOWN if record.memory_mib is None else record.memory_mib * _KIB_PER_MIB / record.gpus
    used = _UNKNOWN
    if record.peak_host_memory_mib is not None:
        used = round(record.peak_host_memory_mib * _KIB_PER_MIB / record.gpus)
    return (
        record.submit_s,
        wait_s,
        ran_s,
        record.gpus if record.start_s is not None else _UNKNOWN,
        _UNKNOWN,
        used,
        record.gpus,
        _UNKNOWN if record.requested_s is None else record.requested_s,
        memory,
        _STATUS.get(record.state or record.outcome or "", _UNKNOWN),
        names("User", record.user),
        names("Group", record.tenant),
        names("Application", record.name),
        _UNKNOWN,
        names("Partition", record.partition),
        _UNKNOWN,
        _UNKNOWN,
    )


def _count_lost(record: JobRecord, lost: Counter[str]) -> None:
    for name, what in _NO_PLACE.items():
        if getattr(record, name) is not None:
            lost[what] += 1
    if record.facts:
        lost["facts of its source"] += 1
    if record.state not in _EXACT or (record.state is None and record.outcome == "timeout"):
        lost["the exact state"] += 1
    if record.start_s is not None and record.start_s < record.submit_s:
        lost["a start before submission"] += 1
    runs_s = None if record.start_s is None or record.duration_s is None else record.start_s + record.duration_s
    if record.end_s is not None and record.end_s != runs_s:
        lost["an end that is not start plus runtime"] += 1
    times = (record.submit_s, record.start_s, record.duration_s, record.requested_s)
    if any(time is not None and time != int(time) for time in times):
        lost["fractions of a second"] += 1


def _header(notes: TraceNotes, rows: list[_Line], since_s: int, names: _Numbers) -> list[str]:
    told = ["Version: 2.2", "Conversion: schedmate", "Note: processors are GPUs", f"MaxJobs: {len(rows)}"]
    told.append(f"MaxRecords: {len(rows)}")
    if notes.epoch_s is not None:
        told.append(f"UnixStartTime: {round(notes.epoch_s + since_s)}")
    for kind, numbers in names.by_kind.items():
        told += [f"Note: {kind} {number} is {_one_line(name)}" for name, number in numbers.items()]
    return told


def _one_line(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name[:_MAX_NAME_CHARS])


def _text(value: float) -> str:
    return str(round(value))
