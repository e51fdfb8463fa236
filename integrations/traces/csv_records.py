"""Rows of a table of jobs to records, whatever the table calls its columns."""

from __future__ import annotations

from collections.abc import Iterator

from analyzers.types import JobRecord
from integrations.traces.clock import Clock, number_or_time, settled
from integrations.traces.csv_columns import Layout
from integrations.traces.csv_rows import split
from integrations.traces.values import (
    END_DROPPED,
    NO_VALUE,
    UNENDED,
    BadValueError,
    duration_s,
    not_used,
    optional_number,
    outcome_of,
    state,
    text,
    whole,
)
from schedmate.ports import TraceNotes


def records(
    numbered: Iterator[tuple[int, str]], maker: RecordMaker, notes: TraceNotes, delimiter: str
) -> Iterator[JobRecord]:
    """A record a row; bad rows are counted in ``notes`` with their line."""
    for number, row in numbered:
        if not row.strip():
            continue
        try:
            record = maker(split(row, delimiter), number)
        except BadValueError as error:
            notes.skip(str(error), f"line {number}")
            continue
        notes.rows += 1
        yield record


class RecordMaker:
    """Turns the cells of one row into a record; raises `BadValueError` with the reason.

    ``least_gpus`` 0 keeps jobs without GPUs. ``span_first``: start and end, where both are known, say how long it ran,
    not the table's own column.
    """

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        notes: TraceNotes,
        *,
        least_gpus: int = 1,
        span_first: bool = False,
    ) -> None:
        self._columns = layout.columns
        self._units = layout.unit_s
        self._needed = layout.least_cells
        self._clock, self._notes = clock, notes
        self._least_gpus, self._span_first = least_gpus, span_first

    def __call__(self, cells: list[str], number: int) -> JobRecord:
        if len(cells) < self._needed:
            raise BadValueError("too few columns")
        status = state(self._cell(cells, "status"))
        submit_s, eligible_s, start_s, end_s = settled(
            (
                number_or_time(self._cell(cells, "submit"), self._units["submit"], "submit time", self._clock),
                self._time(cells, "eligible"),
                self._time(cells, "start"),
                self._time(cells, "end"),
            ),
            self._stated_s(cells),
            self._notes,
        )
        if submit_s is None:
            raise BadValueError("submit time is missing")
        ran_s = self._duration(cells, start_s, end_s, status in UNENDED)
        if start_s is not None and end_s is not None and end_s < start_s:
            self._notes.remark(END_DROPPED)
            end_s = None
        return JobRecord(
            job_id=text(self._cell(cells, "job_id")) or f"line{number}",
            submit_s=submit_s,
            duration_s=ran_s,
            gpus=whole(self._cell(cells, "gpus"), "gpus", self._least_gpus),
            start_s=start_s,
            user=text(self._cell(cells, "user")),
            tenant=text(self._cell(cells, "tenant")),
            name=text(self._cell(cells, "name")),
            command=text(self._cell(cells, "command")),
            gpu_type=text(self._cell(cells, "gpu_type")),
            nodes=self._count(cells, "nodes"),
            requested_s=self._requested(cells),
            outcome=outcome_of(status),
            peak_gpu_memory_mib=self._number(cells, "peak_gpu_memory_mib"),
            mean_gpu_utilization=self._share(cells, "mean_gpu_utilization"),
            peak_host_memory_mib=self._number(cells, "peak_host_memory_mib"),
            eligible_s=eligible_s,
            end_s=end_s,
            state=status,
            partition=text(self._cell(cells, "partition")),
            workdir=text(self._cell(cells, "workdir")),
            cpus=self._number(cells, "cpus"),
            memory_mib=self._number(cells, "memory_mib"),
            gpu_milli=self._milli(cells),
            attempts=self._count(cells, "attempts"),
        )

    def _cell(self, cells: list[str], canonical: str) -> str:
        column = self._columns.get(canonical)
        return cells[column] if column is not None and column < len(cells) else ""

    def _time(self, cells: list[str], canonical: str) -> float | None:
        cell = self._cell(cells, canonical)
        if _is_none(cell):
            return None
        try:
            return number_or_time(cell, self._units[canonical], canonical, self._clock)
        except BadValueError:
            self._notes.remark(not_used(canonical))
            return None

    def _stated_s(self, cells: list[str]) -> float | None:
        """The runtime as the row states it, None where it states none."""
        stated = self._cell(cells, "duration").strip()
        if not stated:
            return None
        try:
            return duration_s(stated, self._units["duration"], "duration")
        except BadValueError:
            return None

    def _duration(self, cells: list[str], start_s: float | None, end_s: float | None, unended: bool) -> float | None:
        stated = self._cell(cells, "duration")
        spans = start_s is not None and end_s is not None and end_s >= start_s
        if "duration" in self._columns and not (self._span_first and spans):
            if unended and not stated.strip():
                return None
            return duration_s(stated, self._units["duration"], "duration")
        if unended and end_s is None:
            return None
        if start_s is None or end_s is None:
            raise BadValueError("start or end is missing or no time")
        if end_s < start_s:
            raise BadValueError("ends before it starts")
        return end_s - start_s

    def _requested(self, cells: list[str]) -> float | None:
        cell = self._cell(cells, "requested")
        if _is_none(cell):  # "UNLIMITED", "-1", blank: no limit is known, the row is still good
            return None
        try:
            return duration_s(cell, self._units.get("requested", 1.0), "requested") or None
        except BadValueError:
            self._notes.remark(not_used("requested"))
            return None

    def _number(self, cells: list[str], canonical: str) -> float | None:
        cell = self._cell(cells, canonical)
        if _is_none(cell):
            return None
        value = optional_number(cell)
        if value is None:
            self._notes.remark(not_used(canonical))
        return value

    def _count(self, cells: list[str], canonical: str) -> int | None:
        value = self._number(cells, canonical)
        return int(value) if value is not None and 1 <= value <= 1e7 else None

    def _milli(self, cells: list[str]) -> int | None:
        value = self._number(cells, "gpu_milli")
        return int(value) if value is not None and 1 <= value < 1000 else None

    def _share(self, cells: list[str], canonical: str) -> float | None:
        value = self._number(cells, canonical)
        if value is None or value > 100:
            return None
        return value / 100 if value > 1 else value


def _is_none(cell: str) -> bool:
    return not cell or cell.strip().lower() in NO_VALUE
