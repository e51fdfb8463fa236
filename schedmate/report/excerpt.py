"""A few lines of a file around the ones that matter. The text is untrusted: it is only ever put out escaped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: A line longer than this is cut in the middle.
LONGEST_CHARS = 320
_LARGEST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line. ``mark`` is ``root``, ``echo`` or empty; ``gap`` says that lines before it were left out."""

    number: int
    text: str
    mark: str = ""
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one file, in order."""

    file: str
    lines: tuple[Line, ...]


def read_excerpt(root: Path, file: str, marks: dict[int, str], around: int = 2) -> Excerpt:
    """The marked lines of ``root/file`` (numbers from 1) with ``around`` lines on either side.

    A file outside ``root``, missing or unreadable gives an excerpt without lines.
    """
    path = (root / file) if root.is_dir() else root
    base = root if root.is_dir() else root.parent
    try:
        if not path.resolve().is_relative_to(base.resolve()):
            return Excerpt(file, ())
        with path.open("rb") as source:
            text = source.read(_LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return Excerpt(file, ())
    rows = text.replace("\r\n", "\n").split("\n")
    return Excerpt(file, tuple(_around(rows, marks, around)))


def printable(text: str, longest: int = LONGEST_CHARS) -> str:
    """Text fit for a page: the last state of a progress bar, control characters as escapes, cut in the middle."""
    last = text.rstrip("\r").rpartition("\r")[2]
    shown = "".join(c if c == "\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in last)
    if len(shown) <= longest:
        return shown
    half = (longest - 3) // 2
    return f"{shown[:half]} … {shown[-half:]}"


def _around(rows: list[str], marks: dict[int, str], around: int) -> Iterable[Line]:
    wanted = {n for number in marks for n in range(number - around, number + around + 1) if 1 <= n <= len(rows)}
    before = 0
    for number in sorted(wanted):
        text = printable(rows[number - 1])
        if text.strip() or number in marks:
            yield Line(number, text, marks.get(number, ""), gap=before > 0 and number > before + 1)
            before = number
