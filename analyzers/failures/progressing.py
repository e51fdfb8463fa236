"""Whether the program went on after an error: progress in the lines after it, and at the end of the file.

Between two lines that are read, what counts is who made progress at all and what the last steps were, so where one
process speaks only the first and the last steps are read; where several do, all of them, as far as can be afforded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from analyzers.failures.block import Block
from analyzers.failures.events import RECENT_STEPS
from analyzers.failures.steps import Step, Steps

#: Progress is looked for in this many lines after an error and at the end of the file.
WATCH_LINES = 3000
TAIL_LINES = 2000
_FIRST, _LAST = 2, RECENT_STEPS + 1
#: Once no more can be afforded.
_SAMPLED_FIRST, _SAMPLED_LAST = 1, 3


@dataclass(slots=True)
class Watch:
    """What is watched of one file: the lines ``since`` the first error ``until`` some time after the last one.
    ``left``: steps that can still be read one by one."""

    left: int
    since: int = 1
    until: int = 0
    _tail: list[Block] = field(default_factory=list)
    _finder: Steps = field(default_factory=Steps)

    def begin(self, line: int) -> None:
        """An error stands on this line."""
        self.since = line if self.until == 0 else self.since
        self.until = line + WATCH_LINES

    def covers(self, line: int) -> bool:
        """Whether progress on this line counts."""
        return line <= self.until

    def enter(self, block: Block) -> None:
        """The next block of the file."""
        self._tail = [*self._tail[-1:], block]

    def steps(self, block: Block, start: int, stop: int, mixed: bool) -> Iterator[Step]:
        """Progress between two lines of a block, as far as it is watched."""
        stop = min(stop, block.after(self.until))
        if start >= stop:
            return
        if self.left <= 0:
            yield from self._ends(block, start, stop, _SAMPLED_FIRST, _SAMPLED_LAST)
            return
        for step in self._read(block, start, stop, mixed):
            self.left -= 1
            yield step
            if self.left <= 0:
                yield from self._ends(block, step.line + 1, stop, _SAMPLED_FIRST, _SAMPLED_LAST)
                return

    def _ends(self, block: Block, start: int, stop: int, first: int, last: int) -> Iterator[Step]:
        """The first steps and the last ones."""
        beginning = list(islice(self._finder.forward(block, start, stop), first))
        yield from beginning
        if len(beginning) == first:
            ending = list(islice(self._finder.backward(block, beginning[-1].line + 1, stop), last))
            yield from ending[::-1]

    def ending(self, mixed: bool) -> Iterator[tuple[int, str, bool]]:
        """Progress at the end of the file that was not watched, as (line, text, whether it counts): after the watch it
        counts, before it it only dates."""
        lines = sum(map(len, self._tail))
        for counts in (False, True):
            skipped = lines - TAIL_LINES
            for block in self._tail:
                start, stop = max(0, skipped), len(block)
                skipped -= stop
                if counts:
                    start = max(start, block.after(self.until))
                else:
                    stop = min(stop, block.after(self.since - 1))
                for step in self._read(block, start, stop, mixed):
                    if block.ends_line(step.line):
                        yield block.number(step.line), step.text, counts

    def _read(self, block: Block, start: int, stop: int, mixed: bool) -> Iterator[Step]:
        if mixed:
            return self._finder.forward(block, start, stop)
        return self._ends(block, start, stop, _FIRST, _LAST)
