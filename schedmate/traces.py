"""Opening trace files: which registered format reads them, with which options, and what there is to tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.ports import TRACE_FORMATS, TRACE_WRITERS, TraceFormat, TraceNotes, TraceWriter, load, registered
from schedmate.trace_files import head_text, lines, read_head

__all__ = [
    "format_name_of",
    "format_names",
    "lines",
    "open_trace",
    "read_head",
    "told_skips",
    "trace_options",
    "writer_named",
]

#: Reads tables whose columns no format recognises, once they are mapped by hand; asked last.
_TABLE_FORMAT = "csv"
_JSON = re.compile(r"""\s*(?:\{\s*(?:["}]|\Z)|\[\s*(?:[\[{"\]\d-]|\Z))""")


def open_trace(
    path: Path, format_name: str | None = None, options: Mapping[str, str] | None = None
) -> tuple[Iterator[JobRecord], TraceNotes]:
    """Open a trace in whatever registered format fits it.

    Parameters
    ----------
    path : the file, plain or packed with gzip, xz, bzip2 or zstd (told by its first bytes, never by its name).
    format_name : name of a registered format, or None to ask each one whether it recognises the file.
    options : the format's own options, for example ``{"gpus": "num_workers", "time_unit": "ms"}`` for CSV.

    Returns the jobs in the file's order, read as they are asked for, and the notes that fill up meanwhile.
    Raises `UserError` for a file that can not be read, at once or, where damage shows late, while iterating;
    also when not one usable row was found.
    """
    head = read_head(path)
    reader = _by_name(format_name) if format_name else _by_content(path, head)
    notes = TraceNotes()
    return _at_least_one(path, reader.read(path, notes, dict(options or {})), notes), notes


def trace_options(
    columns: Sequence[str], time_unit: str = "", delimiter: str = "", timezone: str = ""
) -> dict[str, str]:
    """The readers' options from flags: ``NAME=HEADER`` words, the unit of times, the delimiter, the time zone.

    Empty ones are left out.
    """
    options: dict[str, str] = {}
    for word in columns:
        name, equals, header = word.partition("=")
        if not equals or not name.strip() or not header.strip():
            raise UserError(f"--column {word}: not NAME=HEADER", "for example --column gpus=num_workers")
        options[name.strip()] = header.strip()
    flags = (("time_unit", time_unit), ("delimiter", delimiter), ("timezone", timezone))
    return options | {name: value for name, value in flags if value}


def told_skips(path: Path, notes: TraceNotes) -> list[str]:
    """Lines for the user about rows that were left out or odd; none when all were used as they stand."""
    told = [f"{path}: {what}: {count:,} rows" for what, count in notes.remarks.items()]
    if not notes.skipped:
        return told
    total = sum(notes.skipped.values())
    reasons = ", ".join(f"{count} x {reason}" for reason, count in notes.skipped.items())
    return [
        f"{path}: skipped {total} of {total + notes.rows} rows: {reasons}",
        *(f"  {e}" for e in notes.examples),
        *told,
    ]


def format_names() -> list[str]:
    """Names of the registered trace formats."""
    return sorted(registered(TRACE_FORMATS))


def format_name_of(path: Path) -> str:
    """Name of the format that recognises the file; `UserError` where none does."""
    return _by_content(path, read_head(path)).name


def writer_named(name: str) -> TraceWriter:
    """The registered writer of that name; `UserError` with the names there are."""
    writer: TraceWriter = load(TRACE_WRITERS, name)()
    return writer


def _by_name(name: str) -> TraceFormat:
    reader: TraceFormat = load(TRACE_FORMATS, name)()
    return reader


def _by_content(path: Path, head: bytes) -> TraceFormat:
    names = format_names()
    for name in sorted(names, key=lambda each: each == _TABLE_FORMAT):  # the least particular one last
        reader = _by_name(name)
        if reader.matches(path, head):
            return reader
    if _JSON.match(head_text(head)):
        raise UserError(
            f"{path}: JSON, but no dump of sacct and no other that is read, or it is cut off",
            "dump or download the file again, or name its format with --format",
        )
    if _looks_like_a_table(head):
        return _by_name(_TABLE_FORMAT)  # which says what columns there are and how to map them
    raise UserError(
        f"{path}: not recognised as any known trace format ({', '.join(names)})",
        "name one with --format; a CSV needs a header line with submit time, duration and gpus",
    )


def _looks_like_a_table(head: bytes) -> bool:
    rows = [row for row in head_text(head).splitlines() if row.strip()][:2]
    return any(0 < rows[0].count(mark) == rows[-1].count(mark) for mark in ",;\t|") if rows else False


def _at_least_one(path: Path, records: Iterator[JobRecord], notes: TraceNotes) -> Iterator[JobRecord]:
    found = False
    for record in records:
        found = True
        yield record
    if not found:
        why = ", ".join(f"{count} x {reason}" for reason, count in notes.skipped.items())
        if not why:
            raise UserError(f"{path}: no usable job in it: it has no jobs", "dump a time in which there were some")
        raise UserError(f"{path}: no usable job in it ({why})", "check the columns and units")
