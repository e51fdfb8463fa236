"""Feeds a file's lines to the tracker; of a large file only its beginning and its end are read line by line.

What is between them is sampled: some lines of each shape at first, then those that a compiled scanner points at.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from analyzers.logs import worth
from analyzers.logs.blockscan import BlockScanner, stretches
from analyzers.logs.intake import KEPT_BYTES, LogFile, clean, count_lines, read_blocks, segments
from analyzers.logs.tracker import Tracker

#: Of lines that look alike, this many per block are read before sampling sets in.
_ALIKE = 24
_SHAPE_BYTES = 48
_MAX_SHAPES = 20_000
#: No more lines of a block are read by their shape, where hardly two are alike.
_MOST_BY_SHAPE = 2000
_DIGITS = b"0123456789.,:-"
_BREAKS = re.compile(rb"[\r\x08]+")
_KIB = 1024
#: Instead of a pattern's index: a line that is read because it is the last of its kind, or as a sample.
_LAST, _SAMPLE = -2, -1


@dataclass(frozen=True, slots=True)
class Detail:
    """How many bytes of one file are read line by line at its beginning (configuration, totals) and at its end (the
    present), and how many between them by the shape of the lines before only the scanner's finds are read."""

    head_bytes: int = 512 * _KIB
    by_shape_bytes: int = 8192 * _KIB
    tail_bytes: int = 768 * _KIB

    @staticmethod
    def of_each(files: int) -> Detail:
        """What can be afforded for each of so many files."""
        if files <= 4:
            return Detail()
        share = max(16 * _KIB, 4 * 768 * _KIB // files)
        return Detail(share, 2 * share, share)


def feed(file: LogFile, tracker: Tracker, warn: Callable[[str], None], detail: Detail | None = None) -> None:
    """Read the whole file into ``tracker`` (after its `begin`)."""
    feed_blocks(read_blocks(file, warn), tracker, detail or Detail())


def feed_blocks(blocks: Iterable[tuple[int, bytes]], tracker: Tracker, detail: Detail) -> None:
    """Read blocks of lines that follow on each other, each with the number of its first line."""
    middle = _Middle(tracker, detail.by_shape_bytes)
    waiting: deque[tuple[int, bytes]] = deque()
    held, head_left = 0, detail.head_bytes
    for number, block in blocks:
        if head_left > 0:
            beginning, number, block = _split(number, block, head_left)
            head_left -= len(beginning[1]) + 1
            _whole(*beginning, tracker)
            if not block:
                continue
        waiting.append((number, block))
        held += len(block)
        while held - len(waiting[0][1]) >= detail.tail_bytes:
            held -= len(waiting[0][1])
            middle.read(*waiting.popleft())
    if held > detail.tail_bytes:
        before, number, block = _split(*waiting.popleft(), held - detail.tail_bytes)
        middle.read(*before)
        waiting.appendleft((number, block))
    for number, block in waiting:
        _whole(number, block, tracker)


def _split(number: int, block: bytes, at: int) -> tuple[tuple[int, bytes], int, bytes]:
    """A block parted at the first line's end (or bar's redrawing) behind ``at``: the numbered front, and the rest."""
    cuts = [cut for cut in (block.find(b"\n", at), block.find(b"\r", at)) if at < len(block) and cut >= 0]
    cut = min(cuts, default=-1)
    is_line = block[cut : cut + 1] == b"\n"
    if cut < 0:
        return (number, block), number, b""
    front = block[:cut]
    return (number, front), number + front.count(b"\n") + is_line, block[cut + 1 :]


def _whole(number: int, block: bytes, tracker: Tracker) -> None:
    if not block:
        return
    for line in clean(block).split("\n"):
        for text in segments(line) if "\r" in line or "\b" in line else (line,):
            tracker.line(number, text)
        number += 1


@dataclass
class _Middle:
    """What lies between a file's beginning and its end: passed over for the most part."""

    tracker: Tracker
    by_shape_left: int
    _shapes: dict[bytes, _Shape] = field(default_factory=dict)

    def read(self, number: int, block: bytes) -> None:
        """Read what is worth it; the tracker is told of the gaps."""
        if self.by_shape_left > 0:
            front, number, block = _split(number, block, self.by_shape_left)
            self.by_shape_left -= len(front[1]) + 1
            self._by_shape(*front)
        if block:
            scanner = worth.scanner() if b"\b" not in block else None
            if scanner is None:
                self._by_shape(number, block)
            else:
                self._by_scan(number, block, scanner)
        self.tracker.gap()

    def _by_shape(self, number: int, block: bytes) -> None:
        """Some of each shape of line: the first ones, ever fewer of those that keep coming, the last one.

        Works on bytes, because most lines are never looked at further.
        """
        parts: list[tuple[int, bytes, bytes]] = []
        last: dict[bytes, int] = {}
        for line in block.split(b"\n"):
            for part in _BREAKS.split(line) if b"\b" in line else line.split(b"\r"):
                shape = part[:_SHAPE_BYTES].translate(None, _DIGITS)
                last[shape] = len(parts)
                parts.append((number, part, shape))
            number += 1
        seen: dict[bytes, int] = {}
        due = []
        for index, (_, _, shape) in enumerate(parts):
            count = seen[shape] = seen.get(shape, 0) + 1
            if count <= _ALIKE or not count & 63 or index == last[shape]:
                due.append(index)
        before = -1
        for index in due[:: len(due) // _MOST_BY_SHAPE + 1]:
            if index != before + 1:
                self.tracker.gap()
            before = index
            number, part, _ = parts[index]
            self.tracker.line(number, clean(part))

    def _by_scan(self, number: int, block: bytes, scanner: BlockScanner) -> None:
        """The lines that the scanner points at, ever fewer of those that look alike; before them the epoch's own."""
        walk = _Walk(self.tracker, number, block)
        epoch: int | None = None
        for end, pattern in worth_reading(block, scanner):
            if end <= walk.done:
                continue
            if pattern == worth.EPOCH:
                epoch = end
                continue
            start, stop = walk.line_around(end)
            key = block[start : start + _SHAPE_BYTES].translate(None, _DIGITS)
            shape = self._shapes.get(key) or self._new_shape(key)
            shape.count += 1
            if pattern != _LAST and not worth.is_save(pattern) and not shape.is_due():
                continue
            if epoch is not None:
                walk.take(*walk.line_around(epoch))
                epoch = None
            shape.fruitless = 0 if walk.take(start, stop) else shape.fruitless + 1
        if epoch is not None:
            walk.take(*walk.line_around(epoch))

    def _new_shape(self, key: bytes) -> _Shape:
        if len(self._shapes) >= _MAX_SHAPES:
            self._shapes.clear()
        return self._shapes.setdefault(key, _Shape())


def worth_reading(block: bytes, scanner: BlockScanner) -> list[tuple[int, int]]:
    """The scanner's hits, with a sample of each stretch and the last line before a dense pattern falls silent."""
    hits = scanner.hits(block)
    found = list(hits)
    at = 0
    before: frozenset[int] = frozenset()
    earlier, start_before = before, 0
    for start, until in (*stretches(block), (len(block), len(block) + 1)):
        here = at
        while at < len(hits) and hits[at][0] <= until:
            at += 1
        present = frozenset(pattern for _, pattern in hits[here:at])
        for pattern in before & earlier - present:
            if worth.is_progress(pattern) and (last := scanner.last(block, start_before, start, pattern)) is not None:
                found.append((last, _LAST))
        earlier, before, start_before = before, present, start
        if start < len(block):
            found.append((start + 1, _SAMPLE))
    found.sort()
    return found


@dataclass(slots=True)
class _Shape:
    """How often the scanner pointed at lines of one shape, and how many of those read lately said nothing."""

    count: int = 0
    fruitless: int = 0

    def is_due(self) -> bool:
        """Whether the line is to be read: ever fewer of a shape that keeps coming, fewest of one that says nothing."""
        if self.count <= _ALIKE:
            return True
        return self.count & (63 if self.fruitless >= _ALIKE // 2 else 1 if self.count <= 2048 else 3) == 0


class _Walk:
    """Hands single lines of a block to the tracker, in order; ``done`` is where the last one ended."""

    def __init__(self, tracker: Tracker, number: int, block: bytes) -> None:
        self.done = -1
        self._tracker = tracker
        self._number, self._counted = number, 0
        self._block = block
        self._has_bars = b"\r" in block

    def line_around(self, end: int) -> tuple[int, int]:
        """Where the line (or the drawing of a bar) that a match ended in begins and ends."""
        block = self._block
        inside = end - 2 if block[end - 1 : end] in (b"\n", b"\r") else end - 1
        lowest = max(0, inside - KEPT_BYTES)
        start = block.rfind(b"\n", lowest, inside + 1)
        stop = block.find(b"\n", inside + 1)
        stop = len(block) if stop < 0 else stop
        if self._has_bars:
            start = max(start, block.rfind(b"\r", lowest, inside + 1))
            bar = block.find(b"\r", inside + 1, stop)
            stop = bar if bar >= 0 else stop
        return max(start + 1, lowest), stop

    def take(self, start: int, stop: int) -> bool:
        """Read one line, if it comes after the last one; True when it said something."""
        if start <= self.done:
            return False
        if start > self.done + 1:
            self._tracker.gap()
        self._number += count_lines(self._block, self._counted, start)
        self._counted, self.done = start, stop
        return self._tracker.line(self._number, clean(self._block[start : min(stop, start + KEPT_BYTES)]))
