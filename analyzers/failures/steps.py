"""Finds lines of progress between two lines of a block: all of them, or the first and the last ones.

What makes a line of progress is slow to tell, so a compiled matcher first looks for what each of them has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from analyzers.compiled import database
from analyzers.failures.block import Block
from analyzers.failures.marks import PROGRESS, PROGRESS_HAS
from analyzers.failures.matcher import LINE_CHARS, every
from prompts.redaction import shortened

#: Lines looked at together at first, and at most.
_FEW_LINES, _MANY_LINES = 32, 1024
#: After so many lines of one shape that proved to be no progress, only every so manieth is tried.
_FRUITLESS, _TRIED_OF = 32, 16
_SHAPE_BYTES = 40
_MOST_SHAPES = 5000
_DIGITS = b"0123456789.,:-"


class Step(NamedTuple):
    """A line of progress: its index in the block and what it says."""

    line: int
    text: str


class Steps:
    """Finds lines of progress in the blocks of one file."""

    def __init__(self) -> None:
        self._fruitless: dict[bytes, int] = {}

    def forward(self, block: Block, start: int, stop: int) -> Iterator[Step]:
        """Every line of progress from one index to before another."""
        size = _FEW_LINES
        while start < stop:
            until = min(stop, start + size)
            for index in self._worth(block, start, until):
                if step := self._read(block, index):
                    yield step
            start, size = until, min(2 * size, _MANY_LINES)

    def backward(self, block: Block, start: int, stop: int) -> Iterator[Step]:
        """Every line of progress from the end to the beginning."""
        size = _FEW_LINES
        while start < stop:
            since = max(start, stop - size)
            for index in reversed(list(self._worth(block, since, stop))):
                if step := self._read(block, index):
                    yield step
            stop, size = since, min(2 * size, _MANY_LINES)

    def _worth(self, block: Block, start: int, stop: int) -> Iterable[int]:
        found = _database()
        if found is None:
            return range(start, stop)
        hits, _ = every(found, block.data, *block.span(start, stop))
        return sorted({block.index_of(end) for end, _ in hits})

    def _read(self, block: Block, index: int) -> Step | None:
        begin, end = block.span(index, index + 1)
        shape = block.data[begin : min(end, begin + _SHAPE_BYTES)].translate(None, _DIGITS)
        failed = self._fruitless.get(shape, 0)
        if failed > _FRUITLESS and failed % _TRIED_OF:
            self._fruitless[shape] = failed + 1
            return None
        text = shortened(block.line(index), LINE_CHARS).rstrip()
        if is_progress(text):
            self._fruitless.pop(shape, None)
            return Step(index, text)
        if len(self._fruitless) > _MOST_SHAPES:
            self._fruitless.clear()
        self._fruitless[shape] = failed + 1
        return None


def is_progress(text: str) -> bool:
    """Whether a line reports a step of the training (a tracker's summary does not)."""
    return PROGRESS.search(text) is not None and not text.startswith("wandb:")


@lru_cache(maxsize=1)
def _database() -> Any | None:
    try:
        import hyperscan
    except ImportError:
        return None
    return database(PROGRESS_HAS, [hyperscan.HS_FLAG_MULTILINE] * len(PROGRESS_HAS))
