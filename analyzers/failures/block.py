"""Lines of a file that follow on each other, as clean UTF-8; a line becomes text when somebody asks for it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from analyzers.logs.intake import clean, segments


class Block:
    """Some lines of a file. What a bar showed one after the other on one line are lines of their own here, so indexes
    (from 0) and the numbers of lines in the file are two things; ``first`` is the number of the first one."""

    __slots__ = ("_numbers", "_starts", "data", "first")

    def __init__(self, first: int, raw: bytes) -> None:
        self.first = first
        self.data = _utf8(raw)
        self._numbers: list[int] = []
        self._starts: list[int] = []
        if b"\r" in self.data or b"\b" in self.data:
            self._part_drawings()

    def _part_drawings(self) -> None:
        parts: list[str] = []
        for number, line in enumerate(self.data.decode("utf-8", "replace").split("\n"), self.first):
            shown = segments(line) if "\r" in line or "\b" in line else (line,)
            parts.extend(shown)
            self._numbers.extend([number] * len(shown))
        self.data = "\n".join(parts).encode("utf-8", "replace")

    def __deepcopy__(self, _: dict[int, object]) -> Block:
        return self  # nothing changes it

    def __len__(self) -> int:
        return len(self.starts)

    def number(self, index: int) -> int:
        """The number that a line has in the file."""
        return self._numbers[index] if self._numbers else self.first + index

    def after(self, number: int) -> int:
        """The index of what follows the line of this number."""
        after = bisect_right(self._numbers, number) if self._numbers else number - self.first + 1
        return min(max(0, after), len(self))

    def ends_line(self, index: int) -> bool:
        """Whether nothing else is shown on the same line after it."""
        return index + 1 == len(self) or self.number(index + 1) != self.number(index)

    @property
    def starts(self) -> list[int]:
        """Where each line begins in ``data``."""
        if not self._starts:
            widths = map((1).__add__, map(len, self.data.split(b"\n")))
            self._starts = list(accumulate(widths, initial=0))
            self._starts.pop()
        return self._starts

    def index_of(self, end: int) -> int:
        """The line that a match which ends at this offset ends in."""
        return bisect_right(self.starts, max(0, end - 1)) - 1

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """The offsets between which the lines from one index to before another stand."""
        starts = self.starts
        return starts[start], starts[stop] if stop < len(starts) else len(self.data)

    def line(self, index: int) -> str:
        """One line without its end."""
        start, stop = self.span(index, index + 1)
        return self.data[start:stop].decode("utf-8", "replace").removesuffix("\n")

    def lines(self, start: int, stop: int) -> list[str]:
        """The lines from one index to before another, as far as there are any."""
        start, stop = max(0, start), min(stop, len(self))
        if start >= stop:
            return []
        begin, end = self.span(start, stop)
        text = self.data[begin:end].decode("utf-8", "replace")
        return (text.removesuffix("\n") if stop < len(self) else text).split("\n")


def _utf8(raw: bytes) -> bytes:
    """As `clean` makes it, without decoding what is clean already."""
    if b"\r" in raw:  # one byte is looked for much faster than several
        raw = raw.replace(b"\r\n", b"\n")
    escaped = b"\x1b" in raw or (b"#" in raw and b"#033[" in raw) or (b"^" in raw and b"^[[" in raw)
    if not escaped and (raw.isascii() or _is_utf8(raw)):
        return raw
    return clean(raw).encode("utf-8", "replace")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
