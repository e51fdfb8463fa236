"""Lines of a file that follow on each other, as clean UTF-8; a line becomes text when somebody asks for it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from analyzers.logs.intake import clean, segments

#: Lines are counted in pieces of so many bytes; where each line of a piece begins is looked for when somebody asks.
_PIECE_BYTES = 2048


class Block:
    """Some lines of a file. What a bar showed one after the other on one line are lines of their own here, so indexes
    (from 0) and the numbers of lines in the file are two things; ``first`` is the number of the first one."""

    __slots__ = ("_ends_to", "_numbers", "_starts", "_starts_in", "data", "first")

    def __init__(self, first: int, raw: bytes) -> None:
        self.first = first
        self.data = _utf8(raw)
        self._numbers: list[int] = []
        self._starts: dict[int, int] = {}
        self._starts_in: dict[int, list[int]] = {}
        if b"\r" in self.data or b"\b" in self.data:
            self._part_drawings()
        #: How many lines end before each piece, and in all.
        self._ends_to = list(accumulate(self._ends_in_pieces(), initial=0))

    def _ends_in_pieces(self) -> Iterator[int]:
        count, size = self.data.count, len(self.data)
        return (count(b"\n", at, at + _PIECE_BYTES) for at in range(0, size, _PIECE_BYTES))

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
        return self._ends_to[-1] + 1

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

    def start(self, index: int) -> int:
        """Where a line begins in ``data``."""
        known = self._starts.get(index) if index else 0
        if known is not None:
            return known
        piece = bisect_left(self._ends_to, index) - 1
        begins = self._starts_in.get(piece)
        if begins is None:
            at = piece * _PIECE_BYTES
            ends = self.data[at : at + _PIECE_BYTES].split(b"\n")
            begins = self._starts_in[piece] = list(accumulate((len(end) + 1 for end in ends), initial=at))
        return begins[index - self._ends_to[piece]]

    def line_at(self, at: int) -> tuple[int, int]:
        """The line that a byte belongs to, and the offset behind the line."""
        piece = at // _PIECE_BYTES
        index = self._ends_to[piece] + self.data.count(b"\n", piece * _PIECE_BYTES, at)
        self._starts[index] = self.data.rfind(b"\n", 0, at) + 1
        return index, self.data.find(b"\n", at) + 1 or len(self.data)

    def index_of(self, end: int) -> int:
        """The line that a match which ends at this offset ends in."""
        return self.line_at(max(0, end - 1))[0]

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """The offsets between which the lines from one index to before another stand."""
        return self.start(start), self.start(stop) if stop < len(self) else len(self.data)

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


def numbered(pieces: Iterable[bytes]) -> Iterator[Block]:
    """Blocks of lines that follow on each other from a file's beginning, each given with its end (`read_pieces`)."""
    first = 1
    for piece in pieces:
        block = Block(first, piece.removesuffix(b"\n").removesuffix(b"\r"))
        first = block.number(len(block) - 1) + piece.endswith(b"\n")
        yield block


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
