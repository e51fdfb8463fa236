"""Any CSV with a header line: columns found by their usual names, or mapped by hand.

Options: a canonical column name of `COLUMNS` -> the header to take it from; ``time_unit`` (s, ms, min, h) for columns
whose header does not state its own unit (as ``duration_min`` does); ``delimiter`` (a character, or ``tab``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analyzers.types import JobRecord, Outcome
from integrations.traces.csv_columns import Layout, layout_of, recognised
from integrations.traces.csv_rows import rows, split
from integrations.traces.values import BadValueError, duration_s, optional_number, outcome, text, time_s, whole
from prompts.errors import UserError
from schedmate.ports import TraceNotes
from schedmate.traces import lines


class CsvTrace:
    """Reads a CSV of jobs; needs submit time, duration (or start and end) and GPUs."""

    name = "csv"

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the first line names a submit time, a duration or a GPU count in a usual way."""
        first = next((row for row in head.decode("utf-8-sig", "replace").splitlines() if row.strip()), "")
        return recognised(first) >= 2

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Read the header at once, then yield a job a row; bad rows are counted in ``notes`` with their line."""
        numbered = rows(lines(path))
        header = next(((number, row) for number, row in numbered if row.strip()), None)
        if header is None:
            raise UserError(f"{path}: no header line", "the first line must name the columns")
        layout = layout_of(path, header[1], options)
        notes.header.update({canonical: layout.header[column] for canonical, column in layout.columns.items()})
        return _records(numbered, layout, notes)


def _records(numbered: Iterator[tuple[int, str]], layout: Layout, notes: TraceNotes) -> Iterator[JobRecord]:
    make = _Maker(layout)
    for number, row in numbered:
        if not row.strip():
            continue
        try:
            record = make(split(row, layout.delimiter), number)
        except BadValueError as error:
            notes.skip(str(error), f"line {number}")
            continue
        notes.rows += 1
        yield record


class _Maker:
    """Turns the cells of one row into a record; raises `BadValueError` with the reason."""

    def __init__(self, layout: Layout) -> None:
        self._columns = layout.columns
        self._units = layout.unit_s
        self._needed = layout.least_cells

    def __call__(self, cells: list[str], number: int) -> JobRecord:
        if len(cells) < self._needed:
            raise BadValueError("too few columns")
        submit_s = time_s(self._cell(cells, "submit"), self._units["submit"], "submit time")
        start_s = self._time(cells, "start")
        return JobRecord(
            job_id=text(self._cell(cells, "job_id")) or f"line{number}",
            submit_s=submit_s,
            duration_s=self._duration(cells, start_s),
            gpus=whole(self._cell(cells, "gpus"), "gpus"),
            start_s=start_s,
            user=text(self._cell(cells, "user")),
            tenant=text(self._cell(cells, "tenant")),
            name=text(self._cell(cells, "name")),
            command=text(self._cell(cells, "command")),
            gpu_type=text(self._cell(cells, "gpu_type")),
            nodes=self._count(cells, "nodes"),
            requested_s=self._requested(cells),
            outcome=self._outcome(cells),
            peak_gpu_memory_mib=optional_number(self._cell(cells, "peak_gpu_memory_mib")),
            mean_gpu_utilization=self._share(cells, "mean_gpu_utilization"),
            peak_host_memory_mib=optional_number(self._cell(cells, "peak_host_memory_mib")),
            workdir=text(self._cell(cells, "workdir")),
        )

    def _cell(self, cells: list[str], canonical: str) -> str:
        column = self._columns.get(canonical)
        return cells[column] if column is not None and column < len(cells) else ""

    def _time(self, cells: list[str], canonical: str) -> float | None:
        cell = self._cell(cells, canonical)
        if not cell.strip():
            return None
        try:
            return time_s(cell, self._units[canonical], canonical)
        except BadValueError:
            return None

    def _duration(self, cells: list[str], start_s: float | None) -> float:
        if "duration" in self._columns:
            return duration_s(self._cell(cells, "duration"), self._units["duration"], "duration")
        end_s = self._time(cells, "end")
        if start_s is None or end_s is None:
            raise BadValueError("start or end is missing or no time")
        if end_s < start_s:
            raise BadValueError("ends before it starts")
        return end_s - start_s

    def _requested(self, cells: list[str]) -> float | None:
        try:
            return duration_s(self._cell(cells, "requested"), self._units.get("requested", 1.0), "requested") or None
        except BadValueError:  # "UNLIMITED", "-1", blank: no limit is known, the row is still good
            return None

    def _count(self, cells: list[str], canonical: str) -> int | None:
        value = optional_number(self._cell(cells, canonical))
        return int(value) if value is not None and 1 <= value <= 1e7 else None

    def _share(self, cells: list[str], canonical: str) -> float | None:
        value = optional_number(self._cell(cells, canonical))
        if value is None or value > 100:
            return None
        return value / 100 if value > 1 else value

    def _outcome(self, cells: list[str]) -> Outcome | None:
        return outcome(self._cell(cells, "status"))
