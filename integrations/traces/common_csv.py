"""The common form of all traces: one CSV whose columns are the fields of a job record, in seconds and MiB.

An empty cell is an unknown value. Texts are written on one line: a line break is ``\\n`` or ``\\r``, a backslash is
doubled. ``facts`` is JSON. Columns may come in any order or be missing, but for ``job_id``, ``submit_s`` and ``gpus``.
Unlike other CSVs it holds jobs without GPUs, that never ran or still run; writing and reading back changes nothing.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO, get_args

from analyzers.types import JobRecord, Outcome, State
from integrations.traces.csv_columns import refuse_twins
from integrations.traces.csv_rows import without_headers
from integrations.traces.plain_csv import first_line
from integrations.traces.values import MAX_GPUS, MAX_TIME_S, BadValueError
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.trace_files import lines

#: In the order in which they are written.
FIELDS: tuple[str, ...] = (
    "job_id", "submit_s", "eligible_s", "start_s", "end_s", "duration_s", "requested_s", "gpus", "gpu_milli",
    "gpu_type", "nodes", "cpus", "memory_mib", "user", "tenant", "partition", "name", "command", "state", "outcome",
    "attempts", "ran_so_far_s", "fingerprint", "workdir", "peak_gpu_memory_mib", "mean_gpu_utilization",
    "peak_host_memory_mib", "facts",
)  # fmt: skip
_TEXTS = frozenset({"job_id", "gpu_type", "user", "tenant", "partition", "name", "command", "fingerprint", "workdir"})
_COUNTS = frozenset({"gpus", "gpu_milli", "nodes", "attempts"})
_LENGTHS = frozenset({"duration_s", "requested_s", "ran_so_far_s"})
_NEEDED = frozenset({"job_id", "submit_s", "gpus"})
_SIGNS = _NEEDED | {"duration_s", "state"}
_WORDS = {"state": frozenset(get_args(State)), "outcome": frozenset(get_args(Outcome))}
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r"}
_QUOTED = re.compile(r'[",\r\n]|^\s|\s$|^#|^\ufeff')
_CSV_FIELD_CHARS = 1 << 21


class CommonTrace:
    """Reads the common form."""

    name = "schedmate"

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the header has the field names that no other table has together."""
        return set(first_line(head).rstrip().split(",")) >= _SIGNS

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Yield a job a row; bad rows are counted in ``notes`` with their line."""
        if options:
            raise UserError(
                f"{path}: the common form takes no options, got {', '.join(sorted(options))}",
                "leave them out, or read it with --format csv",
            )
        numbered = enumerate(lines(path, notes), start=1)
        header = next((line.strip() for _, line in numbered if line.strip()), "").lstrip("\ufeff")
        names = header.split(",")
        if missing := sorted(_NEEDED - set(names)):
            raise UserError(f"{path}: no column {', '.join(missing)}", "read another CSV with --format csv")
        refuse_twins(path, names, (position for position, name in enumerate(names) if name in FIELDS))
        notes.header.update({name: name for name in names if name in FIELDS})
        return _records(without_headers(numbered, header, notes), names, notes)


class CommonWriter:
    """Writes the common form."""

    name = "csv"

    def write(self, records: Iterable[JobRecord], stream: TextIO, notes: TraceNotes) -> tuple[int, Mapping[str, int]]:
        """Write all records, in their order."""
        stream.write(",".join(FIELDS) + "\n")
        count = 0
        for count, record in enumerate(records, start=1):  # noqa: B007 (how many there were)
            stream.write(",".join([_cell(getattr(record, name)) for name in FIELDS]) + "\n")
        start_s = notes.header.get("UnixStartTime")
        return count, {"the date of second 0, which stands in the header": count} if start_s else {}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r") if _has_breaks(value) else value
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, int):
        return str(value)
    return _cell(json.dumps(dict(value), sort_keys=True, allow_nan=False)) if value else ""


def _has_breaks(text: str) -> bool:
    return "\\" in text or "\n" in text or "\r" in text


def _records(numbered: Iterator[tuple[int, str]], names: list[str], notes: TraceNotes) -> Iterator[JobRecord]:
    made = [(position, name, _reader_of(name)) for position, name in enumerate(names) if name in FIELDS]
    csv.field_size_limit(max(csv.field_size_limit(), _CSV_FIELD_CHARS))
    for number, line in numbered:
        if not line.strip():
            continue
        try:
            values = _values(line, len(names), made)
        except BadValueError as error:
            notes.skip(str(error), f"line {number}")
            continue
        notes.rows += 1
        yield JobRecord(**values)


def _values(line: str, columns: int, made: list[tuple[int, str, Callable[[str], Any]]]) -> dict[str, Any]:
    row = line[:-1] if line.endswith("\n") else line
    if '"' in row:
        try:
            cells = next(csv.reader([row], strict=True))
        except (csv.Error, StopIteration):
            raise BadValueError("quotes do not match") from None
    else:
        cells = row.split(",")
    if len(cells) != columns:
        raise BadValueError("too few columns" if len(cells) < columns else "too many columns")
    values: dict[str, Any] = {"duration_s": None}
    for position, name, read in made:
        cell = cells[position]
        if cell:
            try:
                values[name] = read(cell)
            except ValueError:
                raise BadValueError(f"{name} is not what it should be") from None
        elif name in _NEEDED:
            raise BadValueError(f"{name} is missing")
    return values


def _reader_of(name: str) -> Callable[[str], Any]:
    if name in _TEXTS:
        return _text
    if name in _COUNTS:
        return _count
    if name in _WORDS:
        return _one_of(_WORDS[name])
    if name == "facts":
        return _facts
    return _length if name in _LENGTHS else _number


def _text(cell: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), cell) if "\\" in cell else cell


def _count(cell: str) -> int:
    value = int(cell) if len(cell) <= 12 else -1
    if not 0 <= value <= MAX_GPUS:
        raise ValueError
    return value


def _number(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value) or abs(value) > MAX_TIME_S:
        raise ValueError
    return value


def _length(cell: str) -> float:
    value = _number(cell)
    if value < 0:
        raise ValueError
    return value


def _one_of(words: frozenset[str]) -> Callable[[str], str]:
    def read(cell: str) -> str:
        if cell not in words:
            raise ValueError
        return cell

    return read


def _facts(cell: str) -> Mapping[str, Any]:
    try:
        value = json.loads(_text(cell))
    except RecursionError:
        raise ValueError from None
    if not isinstance(value, dict):
        raise ValueError
    return value
