"""Any CSV with a header line: columns found by their usual names, or mapped by hand.

Options: a canonical column name of `COLUMNS` -> the header to take it from; ``time_unit`` (s, ms, min, h) for columns
whose header does not state its own unit (as ``duration_min`` does); ``delimiter`` (a character, or ``tab``);
``timezone`` of times without a zone (UTC if not given).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from analyzers.types import JobRecord
from integrations.traces.clock import Clock
from integrations.traces.csv_columns import Layout, header_has, layout_by_names, layout_of, recognised
from integrations.traces.csv_records import RecordMaker, records
from integrations.traces.csv_rows import rows, without_headers
from prompts.errors import UserError
from schedmate.durations import zone_named
from schedmate.ports import TraceNotes
from schedmate.trace_files import head_text, lines


class CsvTrace:
    """Reads a CSV of jobs; needs submit time, duration (or start and end) and GPUs."""

    name = "csv"

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the first line names a submit time, a duration or a GPU count in a usual way."""
        return recognised(first_line(head)) >= 2

    def read(self, path: Path, notes: TraceNotes, options: Mapping[str, str]) -> Iterator[JobRecord]:
        """Read the header at once, then yield a job a row; bad rows are counted in ``notes`` with their line."""
        numbered = rows(lines(path, notes))
        header = header_of(path, numbered)
        layout = layout_of(path, header, options)
        note_columns(notes, layout)
        clock = Clock(zone_named(options.get("timezone", "UTC")), notes)
        told = without_headers(numbered, header, notes)
        return records(told, RecordMaker(layout, clock, notes), notes, layout.delimiter)


class PublishedTable:
    """Reads one published table, whose columns are known by name; jobs without GPUs are kept.

    ``names`` maps canonical columns to its headers, ``signs`` are headers that tell it from other tables, and
    ``zone`` is that of its times where they state none.
    """

    def __init__(self, name: str, names: Mapping[str, str], signs: frozenset[str], zone: str) -> None:
        self.name, self._names, self._signs, self._zone = name, names, signs, zone

    def matches(self, path: Path, head: bytes) -> bool:
        """True when the header line has the columns that tell this table from others."""
        return header_has(first_line(head), self._signs)

    def open(
        self, path: Path, notes: TraceNotes, options: Mapping[str, str]
    ) -> tuple[Iterator[tuple[int, str]], RecordMaker, Layout]:
        """The numbered rows after the header, what makes records of their cells, and the layout."""
        refuse_options(path, self.name, options)
        numbered = rows(lines(path, notes))
        header = header_of(path, numbered)
        layout = layout_by_names(path, header, self._names)
        note_columns(notes, layout)
        notes.epoch_s = 0.0
        clock = Clock(zone_named(options.get("timezone", self._zone)), notes)
        maker = RecordMaker(layout, clock, notes, least_gpus=0, span_first=True)
        return without_headers(numbered, header, notes), maker, layout


def refuse_options(path: Path, name: str, options: Mapping[str, str]) -> None:
    """`UserError` for options that a format of fixed columns has no use for."""
    if unknown := sorted(set(options) - {"timezone"}):
        raise UserError(f"{path}: {name} takes no option {unknown[0]!r}", "leave it out, or read it with --format csv")


def first_line(head: bytes) -> str:
    """The first line that is not blank."""
    return next((row for row in head_text(head).splitlines() if row.strip()), "")


def header_of(path: Path, numbered: Iterator[tuple[int, str]]) -> str:
    """The header line, the first that is not blank; `UserError` where there is none."""
    header = next((row for _, row in numbered if row.strip()), None)
    if header is None:
        raise UserError(f"{path}: no header line", "the first line must name the columns")
    return header


def note_columns(notes: TraceNotes, layout: Layout) -> None:
    """Tell which header each column was taken from."""
    notes.header.update({canonical: layout.header[column] for canonical, column in layout.columns.items()})
