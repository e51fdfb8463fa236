"""Lines to rows and rows to cells, such that one stray quote can not swallow the rest of the file."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from schedmate.ports import TraceNotes

HEADER_AGAIN = "a header line in the middle, as where dumps were put together: passed over"
#: A quoted cell (a command, say) may run over this many lines; a quote still open after that is a stray one.
MAX_LINES_OF_A_ROW = 50


def rows(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Join the lines of a row whose quotes are still open. Yields (number of its first line, text)."""
    waiting: list[tuple[int, str]] = []  # lines read ahead for a row that turned out not to close
    numbered = enumerate(lines, start=1)

    def following() -> Iterator[tuple[int, str]]:
        while waiting:
            yield waiting.pop(0)
        yield from numbered

    while True:
        first = next(following(), None)
        if first is None:
            return
        number, text = first
        if text.count('"') % 2 == 0:
            yield number, text
            continue
        taken: list[tuple[int, str]] = []
        for line in following():
            taken.append(line)
            if line[1].count('"') % 2:
                yield number, text + "".join(part for _, part in taken)
                taken = []
                break
            if len(taken) >= MAX_LINES_OF_A_ROW:
                yield number, text
                break
        else:
            yield number, text
        waiting[:0] = taken


def without_headers(numbered: Iterator[tuple[int, str]], header: str, notes: TraceNotes) -> Iterator[tuple[int, str]]:
    """The rows that are no repetition of the header line."""
    same = header.strip("\ufeff \r\n")
    for number, row in numbered:
        if row.strip("\ufeff \r\n") == same:
            notes.remark(HEADER_AGAIN)
        else:
            yield number, row


def split(row: str, delimiter: str) -> list[str]:
    """The cells of one row."""
    if '"' not in row:
        return row.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader([row], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []
