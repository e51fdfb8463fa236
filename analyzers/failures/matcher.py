"""Finds, in a block of many lines, the few that some pattern fits.

One automaton (hyperscan) scans the block for all patterns at once; where it is not installed, one combined regular
expression marks the lines first. Either way a hit is confirmed with Python's own `re` on the single line, so both
give the same answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

#: What is looked at of one line; a longer one is cut, so no pattern can run for long.
LINE_CHARS = 4096

#: Gives (line index, pattern index) pairs that may fit; never misses one that does.
Prefilter = Callable[[str, list[str]], set[tuple[int, int]]]


class Matcher:
    """All patterns compiled once. ``hits(text, lines)`` maps line indexes to the patterns that fit, both ascending."""

    def __init__(self, patterns: Sequence[re.Pattern[str]], prefilter: Prefilter | None = None) -> None:
        self.patterns = tuple(patterns)
        self._candidates = prefilter or _hyperscan(self.patterns) or combined(self.patterns)

    def hits(self, text: str, lines: list[str]) -> dict[int, list[int]]:
        """``lines`` must be ``text.split("\\n")``."""
        found: dict[int, list[int]] = {}
        for index, number in sorted(self._candidates(text, lines)):
            if self.patterns[number].search(lines[index][:LINE_CHARS]):
                found.setdefault(index, []).append(number)
        return found


def combined(patterns: tuple[re.Pattern[str], ...]) -> Prefilter:
    """Without an automaton: one alternation says which lines are worth trying each pattern on."""
    unnamed = [re.sub(r"\(\?P<\w+>", "(?:", pattern.pattern) for pattern in patterns]
    any_of = re.compile("|".join(f"(?:{pattern})" for pattern in unnamed))

    def candidates(text: str, lines: list[str]) -> set[tuple[int, int]]:
        worth = [index for index, line in enumerate(lines) if any_of.search(line[:LINE_CHARS])]
        return {(index, number) for index in worth for number in range(len(patterns))}

    return candidates


def _hyperscan(patterns: tuple[re.Pattern[str], ...]) -> Prefilter | None:
    try:
        import hyperscan
    except ImportError:
        return None
    flags = hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_ALLOWEMPTY
    expressions = [re.sub(r"\(\?P<\w+>", "(?:", pattern.pattern).encode("utf-8") for pattern in patterns]
    database = hyperscan.Database()
    try:
        database.compile(
            expressions=expressions,
            ids=list(range(len(patterns))),
            elements=len(patterns),
            flags=[flags] * len(patterns),
        )
    except hyperscan.error:
        return None

    def candidates(text: str, lines: list[str]) -> set[tuple[int, int]]:
        data = text.encode("utf-8", "replace")
        ends: set[tuple[int, int]] = set()

        def seen(number: int, start: int, end: int, flags: int, context: Any) -> None:
            ends.add((end, number))

        database.scan(data, match_event_handler=seen)
        if not ends:
            return set()
        starts = _line_starts(data)
        return {(bisect_right(starts, max(0, end - 1)) - 1, number) for end, number in ends}

    return candidates


def _line_starts(data: bytes) -> list[int]:
    starts, at = [0], data.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    return starts
