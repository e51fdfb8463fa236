"""Whether what an answer cites stands in what was sent, literally."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

#: A shorter quote says nothing, unless it is the whole line.
_SHORTEST_CHARS = 8


def cited(number: int, quote: str, lines: Sequence[str]) -> int | None:
    """The index of the line that holds ``quote``: the ``number``-th (from 1) where it does, else the first that does;
    None where none does."""
    text = quote.strip()
    named = range(number - 1, number) if 0 < number <= len(lines) else range(0)
    for index in chain(named, range(len(lines))):
        line = lines[index]
        if text and text in line and (len(text) >= _SHORTEST_CHARS or text == line.strip()):
            return index
    return None
