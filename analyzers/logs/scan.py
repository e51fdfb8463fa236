"""Feeds a file's lines to the tracker; in a large file the bulk of look-alike lines is sampled, not parsed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from analyzers.logs.intake import LogFile, clean, read_blocks, segments
from analyzers.logs.tracker import Tracker

#: The beginning (configuration, totals) and the end (the present) are read line by line.
WHOLE_BLOCKS_AT_START = 1
WHOLE_BLOCKS_AT_END = 2
#: Of lines that look alike, this many per block are parsed before sampling sets in.
_ALIKE = 24
_SHAPE_BYTES = 48
_DIGITS = b"0123456789.,:-"
_BREAKS = re.compile(rb"[\r\x08]+")


def feed(file: LogFile, tracker: Tracker, warn: Callable[[str], None]) -> None:
    """Read the whole file into ``tracker`` (after its `begin`)."""
    waiting: deque[tuple[int, bytes]] = deque()
    for count, block in enumerate(read_blocks(file, warn)):
        if count < WHOLE_BLOCKS_AT_START:
            _whole(*block, tracker)
            continue
        waiting.append(block)
        if len(waiting) > WHOLE_BLOCKS_AT_END:
            _sampled(*waiting.popleft(), tracker)
    for block in waiting:
        _whole(*block, tracker)


def _whole(number: int, block: bytes, tracker: Tracker) -> None:
    for line in clean(block).split("\n"):
        for text in segments(line) if "\r" in line or "\b" in line else (line,):
            tracker.line(number, text)
        number += 1


def _sampled(number: int, block: bytes, tracker: Tracker) -> None:
    """Parse some of each shape of line: all while they are few, then ever fewer of those that keep coming.

    Works on bytes, because most lines are never looked at further.
    """
    seen: dict[bytes, int] = {}
    for line in block.split(b"\n"):
        if b"\b" in line:
            parts = _BREAKS.split(line)
        else:
            parts = line.split(b"\r")
        for part in parts:
            shape = part[:_SHAPE_BYTES].translate(None, _DIGITS)
            count = seen[shape] = seen.get(shape, 0) + 1
            if count <= _ALIKE or (count & 63) == 0:
                tracker.line(number, clean(part))
        number += 1
