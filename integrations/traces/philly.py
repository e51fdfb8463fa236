"""The jobs of Microsoft's Philly clusters (``cluster_job_log``, JSON; Jeon et al., ATC'19).

| key | is |
|---|---|
| jobid, user, vc | id, user, tenant |
| status | Pass, Killed, Failed |
| submitted_time, attempts[].start_time, end_time | local times of an unstated zone; America/Los_Angeles is assumed |
| attempts[].detail[].gpus | GPUs of the attempt on one machine: size and nodes are those of the largest attempt |

Runtime is the sum over the attempts. A job without any attempt says nothing of its size and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analyzers.types import JobRecord
from integrations.traces.clock import Clock, settled
from integrations.traces.json_stream import objects
from integrations.traces.plain_csv import refuse_options
from integrations.traces.values import BadValueError, outcome_of, state
from schedmate.durations import zone_named
from schedmate.ports import TraceNotes
from schedmate.trace_files import head_text

_ZONE = "America/Los_Angeles"
_NO_TIME = frozenset({"", "None", "null"})


class PhillyTrace:
    """Reads ``cluster_job_log``."""

    name = "philly"

    def matches(self, path: Path, head: bytes) -> bool:
        """True for a JSON array whose beginning has the log's keys."""
        text = head_text(head).lstrip()
        return text.startswith("[") and all(f'"{key}"' in text for key in ("jobid", "submitted_time", "attempts"))

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield the jobs in the file's order."""
        refuse_options(path, self.name, options)
        notes.header["timezone"] = options.get("timezone") or f"{_ZONE} (assumed)"
        notes.epoch_s = 0.0
        return self._jobs(path, notes, Clock(zone_named(options.get("timezone", _ZONE)), notes))

    def _jobs(self, path: Path, notes: TraceNotes, clock: Clock) -> Iterator[JobRecord]:
        for number, job in objects(path, None):
            try:
                record = _record(job, clock, notes)
            except BadValueError as error:
                notes.skip(str(error), f"job {number}")
                continue
            notes.rows += 1
            yield record


def _record(job: Any, clock: Clock, notes: TraceNotes) -> JobRecord:
    if not isinstance(job, dict):
        raise BadValueError("not an object")
    submit_s = _time(job.get("submitted_time"), clock)
    if submit_s is None:
        raise BadValueError("submit time is missing")
    attempts = [each for each in _list(job.get("attempts")) if isinstance(each, dict)]
    sizes = [[len(_list(part.get("gpus"))) for part in _parts(each)] for each in attempts]
    largest = max(sizes, key=sum, default=[])
    if not largest:
        raise BadValueError("no attempt that says how many GPUs")
    spans = []
    before_s: float | None = submit_s
    for number, each in enumerate(attempts):
        span = (_time(each.get("start_time"), clock), _time(each.get("end_time"), clock))
        before_s, start_s, end_s = settled((before_s, *span), None, notes)
        if number == 0 and before_s is not None:
            submit_s = before_s
        spans.append((start_s, end_s))
        before_s = before_s if end_s is None else end_s
    starts = [start for start, _ in spans if start is not None]
    runs = [end - start for start, end in spans if start is not None and end is not None]
    if any(run < 0 for run in runs):
        raise BadValueError("ends before it starts")
    running = spans[-1][1] is None and spans[-1][0] is not None
    if not running and not runs:
        raise BadValueError("no attempt with start and end")
    if len(runs) + running < len(spans):
        notes.remark("an attempt without start or end: not in the runtime")
    status = "running" if running else state(str(job.get("status") or ""))
    return JobRecord(
        job_id=_text(job.get("jobid")) or f"job{int(submit_s)}",
        submit_s=submit_s,
        duration_s=None if running else sum(runs),
        gpus=sum(largest),
        start_s=starts[0] if starts else None,
        user=_text(job.get("user")),
        tenant=_text(job.get("vc")),
        nodes=len(largest),
        outcome=outcome_of(status),
        end_s=None if running else max(end for _, end in spans if end is not None),
        state=status,
        attempts=len(attempts),
    )


def _parts(attempt: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in _list(attempt.get("detail")) if isinstance(part, dict)]


def _time(value: Any, clock: Clock) -> float | None:
    if not isinstance(value, str) or value.strip() in _NO_TIME:
        return None
    return clock.seconds(value, "a time")


def _text(value: Any) -> str | None:
    return value.encode("utf-8", "replace").decode().strip() or None if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
