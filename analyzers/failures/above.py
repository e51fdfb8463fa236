"""The nearest line above one that has a time: what has none itself is dated by it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.failures.block import Block
from analyzers.failures.hosts import Labels
from analyzers.failures.matcher import LINE_CHARS
from analyzers.failures.recognise import TIME_WITHIN_LINES

_CLOCK = re.compile(r"\d\d:\d\d:\d\d|\b1\d{9}\b")
_CLOCK_CHARS = 200
#: What a bar shows one after the other are no lines of the log; so many of them are looked at.
_MOST_DRAWINGS = 400


@dataclass(slots=True)
class Above:
    """Looks upward from one line after the other, at each line once."""

    _block: Block | None = None
    _looked_to: int = -1
    _found: int = -1
    _line: str = ""

    def dated(self, block: Block, index: int, labels: Labels) -> list[str]:
        """The nearest line of the block with a time, not too far above; none where there is none."""
        if block is not self._block:
            self._block, self._looked_to, self._found = block, -1, -1
        lowest = max(0, index - _MOST_DRAWINGS, block.after(block.number(index) - TIME_WITHIN_LINES - 1))
        for at in range(index - 1, max(lowest - 1, self._looked_to), -1):
            line = block.line(at)
            if _CLOCK.search(line[:_CLOCK_CHARS]) and labels.prefix(line[:LINE_CHARS]).time is not None:
                self._found, self._line = at, line
                break
        self._looked_to = index - 1
        return [self._line] if self._found >= lowest else []
