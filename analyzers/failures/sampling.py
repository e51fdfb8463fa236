"""Which of the lines that some pattern fits are read: all of them, until lines that look alike keep coming.

What is left out is never the first lines of a kind nor, in each block, the last one; and a line that is read brings
with it the lines around it that tell what it means (the beginning of its traceback, what says that it was handled).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analyzers.failures.block import Block

_SHAPE_BYTES = 96
_MOST_SHAPES = 20_000
_DIGITS = b"0123456789"
_RANK = re.compile(rb"(?:[Rr]ank|RANK|default|task)[ _=:]{0,2}(\d{1,6})|^(\d{1,6}): |^\[\d+,(\d{1,6})\]")
#: A traceback begins no further above the exception that it ends with.
_ABOVE_BYTES = 8 * 1024
_BEGINS = re.compile(
    rb"Traceback \((?:most recent|innermost)|Exception Group Traceback|Exception ignored in|unraisablehook"
    rb"|Error in atexit"
)

Key = tuple[tuple[int, ...], bytes, bytes]


@dataclass(frozen=True, slots=True)
class Share:
    """How much of one file is looked at closely, given how many files there are: lines of one shape, lines of one
    kind, lines of progress, lines at its beginning that tell who runs where, matches before they are sampled, and bytes
    at its end where they never are."""

    alike: int
    lines: int
    steps: int
    head: int
    matches: int
    ending_bytes: int

    @staticmethod
    def of_each(files: int) -> Share:
        """What can be afforded for each of so many files."""
        files = max(1, files)
        return Share(
            alike=max(6, min(400, 12_000 // files)),
            lines=max(60, min(4000, 80_000 // files)),
            steps=max(48, min(20_000, 100_000 // files)),
            head=max(24, min(80, 20_000 // files)),
            matches=max(1000, min(100_000, 1_000_000 // files)),
            ending_bytes=max(16 * 1024, min(64 * 1024, 16 * 1024 * 1024 // files)),
        )


@dataclass(slots=True)
class Sampling:
    """Chooses, block by block, the lines of one file that are read. ``always``: patterns of which no line is left out;
    ``after``: those that say something of the line just above."""

    share: Share
    always: frozenset[int]
    after: frozenset[int]
    after_lines: int
    _seen: dict[Key, int] = field(default_factory=dict)
    _of_kind: dict[tuple[int, ...], int] = field(default_factory=dict)

    def forget(self) -> None:
        """What comes now counts anew."""
        self._seen.clear()
        self._of_kind.clear()

    def due(self, block: Block, worth: Mapping[int, Sequence[int]], since: int, is_last: bool) -> list[int]:
        """The indexes of the lines to read, ascending, from one on. ``is_last``: the file ends with this block."""
        indexes = sorted(index for index in worth if index >= since)
        if len(self._seen) > _MOST_SHAPES:
            self._seen.clear()
        keys = [self._key(block, index, worth[index]) for index in indexes]
        last = {key: index for index, key in zip(indexes, keys, strict=True)}
        last_of_kind = {key[0]: index for index, key in zip(indexes, keys, strict=True)}
        ending = indexes[-self.share.lines] if is_last and len(indexes) > self.share.lines else 0
        wanted: set[int] = set()
        for index, key in zip(indexes, keys, strict=True):
            count = self._seen[key] = self._seen.get(key, 0) + 1
            crowd = self._of_kind[key[0]] = self._of_kind.get(key[0], 0) + 1
            if count <= self.share.alike and crowd <= self.share.lines:
                wanted.add(index)
            elif last_of_kind[key[0]] == index or (
                last[key] == index and (crowd <= 2 * self.share.lines or (is_last and index >= ending))
            ):
                wanted.update(self._with_beginning(block, index))
            elif not self.always.isdisjoint(key[0]) and crowd <= self.share.matches:
                wanted.add(index)
        if len(wanted) < len(indexes):
            wanted.update(self._said_after(indexes, worth, wanted))
        return sorted(wanted)

    def _key(self, block: Block, index: int, numbers: Sequence[int]) -> Key:
        begin, end = block.span(index, index + 1)
        head = block.data[begin : min(end, begin + _SHAPE_BYTES)]
        rank = _RANK.search(head)
        return tuple(numbers), rank[0] if rank else b"", head.translate(None, _DIGITS)

    def _with_beginning(self, block: Block, index: int) -> set[int]:
        """The line, and the last ones above it that a stack, or one that is ignored, begins with."""
        start, _ = block.span(index, index + 1)
        above = max(0, start - _ABOVE_BYTES)
        ends = [above + found.end() for found in _BEGINS.finditer(block.data, above, start)]
        return {index, *map(block.index_of, ends[-2:])}

    def _said_after(self, indexes: list[int], worth: Mapping[int, Sequence[int]], wanted: set[int]) -> set[int]:
        return {
            index
            for index in indexes
            if not self.after.isdisjoint(worth[index])
            and any(index - above in wanted for above in range(1, self.after_lines + 1))
        }
