"""Finds, in a block of many lines, the few that some pattern may fit.

One automaton (hyperscan) scans the block for all patterns at once; where it is not installed, or would take longer to
compile than the log to read, one combined regular expression marks the lines. Either way Python's own `re` has the last
word on the single line, so both give the same answer.

Where patterns fit almost everywhere, not every match is told: of each stretch of `STRETCH_BYTES` the first of each
pattern, and at the end all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from analyzers.compiled import database
from analyzers.failures.block import Block

#: What is looked at of one line; a longer one is cut, so no pattern can run for long.
LINE_CHARS = 4096
STRETCH_BYTES = 16 * 1024
_NAMED = re.compile(r"\(\?P<\w+>")
#: Escapes, classes, wide gaps, and every other character.
_TOKENS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.\{0?,\d{3,4}\}|.", re.S)

#: (offset behind a match, index of the pattern)
Hit = tuple[int, int]


class Candidates(NamedTuple):
    """The patterns that may fit, both ascending, by the line's index in the block; and how many matches that were."""

    lines: dict[int, tuple[int, ...]]
    matches: int


@lru_cache(maxsize=4096)
def compiled_pattern(expression: str) -> re.Pattern[str]:
    """Compiled on first use: most patterns fit no line of a log."""
    return re.compile(expression)


def behind_gap(expression: str) -> str:
    """What stands behind the first wide gap (``.{0,200}``) of an expression, which fits wherever the expression does
    and is scanned for several times as fast; the expression itself where there is no gap, or not in all of it."""
    depth, found = 0, ""
    for token in _TOKENS.finditer(expression):
        text = token[0]
        if depth == 0 and text == "|":
            return expression
        if depth == 0 and not found and len(text) > 2 and text.startswith(".{"):
            found = expression[token.end() :]
        depth += (text == "(") - (text == ")")
    return found or expression


class Matcher:
    """Finds lines for all patterns. ``automaton``: True to compile one where possible, False to do without, None to
    use one that was kept."""

    def __init__(self, expressions: Sequence[str], automaton: bool | None = True) -> None:
        self.expressions = tuple(expressions)
        self._unnamed = [_NAMED.sub("(?:", expression) for expression in expressions]
        self._scanned = [behind_gap(expression) for expression in self._unnamed]
        self._automaton = None if automaton is False else self._database(once=False, must=bool(automaton))

    def fits(self, number: int, text: str) -> bool:
        """Whether a pattern fits this line."""
        return compiled_pattern(self.expressions[number]).search(text[:LINE_CHARS]) is not None

    @property
    def is_compiled(self) -> bool:
        """Whether an automaton is at work."""
        return self._automaton is not None

    def candidates(self, block: Block, most: int | None = None, ending_bytes: int = 0) -> Candidates:
        """The lines that some pattern may fit. After ``most`` matches only some of each kind are told, but for the
        last bytes of the block."""
        if self._automaton is None:
            return self._combined(block)
        hits = self._hits(block.data, most, ending_bytes)
        return Candidates(_by_line(block, sorted(hits)), len(hits))

    def _hits(self, data: bytes, most: int | None, ending_bytes: int) -> list[Hit]:
        found, told = every(self._automaton, data, 0, len(data), most)
        if told < len(data):
            ending = data.find(b"\n", max(told, len(data) - ending_bytes)) + 1 or len(data)
            found += self._some(data, told, ending)
            found += every(self._automaton, data, ending, len(data))[0]
        return found

    def _some(self, data: bytes, start: int, stop: int) -> list[Hit]:
        found: list[Hit] = []

        def seen(number: int, _: int, end: int, flags: int, context: Any) -> None:
            found.append((start + end, number))

        while start < stop:
            until = min(start + STRETCH_BYTES, stop)
            if until < stop:
                until = data.rfind(b"\n", start, until) + 1 or data.find(b"\n", until, stop) + 1 or stop
            self._once.scan(data[start:until], match_event_handler=seen)
            start = until
        return found

    @cached_property
    def _once(self) -> Any:
        return self._database(once=True, must=True)

    def _database(self, once: bool, must: bool) -> Any | None:
        try:
            import hyperscan
        except ImportError:
            return None
        flags = hyperscan.HS_FLAG_MULTILINE | hyperscan.HS_FLAG_ALLOWEMPTY
        flags |= hyperscan.HS_FLAG_SINGLEMATCH if once else 0
        try:
            return database(self._scanned, [flags] * len(self._scanned), must=must)
        except ValueError:
            return None

    def _combined(self, block: Block) -> Candidates:
        """Without an automaton: one alternation says which lines are worth trying each pattern on."""
        numbers = range(len(self.expressions))
        found = {
            index: tuple(number for number in numbers if self.fits(number, line))
            for index, line in enumerate(block.lines(0, len(block)))
            if self._any_of.search(line[:LINE_CHARS])
        }
        return Candidates(found, sum(map(len, found.values())))

    @cached_property
    def _any_of(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{expression})" for expression in self._unnamed))


def _by_line(block: Block, hits: Sequence[Hit]) -> dict[int, tuple[int, ...]]:
    """Hits, in order, as the patterns that may fit each line."""
    found: dict[int, list[int]] = {}
    told: list[int] = []
    behind = -1
    for end, number in hits:
        if end > behind:
            index, behind = block.line_at(end - 1 if end else 0)
            told = found[index] = []
        if number not in told:
            told.append(number)
    return {index: tuple(sorted(told)) if len(told) > 1 else (told[0],) for index, told in found.items()}


def every(database: Any, data: bytes, start: int, stop: int, most: int | None = None) -> tuple[list[Hit], int]:
    """All matches between two offsets that are lines' beginnings, and the offset up to which they are told: where
    there are more than ``most``, the beginning of the line in which counting stopped."""
    from hyperscan import ScanTerminated

    found: list[Hit] = []
    if start >= stop or most == 0:
        return found, start

    def seen(number: int, _: int, end: int, flags: int, context: Any) -> bool | None:
        found.append((start + end, number))
        return None if most is None or len(found) < most else True

    try:
        database.scan(data[start:stop], match_event_handler=seen)
    except ScanTerminated:
        told = data.rfind(b"\n", start, max(start, found[-1][0] - 1)) + 1 or start
        return [hit for hit in found if hit[0] <= told], told
    return found, stop
