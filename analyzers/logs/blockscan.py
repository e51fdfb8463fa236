"""Finds, in big blocks of bytes, where something may stand that is worth reading: compiled, many patterns at once.

The first match of each pattern in each stretch of `STRETCH_BYTES` is enough to find what is rare and to sample what is
dense; patterns of which none may be missed are given `every`. A group of patterns whose first matches are all found is
done with its stretch, so patterns that are likely to be dense cost least in groups of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

#: Of one stretch, the first match of each pattern is told.
STRETCH_BYTES = 64 * 1024
_CHUNK_BYTES = 2048


class Pattern(NamedTuple):
    """What to look for: a regular expression on bytes (``^`` and ``$`` are lines' ends), with or without case.

    It may be looser than the one that reads the line afterwards. ``every``: all matches are told.
    """

    expression: str
    caseless: bool = True
    every: bool = False


class BlockScanner:
    """Groups of patterns compiled once. `hits` gives where they match in a block; what is there the caller reads."""

    def __init__(self, databases: Sequence[Any], sizes: Sequence[int]) -> None:
        self._databases = tuple(databases)
        self._of_pattern = [number for number, size in enumerate(sizes) for _ in range(size)]

    def hits(self, block: bytes) -> list[tuple[int, int]]:
        """(offset behind the match, the pattern's index over all groups), in order of the offset."""
        found: list[tuple[int, int]] = []
        start = 0

        def seen(index: int, _: int, end: int, flags: int, context: Any) -> None:
            found.append((start + end, index))

        scans: list[Callable[..., None]] = [database.scan for database in self._databases]
        for start, until in stretches(block):
            stretch = block[start:until]
            for scan in scans:
                scan(stretch, match_event_handler=seen)
        found.sort()
        return found

    def last(self, block: bytes, start: int, stop: int, index: int) -> int | None:
        """The offset behind a match of one pattern in the last line (or bar) between two offsets that has one."""
        scan: Callable[..., None] = self._databases[self._of_pattern[index]].scan
        ends: list[int] = []

        def seen(number: int, _: int, end: int, flags: int, context: Any) -> None:
            if number == index:
                ends.append(end)

        while start < stop:
            lowest = max(start, stop - _CHUNK_BYTES)
            begin = max(block.rfind(b"\n", start, lowest), block.rfind(b"\r", start, lowest), start - 1) + 1
            scan(block[begin:stop], match_event_handler=seen)
            if ends:
                break
            stop = begin
        while start < stop:
            line = max(block.rfind(b"\n", begin, stop - 1), block.rfind(b"\r", begin, stop - 1), begin - 1) + 1
            ends.clear()
            scan(block[line:stop], match_event_handler=seen)
            if ends:
                return line + ends[0]
            if line <= begin:
                return None
            stop = line
        return None


def stretches(block: bytes) -> Iterator[tuple[int, int]]:
    """The parts of about `STRETCH_BYTES` that a block is scanned in; each ends at a line's end where there is one."""
    start = 0
    while start < len(block):
        until = start + STRETCH_BYTES
        if until < len(block):
            until = max(block.rfind(b"\n", start, until), block.rfind(b"\r", start, until)) + 1 or until
        yield start, min(until, len(block))
        start = until


def compiled(groups: Sequence[Sequence[Pattern]]) -> BlockScanner | None:
    """A scanner for groups of patterns; None where no compiled matcher is installed.

    Raises `ValueError` when one can not be compiled.
    """
    try:
        import hyperscan
    except ImportError:
        return None
    usual = hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_ALLOWEMPTY
    databases, first = [], 0
    for group in groups:
        database = hyperscan.Database()
        flags = [
            usual
            | (hyperscan.HS_FLAG_CASELESS if pattern.caseless else 0)
            | (0 if pattern.every else hyperscan.HS_FLAG_SINGLEMATCH)
            for pattern in group
        ]
        try:
            database.compile(
                expressions=[pattern.expression.encode() for pattern in group],
                ids=list(range(first, first + len(group))),
                elements=len(group),
                flags=flags,
            )
        except hyperscan.error as error:
            raise ValueError(f"cannot compile the patterns: {error}") from None
        databases.append(database)
        first += len(group)
    return BlockScanner(databases, [len(group) for group in groups])
