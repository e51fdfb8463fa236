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


@dataclass(slots=True)
class Above:
    """Looks upward from one line after the other, at each line once."""

    _looked_to: int = 0
    _number: int = 0
    _line: str = ""

    def dated(self, block: Block, index: int, labels: Labels) -> list[str]:
        """The nearest line of the block with a time, not too far above; none where there is none."""
        lowest = block.first + max(0, index - TIME_WITHIN_LINES)
        number = block.first + index - 1
        while number >= max(lowest, self._looked_to + 1):
            line = block.line(number - block.first)
            if _CLOCK.search(line[:_CLOCK_CHARS]) and labels.prefix(line[:LINE_CHARS]).time is not None:
                self._number, self._line = number, line
                break
            number -= 1
        self._looked_to = block.first + index - 1
        return [self._line] if self._number >= lowest else []
