"""Tables of numbers under the names of their columns: CSV, tabs, blanks, and cells between bars."""

from __future__ import annotations

import re

from analyzers.logs.reading import Reading, read_row

_COLUMNS = re.compile(r"(?<![ \t])[ \t]*[,;\t][ \t]*")
_NAME = re.compile(r"[A-Za-z_][\w ./()%@:-]*")
#: A line that may be a row or the names of columns: two separators, cells between bars, or words of which the first
#: is a counter's.
_TABLE = re.compile(
    r"\s*\|[^|]*\|[^|]*\|"
    r"|[^,]*,[^,]*,|[^\t]*\t|[^;]*;[^;]*;|\s*(?i:epoch|step|iter|iteration)\s+[A-Za-z_]\S*\s+[A-Za-z_]\S*"
)
_SECOND_NAME = re.compile(r"[A-Za-z(][\w ./:()%-]*")
_FEWEST_BETWEEN_BARS = 3


class Table:
    """The table that a file is in the midst of, if any: a line of column names begins one."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def may_be(self, text: str) -> bool:
        """Whether a line may be a row or the names of columns; cheap."""
        return bool(self._columns) or _TABLE.match(text) is not None

    def row(self, text: str) -> Reading | None:
        """What a row says; None for any other line."""
        cells = _cells(text)
        if len(cells) < 2:
            return None
        if self._columns and len(cells) == len(self._columns):
            if _goes_on(cells):
                self._columns = [f"{name} {more}".strip() for name, more in zip(self._columns, cells, strict=True)]
                return None
            return read_row(dict(zip(self._columns, cells, strict=True)))
        if all(_NAME.fullmatch(cell) and len(cell) < 60 for cell in cells):
            probe = read_row(dict.fromkeys(cells, "1"))
            if probe is not None:
                self._columns = cells
        return None


def _cells(text: str) -> list[str]:
    line = text.strip()
    if line.startswith("|") and line.endswith("|"):
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        return cells if len(cells) >= _FEWEST_BETWEEN_BARS else []
    cells = [cell.strip().strip("\"'") for cell in _COLUMNS.split(line)]
    return cells if len(cells) >= 2 else text.split()


def _goes_on(cells: list[str]) -> bool:
    """Whether a line between bars is the second one of the columns' names."""
    return "" in cells and any(cells) and all(not cell or _SECOND_NAME.fullmatch(cell) for cell in cells)
