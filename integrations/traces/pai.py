"""Alibaba PAI's GPU trace v2020 (Weng et al., NSDI'22): job, task and instance tables, joined.

Give any of the tables; the others are looked for beside it by name (``pai_task_table.csv``, also ``.gz``, ``.xz`` ...).
The published files have no header line; one with the published names is read too.

| table | column | is |
|---|---|---|
| job (needed) | job_name, user, status, start_time, end_time | id, user, state, *submission*, end |
| task (needed) | inst_num, plan_gpu, plan_cpu, plan_mem | per instance: GPUs and CPUs in per cent, memory in GiB |
| task | start_time, gpu_type | start, unless instances say better; type |
| instance | start_time, machine | first start, nodes |
| group tag | inst_id, group, workload | ``workload`` or ``group`` as the job's name |

Times are seconds of a shifted clock, whose time of day and day of the week are true in Asia/Shanghai. Instances of
less than a GPU share one: ``gpus`` counts the GPUs touched, ``gpu_milli`` is what is asked of each on average. What the
tasks of each job ask for is held while the job table is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analyzers.types import JobRecord, State
from integrations.traces.csv_rows import HEADER_AGAIN, split
from integrations.traces.plain_csv import first_line, refuse_options
from integrations.traces.values import BadValueError, outcome_of, text
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.trace_files import lines

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "job": ("job_name", "inst_id", "user", "status", "start_time", "end_time"),
    "task": (
        "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu",
        "gpu_type",
    ),
    "instance": (
        "job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time", "end_time", "machine",
    ),
    "group_tag": ("inst_id", "user", "gpu_type_spec", "group", "workload"),
}  # fmt: skip
_STATES: Mapping[str, State] = {
    "Terminated": "completed", "Failed": "failed", "Running": "running", "Waiting": "pending",
}  # fmt: skip
_FILE = re.compile(r"pai_(?P<table>job|task|instance|group_tag)_table\b")
_PACKED = ("", ".gz", ".xz", ".zst", ".bz2")
_MIB_PER_GIB = 1024
_MILLI_PER_PERCENT = 10
_WHOLE_MILLI = 1000
_MAX_INSTANCES = 1_000_000


@dataclass(slots=True)
class _Plan:
    """What the tasks of a job ask for, added up, and when the first of them started."""

    gpus: int = 0
    milli: int = 0
    cpus: float = 0.0
    memory_mib: float = 0.0
    start_s: float = math.inf
    kind: str = ""
    instances: int = 0


class PaiTrace:
    """Reads the tables."""

    name = "pai"

    def matches(self, path: Path, head: bytes) -> bool:
        """True for a table by its published header, or by its rows under its published name."""
        return _table_of(path, first_line(head)) is not None

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield a job a row of the job table; a job without tasks says nothing of its size and is left out."""
        refuse_options(path, self.name, options)
        given = _table_of(path, next(lines(path), ""))
        tables = {table: found for table in _COLUMNS if (found := _beside(path, table)) is not None}
        if given is not None:
            tables[given] = path
        if missing := [f"pai_{table}_table.csv" for table in ("job", "task") if table not in tables]:
            raise UserError(f"{path}: {' and '.join(missing)} is not beside it", "put the tables into one folder")
        notes.header.update({f"{table} table": str(found) for table, found in tables.items()})
        notes.beside += [found for found in tables.values() if found != path]
        return _jobs(tables, notes)


def _table_of(path: Path, line: str) -> str | None:
    cells = [cell.strip() for cell in split(line.lstrip("\ufeff"), ",")]
    for table, columns in _COLUMNS.items():
        if tuple(cells) == columns:
            return table
    named = _FILE.search(path.name)
    return named["table"] if named and len(cells) == len(_COLUMNS[named["table"]]) else None


def _beside(path: Path, table: str) -> Path | None:
    named = _FILE.search(path.name)
    stem = path.name.replace(named[0], f"pai_{table}_table") if named else f"pai_{table}_table.csv"
    base = re.sub(r"\.(gz|xz|zst|bz2)$", "", stem)
    return next((found for end in _PACKED if (found := path.with_name(base + end)).is_file()), None)


def _rows(path: Path, table: str, notes: TraceNotes) -> Iterator[tuple[int, list[str]]]:
    """Numbered cells of a table's rows; rows of the wrong length are counted."""
    columns = _COLUMNS[table]
    for number, line in enumerate(lines(path, notes), start=1):
        if not line.strip():
            continue
        cells = split(line, ",")
        if cells[0].strip("\ufeff ") == columns[0]:
            if number > 1:
                notes.remark(HEADER_AGAIN)
            continue
        if len(cells) != len(columns):
            notes.skip(f"{table} table: not {len(columns)} columns", f"{path.name} line {number}")
            continue
        yield number, cells


def _jobs(tables: Mapping[str, Path], notes: TraceNotes) -> Iterator[JobRecord]:
    plans = _plans(tables["task"], notes)
    started, machines = _instances(tables["instance"], notes) if "instance" in tables else ({}, {})
    names = _names(tables["group_tag"], notes) if "group_tag" in tables else {}
    path = tables["job"]
    for number, cells in _rows(path, "job", notes):
        try:
            plan = plans.get(cells[0])
            if plan is None:
                raise BadValueError("no task of it is in the task table")
            record = _record(cells, plan, started.get(cells[0]), machines.get(cells[0]), names.get(cells[1]))
        except BadValueError as error:
            notes.skip(str(error), f"{path.name} line {number}")
            continue
        notes.rows += 1
        yield record


def _record(
    cells: Sequence[str], plan: _Plan, first_s: float | None, machines: frozenset[int] | None, name: str | None
) -> JobRecord:
    submit_s, end_s = _number(cells[4]), _number(cells[5])
    if submit_s is None:
        raise BadValueError("start_time (the submission) is no number")
    state = _STATES.get(cells[3].strip())
    start_s = min(plan.start_s, math.inf if first_s is None else first_s)
    started = None if state == "pending" or start_s == math.inf else max(start_s, submit_s)
    if state in ("running", "pending"):
        end_s = None
    elif started is None or end_s is None:
        raise BadValueError("start or end is missing")
    elif end_s < started:
        raise BadValueError("ends before it starts")
    return JobRecord(
        job_id=cells[0],
        submit_s=submit_s,
        duration_s=None if end_s is None or started is None else end_s - started,
        gpus=plan.gpus,
        start_s=started,
        user=text(cells[2]),
        name=name,
        gpu_type=plan.kind or None,
        nodes=len(machines) if machines else None,
        outcome=outcome_of(state),
        end_s=end_s,
        state=state,
        cpus=plan.cpus or None,
        memory_mib=plan.memory_mib or None,
        gpu_milli=_share(plan),
    )


def _share(plan: _Plan) -> int | None:
    milli = round(plan.milli / plan.gpus) if plan.gpus else _WHOLE_MILLI
    return max(1, milli) if milli < _WHOLE_MILLI else None


def _plans(path: Path, notes: TraceNotes) -> dict[str, _Plan]:
    plans: dict[str, _Plan] = {}
    for _, cells in _rows(path, "task", notes):
        plan = plans.get(cells[0])
        if plan is None:
            plan = plans[cells[0]] = _Plan()
        instances = min(int(_number(cells[2]) or 1), _MAX_INSTANCES)
        percent = min(_number(cells[8]) or 0.0, 1e6)
        plan.instances += instances
        plan.gpus += instances * math.ceil(percent / 100)
        plan.milli += round(instances * percent * _MILLI_PER_PERCENT)
        plan.cpus += instances * (_number(cells[6]) or 0.0) / 100
        plan.memory_mib += instances * (_number(cells[7]) or 0.0) * _MIB_PER_GIB
        start_s, kind = _number(cells[4]), cells[9].strip()
        if start_s is not None:
            plan.start_s = min(plan.start_s, start_s)
        if percent and kind and kind not in plan.kind.split("|"):
            plan.kind = f"{plan.kind}|{kind}" if plan.kind else kind
    return plans


def _instances(path: Path, notes: TraceNotes) -> tuple[dict[str, float], dict[str, frozenset[int]]]:
    """First start and machines by job; machines as numbers, of which there are few, so that sets of them are shared."""
    started: dict[str, float] = {}
    machines: dict[str, frozenset[int]] = {}
    numbers: dict[str, int] = {}
    shared: dict[frozenset[int], frozenset[int]] = {}
    for _, cells in _rows(path, "instance", notes):
        job, start_s = cells[0], _number(cells[6])
        if start_s is not None and start_s < started.get(job, math.inf):
            started[job] = start_s
        if machine := cells[8].strip():
            number = numbers.setdefault(machine, len(numbers))
            on = machines.get(job, frozenset())
            if number not in on:
                grown = on | {number}
                machines[job] = shared.setdefault(grown, grown)
    return started, machines


def _names(path: Path, notes: TraceNotes) -> dict[str, str]:
    names: dict[str, str] = {}
    for _, cells in _rows(path, "group_tag", notes):
        if name := cells[4].strip() or cells[3].strip():
            names[cells[0]] = name
    return names


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 <= value < 1e13 else None
