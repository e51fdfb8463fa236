"""What ``sacct --json`` prints, from Slurm 21.08 on (data parsers v0.0.37 to v0.0.44).

| field | is |
|---|---|
| job_id, array, het | id: ``12``, ``12_3`` for an array task; components of a heterogeneous job become one job |
| time.submission, eligible, start, end | Unix seconds, 0 for unknown |
| time.elapsed, time.limit | runtime in seconds, limit in minutes |
| tres.allocated, tres.requested | GPUs and their type, CPUs, memory in MiB, nodes; what was allocated first |
| state.current | state; a word, or since 23.02 a list of words |
| restart_cnt | attempts; with ``--duplicates`` each attempt is an object, and they become one job |
| user, account, partition, name, submit_line | user, tenant, partition, name, command |
| steps[].tres.requested.max | peak memory of a task, peak GPU memory |

Numbers that newer releases write as ``{"set": ..., "infinite": ..., "number": ...}`` are read as well as bare ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analyzers.types import JobRecord, State
from integrations.traces.json_stream import objects
from integrations.traces.plain_csv import refuse_options
from integrations.traces.slurm_jobs import Gathering, Measured, Row, record_of
from integrations.traces.slurm_values import Tres, slurm_state, tres_of
from integrations.traces.values import BadValueError, not_used
from schedmate.ports import TraceNotes
from schedmate.trace_files import head_text

_BYTES_PER_MIB = 1 << 20
_MIN_S = 60.0
#: A dump of few jobs or none, or cut, stripped of what Slurm says of itself.
_JOBS = re.compile(r'"jobs"\s*:\s*(?:\[|\Z)')
_SURROGATES = re.compile("[\ud800-\udfff]")
#: Of several flags the one that says how it stands; the first that is known counts.
_STATE_FLAGS = ("REQUEUED", "COMPLETING", "CONFIGURING", "RESIZING", "STAGE_OUT")


class SacctJsonTrace:
    """Reads a dump of Slurm's accounting as JSON."""

    name = "sacct-json"

    def matches(self, path: Path, head: bytes) -> bool:
        """True for a JSON object whose beginning speaks of Slurm or of jobs with trackable resources."""
        text = head_text(head).lstrip()
        return text.startswith("{") and (
            any(sign in text for sign in ('"Slurm"', '"slurm"', '"tres"', '"het"')) or _JOBS.search(text) is not None
        )

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield the jobs; steps are read into their job."""
        refuse_options(path, self.name, options)
        notes.epoch_s = 0.0
        return self._jobs(path, notes)

    def _jobs(self, path: Path, notes: TraceNotes) -> Iterator[JobRecord]:
        gathering = Gathering(notes)
        for number, job in objects(path, "jobs"):
            try:
                if not isinstance(job, dict):
                    raise BadValueError("not an object")
                record = record_of(_row(job, notes), notes)
            except BadValueError as error:
                notes.skip(str(error), f"job {number}")
                continue
            for whole in gathering.job(record):
                notes.rows += 1
                yield whole
            for step in _list(job.get("steps")):
                gathering.step(_measured(step))
        for whole in gathering.rest():
            notes.rows += 1
            yield whole


def _row(job: Mapping[str, Any], notes: TraceNotes) -> Row:
    times, tres = _object(job.get("time")), _object(job.get("tres"))
    state = _state(_object(job.get("state")).get("current"))
    start_s, end_s = _moment(times.get("start")), _moment(times.get("end"))
    minutes = _number(times.get("limit"))
    if minutes is not None and minutes < 0:
        notes.remark(not_used("limit"))
    return Row(
        job_id=_job_id(job),
        submit_s=_moment(times.get("submission")),
        start_s=start_s,
        end_s=end_s,
        elapsed_s=_number(times.get("elapsed")),
        state=state,
        eligible_s=_moment(times.get("eligible")),
        limit_s=minutes * _MIN_S if minutes and minutes > 0 else None,
        requested=_tres(tres.get("requested")),
        allocated=_tres(tres.get("allocated")),
        nodes=_whole(job.get("allocation_nodes")),
        cpus=_number(_object(job.get("required")).get("CPUs")),
        user=_text(job.get("user")) or _text(_object(job.get("association")).get("user")),
        account=_text(job.get("account")),
        partition=_text(job.get("partition")),
        name=_text(job.get("name")),
        command=_text(job.get("submit_line")),
        restarts=_restarts(job.get("restart_cnt")),
    )


def _job_id(job: Mapping[str, Any]) -> str:
    own = _whole(job.get("job_id"))
    if own is None:
        raise BadValueError("job id is missing")
    array, het = _object(job.get("array")), _object(job.get("het"))
    array_job, task = _whole(array.get("job_id")), _number(array.get("task_id"))
    if array_job and task is not None:
        return f"{array_job}_{task:.0f}"
    if array_job and (waiting := _text(array.get("task"))):
        return f"{array_job}_[{waiting}]"
    leader = _whole(het.get("job_id"))
    return f"{leader}+{_number(het.get('job_offset')) or 0:.0f}" if leader else str(own)


def _state(current: Any) -> State | None:
    words = [word for word in _list(current) if isinstance(word, str)] if not isinstance(current, str) else [current]
    told = [word for word in words if word not in _STATE_FLAGS]
    return next((state for word in told if (state := slurm_state(word)) is not None), None)


def _tres(entries: Any) -> Tres:
    typed: dict[str, int] = {}
    named: dict[str, int] = {}
    for entry in _list(entries):
        item = _object(entry)
        kind, name, count = item.get("type"), _text(item.get("name")) or "", _whole(item.get("count"))
        if count is None:
            continue
        if kind == "gres" and name.startswith("gpu:"):
            typed[name.removeprefix("gpu:")] = count
        else:
            named[f"{kind}/{name}" if name else str(kind)] = count
    memory = named.get("mem")
    return tres_of(
        typed,
        total=named.get("gres/gpu"),
        shards=named.get("gres/shard"),
        mps=named.get("gres/mps"),
        cpus=named.get("cpu"),
        memory_mib=float(memory) if memory else None,
        nodes=named.get("node"),
    )


def _measured(step: Any) -> Measured:
    most = _object(_object(_object(step).get("tres")).get("requested")).get("max")
    host = gpu = None
    for entry in _list(most):
        item = _object(entry)
        count = _number(item.get("count"))
        if not count:
            continue
        if item.get("type") == "mem":
            host = count / _BYTES_PER_MIB
        elif item.get("type") == "gres" and item.get("name") == "gpumem":
            gpu = count / _BYTES_PER_MIB
    return Measured(host, gpu)


def _restarts(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and 0 <= number < 1e6 else None


def _number(value: Any) -> float | None:
    """A bare number, or the one in ``{"set": true, "infinite": false, "number": 5}``; None for none and infinity."""
    if isinstance(value, dict):
        if value.get("infinite") is True or value.get("set") is False:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e15 else None


def _moment(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and 0 < number < 1e13 else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number > 0 else None


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return _SURROGATES.sub("\ufffd", value).strip() or None  # halves of characters, which no file can hold


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
