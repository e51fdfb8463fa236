"""Whether what an answer cites stands in what was sent, literally."""

from __future__ import annotations

from collections.abc import Sequence

#: A shorter quote says nothing, unless it is the whole line or stands in the very line that is named.
_SHORTEST_CHARS, _SHORTEST_IN_NAMED_CHARS = 8, 3


def cited(number: int, quote: str, lines: Sequence[str]) -> int | None:
    """The index of the line that holds ``quote``: the ``number``-th (from 1) where it does, else the first that does;
    None where none does."""
    text = quote.strip()
    if 0 < number <= len(lines) and len(text) >= _SHORTEST_IN_NAMED_CHARS and text in lines[number - 1]:
        return number - 1
    for index, line in enumerate(lines):
        if text and text in line and (len(text) >= _SHORTEST_CHARS or text == line.strip()):
            return index
    return None
