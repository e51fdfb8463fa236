"""Which of the lines that some pattern fits are read: all of them, until lines that look alike keep coming.

What is left out is never the first lines of a kind nor, in each block, the last one; and a line that is read brings
with it the lines around it that tell what it means (the beginning of its traceback, what says that it was handled).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from analyzers.failures.block import Block

_SHAPE_BYTES = 96
_MOST_SHAPES = 20_000
_DIGITS = b"0123456789"
_RANK = re.compile(rb"(?:[Rr]ank|RANK|default|task)[ _=:]{0,2}(\d{1,6})|^(\d{1,6}): |^\[\d+,(\d{1,6})\]")
#: What is left of that without digits: lines of a shape in which it isn't tell no rank.
_RANK_SHAPE = re.compile(rb"[Rr]ank|RANK|default|task|^: |^\[,\]")
#: A traceback begins no further above the exception that it ends with.
_ABOVE_BYTES = 8 * 1024
_BEGINS = (b"Traceback (most recent call last)", b"Traceback (innermost last)", b"Exception Group Traceback")
_IGNORES = (b"Exception ignored in", b"unraisablehook", b"Error in atexit")

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
class _Kind:
    """Lines that the same patterns fit: how many so far, and the last one in the block."""

    count: int
    is_always: bool
    is_after: bool
    last: int = -1


@dataclass(slots=True)
class _Alike:
    """Lines that look alike: how many so far, and the last one in the block."""

    key: Key
    count: int
    kind: _Kind
    last: int = -1


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
    _may_tell_rank: dict[bytes, bool] = field(default_factory=dict)
    _has_gaps: bool = False

    def forget(self) -> None:
        """What comes now counts anew."""
        self._seen.clear()
        self._of_kind.clear()

    def due(
        self, block: Block, worth: Mapping[int, tuple[int, ...]], since: int, is_last: bool, is_sample: bool
    ) -> list[int]:
        """The indexes of the lines to read, ascending, from one on. ``is_last``: the file ends with this block;
        ``is_sample``: not all lines that are worth it are told."""
        indexes = sorted(index for index in worth if index >= since)
        if len(self._seen) > _MOST_SHAPES:
            self._seen.clear()
        if len(self._may_tell_rank) > _MOST_SHAPES:
            self._may_tell_rank.clear()
        lines = list(zip(indexes, self._alike(block, indexes, worth), strict=True))
        ending = indexes[-self.share.lines] if is_last and len(indexes) > self.share.lines else 0
        wanted = {index for index, alike in lines if self._is_due(index, alike, is_last and index >= ending)}
        for alike in {id(alike): alike for _, alike in lines}.values():
            self._seen[alike.key], self._of_kind[alike.key[0]] = alike.count, alike.kind.count
        self._has_gaps = self._has_gaps or is_sample or len(wanted) < len(indexes)
        if self._has_gaps:
            wanted.update(self._beginnings(block, wanted))
            wanted.update(self._said_after(lines, wanted))
        return sorted(wanted)

    def _is_due(self, index: int, alike: _Alike, is_ending: bool) -> bool:
        """Whether the next line that looks so is read. ``is_ending``: it is among the last ones of the file."""
        kind, share = alike.kind, self.share
        alike.count += 1
        kind.count += 1
        return (
            (alike.count <= share.alike and kind.count <= share.lines)
            or kind.last == index
            or (alike.last == index and (kind.count <= 2 * share.lines or is_ending))
            or (kind.is_always and kind.count <= share.matches)
        )

    def _alike(self, block: Block, indexes: list[int], worth: Mapping[int, tuple[int, ...]]) -> list[_Alike]:
        """For each line, those of the block that look like it."""
        kinds: dict[tuple[int, ...], _Kind] = {}
        groups: dict[Key, _Alike] = {}
        found: list[_Alike] = []
        for index in indexes:
            key = self._key(block, index, worth[index])
            alike = groups.get(key)
            if alike is None:
                kind = kinds.get(key[0])
                if kind is None:
                    always, after = not self.always.isdisjoint(key[0]), not self.after.isdisjoint(key[0])
                    kind = kinds[key[0]] = _Kind(self._of_kind.get(key[0], 0), always, after)
                alike = groups[key] = _Alike(key, self._seen.get(key, 0), kind)
            alike.last = alike.kind.last = index
            found.append(alike)
        return found

    def _key(self, block: Block, index: int, numbers: tuple[int, ...]) -> Key:
        """What lines have in common that look alike: the patterns that fit, the rank, the beginning without digits."""
        data, begin = block.data, block.start(index)
        head = data[begin : data.find(b"\n", begin, begin + _SHAPE_BYTES) + 1 or begin + _SHAPE_BYTES]
        shape = head.translate(None, _DIGITS)
        may_tell = self._may_tell_rank.get(shape)
        if may_tell is None:
            may_tell = self._may_tell_rank[shape] = _RANK_SHAPE.search(shape) is not None
        found = _RANK.search(head) if may_tell else None
        return numbers, found[0] if found else b"", shape

    def _beginnings(self, block: Block, wanted: set[int]) -> set[int]:
        """The last line above each one that a stack begins with, and the last that says that one is ignored."""
        ends = [block.start(index) for index in sorted(wanted)]
        found: set[int] = set()
        for kind in (_BEGINS, _IGNORES):
            at = sorted(place for words in kind for place in _places(block.data, words, ends))
            for end in ends if at else ():
                near = bisect_left(at, end) - 1
                if near >= 0 and at[near] >= end - _ABOVE_BYTES:
                    found.add(block.index_of(at[near] + 1))
        return found

    def _said_after(self, lines: list[tuple[int, _Alike]], wanted: set[int]) -> list[int]:
        return [
            index
            for index, alike in lines
            if alike.kind.is_after and not wanted.isdisjoint(range(index - self.after_lines, index))
        ]


def _places(data: bytes, words: bytes, ends: Sequence[int]) -> Iterator[int]:
    """Where words stand in the stretches above some offsets, which ascend."""
    done = 0
    for end in ends:
        at = data.find(words, max(done, end - _ABOVE_BYTES), end)
        while at >= 0:
            yield at
            at = data.find(words, at + len(words), end)
        done = max(done, end - len(words) + 1)
