"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2 (Feitelson, Tsafrir, Krakov 2014).

Eighteen whitespace-separated numbers a job, ``-1`` for unknown; header comments start with ``;``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from analyzers.types import JobRecord, Outcome
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.traces import lines

FIELDS = 18
(_JOB, _SUBMIT, _WAIT, _RUNTIME, _ALLOCATED) = range(5)
(_REQUESTED_PROCESSORS, _REQUESTED_TIME, _STATUS, _USER, _GROUP, _APPLICATION) = (7, 8, 10, 11, 12, 13)
_OUTCOMES: Mapping[float, Outcome] = {0: "failed", 1: "completed", 5: "cancelled"}
#: 2 to 4 mark the partial runs of a job that was checkpointed; its summary line repeats them as one.
_PARTIAL = frozenset({2.0, 3.0, 4.0})
_MAX_TIME_S = 1e13
_MAX_PROCESSORS = 10_000_000


class SwfTrace:
    """Reads SWF. Processors count as GPUs; a job's size is what it asked for, else what it got."""

    name = "swf"

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the first line that is no comment holds eighteen numbers, or comments are all there is."""
        rows = head.decode("utf-8", "replace").splitlines()
        for row in rows:
            if row.strip() and not row.lstrip().startswith(";"):
                return _numbers(row) is not None
        return any(row.lstrip().startswith(";") for row in rows)

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield the jobs; those that never ran (runtime 0 or less) are counted in ``notes`` and left out."""
        if options:
            raise UserError(f"{path}: SWF takes no options, got {', '.join(sorted(options))}", "leave them out")
        return self._rows(path, notes)

    def _rows(self, path: Path, notes: TraceNotes) -> Iterator[JobRecord]:
        for number, line in enumerate(lines(path), start=1):
            text = line.strip()
            if not text:
                continue
            if text.startswith(";"):
                _note_header(text, notes)
                continue
            made = _record(text)
            if isinstance(made, str):
                notes.skip(made, f"line {number}")
            else:
                notes.rows += 1
                yield made


def _note_header(text: str, notes: TraceNotes) -> None:
    key, colon, value = text.lstrip("; ").partition(":")
    if colon and key and len(key) <= 40 and len(notes.header) < 200:
        notes.header.setdefault(key.strip(), value.strip())


def _numbers(text: str) -> list[float] | None:
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        return None
    return values if len(values) >= FIELDS else None


def _record(text: str) -> JobRecord | str:
    """The job on one line, or the reason why it can not be used."""
    values = _numbers(text)
    if values is None:
        return f"not {FIELDS} numbers"
    if not all(map(math.isfinite, values)):
        return "a field is not finite"
    runtime_s, submit_s, requested_s = values[_RUNTIME], values[_SUBMIT], values[_REQUESTED_TIME]
    if values[_STATUS] in _PARTIAL:
        return "partial run of a checkpointed job"
    if runtime_s <= 0:
        return "runtime is 0 or less"
    size = values[_REQUESTED_PROCESSORS] if values[_REQUESTED_PROCESSORS] > 0 else values[_ALLOCATED]
    if size <= 0:
        return "no processors stated"
    if size > _MAX_PROCESSORS or max(abs(submit_s), runtime_s) > _MAX_TIME_S:
        return "a field is out of range"
    return JobRecord(
        job_id=text.split(None, 1)[0],
        submit_s=submit_s,
        duration_s=runtime_s,
        gpus=math.ceil(size),
        start_s=submit_s + values[_WAIT] if values[_WAIT] >= 0 else None,
        user=_known(values[_USER]),
        tenant=_known(values[_GROUP]),
        name=f"app{app}" if (app := _known(values[_APPLICATION])) else None,
        # A site may let a job outlive its request a little; an estimate below the truth is no upper bound.
        requested_s=max(requested_s, runtime_s) if requested_s > 0 else None,
        outcome=_OUTCOMES.get(values[_STATUS]),
    )


def _known(value: float) -> str | None:
    return str(int(value)) if value >= 0 else None
