"""Opening trace files: gzip or not, text or not, and which registered format reads them."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.ports import TRACE_FORMATS, TraceFormat, TraceNotes, load, registered

HEAD_BYTES = 16_384
_LONGEST_LINE_CHARS = 1 << 20
#: Reads tables whose columns no format recognises, once they are mapped by hand.
_TABLE_FORMAT = "csv"
_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_PACKERS = {
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "Parquet",
}
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
#: Above this share of undecodable or control characters a file is not text in any encoding we can guess.
_MAX_GARBAGE_SHARE = 0.1


def open_trace(
    path: Path, format_name: str | None = None, options: Mapping[str, str] | None = None
) -> tuple[Iterator[JobRecord], TraceNotes]:
    """Open a trace in whatever registered format fits it.

    Parameters
    ----------
    path : the file, plain or gzip (told by its first bytes, never by its name).
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


def trace_options(columns: Sequence[str], time_unit: str = "", delimiter: str = "") -> dict[str, str]:
    """The readers' options from flags: ``NAME=HEADER`` words, the unit of times, the delimiter; empty ones left out."""
    options: dict[str, str] = {}
    for word in columns:
        name, equals, header = word.partition("=")
        if not equals or not name.strip() or not header.strip():
            raise UserError(f"--column {word}: not NAME=HEADER", "for example --column gpus=num_workers")
        options[name.strip()] = header.strip()
    return options | {k: v for k, v in (("time_unit", time_unit), ("delimiter", delimiter)) if v}


def told_skips(path: Path, notes: TraceNotes) -> list[str]:
    """Lines for the user about rows that were left out; none when all were used."""
    if not notes.skipped:
        return []
    total = sum(notes.skipped.values())
    reasons = ", ".join(f"{count} x {reason}" for reason, count in notes.skipped.items())
    return [f"{path}: skipped {total} of {total + notes.rows} rows: {reasons}", *(f"  {e}" for e in notes.examples)]


def format_names() -> list[str]:
    """Names of the registered trace formats."""
    return sorted(registered(TRACE_FORMATS))


def read_head(path: Path, size: int = HEAD_BYTES) -> bytes:
    """The first ``size`` decompressed bytes of a text file; `UserError` for what is no readable text file."""
    try:
        with _open_binary(path) as stream:
            head = stream.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from None
    if not head:
        raise UserError(f"{path}: the file is empty", "give a trace with at least one job")
    for magic, packer in _OTHER_PACKERS.items():
        if head.startswith(magic):
            raise UserError(f"{path}: this is {packer} data", "unpack or convert it to text (gzip is read as it is)")
    if _looks_binary(head):
        raise UserError(f"{path}: this is binary data, not a text trace", "give a CSV or SWF file, plain or gzip")
    return head


def lines(path: Path) -> Iterator[str]:
    """The lines of a text file, decompressed on the way, line ends kept as ``\\n``; `UserError` where it is damaged."""
    number = 0
    encoding = _encoding(read_head(path))
    try:
        with (
            _open_binary(path) as stream,
            io.TextIOWrapper(stream, encoding=encoding, errors="replace") as text,
        ):
            for number, line in enumerate(_bounded(text), start=1):  # noqa: B007 (told in the error below)
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, error, number) from None
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror or error} after line {number}", "check the disk and try again"
        ) from None


def _bounded(text: io.TextIOWrapper) -> Iterator[str]:
    """The lines, of an endless one only its beginning."""
    while line := text.readline(_LONGEST_LINE_CHARS):
        if len(line) == _LONGEST_LINE_CHARS and not line.endswith("\n"):
            while (rest := text.readline(_LONGEST_LINE_CHARS)) and not rest.endswith("\n"):
                pass
        yield line


def _by_name(name: str) -> TraceFormat:
    reader: TraceFormat = load(TRACE_FORMATS, name)()
    return reader


def _by_content(path: Path, head: bytes) -> TraceFormat:
    for name in format_names():
        reader = _by_name(name)
        if reader.matches(path, head):
            return reader
    if _looks_like_a_table(head):
        return _by_name(_TABLE_FORMAT)  # which says what columns there are and how to map them
    raise UserError(
        f"{path}: not recognised as any known trace format ({', '.join(format_names())})",
        "name one with --format; a CSV needs a header line with submit time, duration and gpus",
    )


def _looks_like_a_table(head: bytes) -> bool:
    rows = [row for row in head.decode(_encoding(head), "replace").splitlines() if row.strip()][:2]
    return any(0 < rows[0].count(mark) == rows[-1].count(mark) for mark in ",;\t|") if rows else False


def _at_least_one(path: Path, records: Iterator[JobRecord], notes: TraceNotes) -> Iterator[JobRecord]:
    found = False
    for record in records:
        found = True
        yield record
    if not found:
        why = ", ".join(f"{count} x {reason}" for reason, count in notes.skipped.items()) or "no rows after the header"
        raise UserError(f"{path}: no usable job in it ({why})", "check the columns and units")


def _open_binary(path: Path) -> BinaryIO:
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a folder", "give a trace file")
        if not path.exists():
            raise UserError(f"{path}: no such file", "check the path")
        if not path.is_file():
            raise UserError(f"{path}: not a regular file", "save it to a file first: a trace is read twice")
        raw = path.open("rb")
    except PermissionError:
        raise UserError(f"{path}: permission denied", "make it readable (chmod +r) or run as its owner") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: can not be opened: {reason}", "check the path") from None
    if raw.peek(2)[:2] == _GZIP_MAGIC:
        # The outer buffer turns many small decompressions into few.
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), 1 << 18)
    return raw


def _encoding(head: bytes) -> str:
    return next((encoding for mark, encoding in _BOMS.items() if head.startswith(mark)), "utf-8")


def _looks_binary(head: bytes) -> bool:
    text = head.decode(_encoding(head), "replace")
    garbage = sum(1 for c in text if c == "\ufffd" or (c < " " and c not in "\t\r\n\f\v\x1b"))
    return garbage > _MAX_GARBAGE_SHARE * len(text)


def _damaged(path: Path, error: Exception, line: int | None = None) -> UserError:
    where = f" after line {line}" if line else ""
    what = "ends early" if isinstance(error, EOFError) else "is damaged"
    return UserError(f"{path}: its gzip data {what}{where}", "copy or download the file again")
