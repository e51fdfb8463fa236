"""Lines of a text dump of sacct to rows and cells, delimiters and line breaks inside texts put back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from integrations.traces import slurm_values as slurm
from integrations.traces.clock import Clock, number_or_time
from integrations.traces.csv_rows import HEADER_AGAIN
from integrations.traces.values import BadValueError, duration_s
from prompts.errors import UserError
from schedmate.ports import TraceNotes

#: Columns whose text may hold the delimiter.
_FREE_TEXT = ("submitline", "jobname", "comment", "admincomment", "systemcomment", "workdir", "extra", "constraints")
#: A submit line may run over so many lines.
_MAX_LINES_OF_A_ROW = 50
COMMAND = (
    "sacct --allusers --parsable2 --format JobID,JobName,User,Account,Partition,State,Submit,Eligible,Start,End,"
    "ElapsedRaw,TimelimitRaw,NNodes,NCPUS,ReqTRES,AllocTRES"
)


class Columns:
    """Where each column stands, and rows to cells."""

    def __init__(self, path: Path, header: str, delimiter: str) -> None:
        self.delimiter = delimiter
        self.names = self._names(header)
        self.ends_in_bar = self.names[-1] == ""  # --parsable ends every row with a delimiter, as it does the header
        if self.ends_in_bar:
            self.names.pop()
        self.at = {name: position for position, name in reversed(list(enumerate(self.names)))}
        self.free = [self.at[name] for name in _FREE_TEXT if name in self.at]
        self.ends_in_text = self.names[-1] in _FREE_TEXT
        self._require(path)

    def _require(self, path: Path) -> None:
        needed = {
            "JobID": ("jobid", "jobidraw"),
            "Submit": ("submit",),
            "Start": ("start",),
            "ElapsedRaw": ("elapsedraw", "elapsed", "end"),
            "AllocTRES": ("alloctres", "reqtres", "allocgres", "reqgres"),
            "State": ("state",),
        }
        missing = [name for name, any_of in needed.items() if not set(any_of) & set(self.at)]
        if missing:
            raise UserError(f"{path}: the dump has no column {', '.join(missing)}", f"dump it with {COMMAND}")

    def _names(self, line: str) -> list[str]:
        return [name.strip().lower().partition("%")[0] for name in line.strip("\ufeff\r\n").split(self.delimiter)]

    def split(self, row: str) -> list[str]:
        """Cells of a row; delimiters inside a name or command are put back where that makes sense of the row."""
        cells = row.rstrip("\r\n").split(self.delimiter)
        if self.ends_in_bar and cells[-1] == "" and len(cells) != len(self.names):
            cells.pop()
        extra = len(cells) - len(self.names)
        return self._rejoined(cells, extra) if extra > 0 else cells

    def begins_again(self, path: Path, line: str, number: int) -> bool:
        """Whether a line is the header once more; `UserError` where it is that of other columns."""
        if "submit" not in line.lower():
            return False
        names = self._names(line)
        if names == [*self.names, *[""] * self.ends_in_bar]:
            return True
        if {"submit", "state"} <= set(names) and {"jobid", "jobidraw"} & set(names):
            raise UserError(
                f"{path}: line {number} is a header of other columns than the first line",
                "convert the dumps one by one",
            )
        return False

    def _rejoined(self, cells: list[str], extra: int) -> list[str]:
        for position in self.free:
            joined = self.delimiter.join(cells[position : position + extra + 1])
            tried = [*cells[:position], joined, *cells[position + extra + 1 :]]
            if self._makes_sense(tried):
                return tried
        if extra == 1 and cells[-1] == "" and self._makes_sense(cells[:-1]):
            return cells[:-1]  # a bar at the end of rows whose header has none
        return cells

    def _makes_sense(self, cells: list[str]) -> bool:
        """Whether the columns whose form is known hold what they should."""
        at = self.at
        if slurm.slurm_state(cells[at["state"]]) is None or not _is_time(cells[at["submit"]]):
            return False
        moments = (cells[at[name]] for name in ("eligible", "start", "end") if name in at)
        lengths = (cells[at[name]] for name in ("elapsedraw", "elapsed") if name in at)
        amounts = (cells[at[name]] for name in ("alloctres", "reqtres") if name in at)
        return (
            all(not slurm.known(cell) or _is_time(cell) for cell in moments)
            and all(not slurm.known(cell) or _is_length(cell) for cell in lengths)
            and all(not cell or "=" in cell for cell in amounts)
        )


def _is_time(cell: str) -> bool:
    try:
        number_or_time(cell, 1.0, "submit", Clock())
    except BadValueError:
        return False
    return True


def _is_length(cell: str) -> bool:
    try:
        duration_s(cell, 1.0, "elapsed")
    except BadValueError:
        return False
    return True


def whole_rows(
    path: Path, numbered: Iterator[tuple[int, str]], columns: Columns, notes: TraceNotes
) -> Iterator[tuple[int, list[str] | None]]:
    """Cells of rows with all their columns: a submit line may hold line breaks. What stays short is counted.

    None stands for the header line, where it comes again.
    """
    wanted = len(columns.names)
    begun: list[tuple[int, str]] = []
    whole: tuple[int, list[str]] | None = None  # kept back: what follows may belong to its last cell

    def give_up() -> None:
        for short, _ in begun:
            notes.skip("too few columns", f"line {short}")
        begun.clear()

    for number, line in numbered:
        if columns.begins_again(path, line, number):
            give_up()
            if whole is not None:
                yield whole
            whole = None
            notes.remark(HEADER_AGAIN)
            yield number, None
            continue
        cells = columns.split(line)
        if whole is not None and not begun and len(cells) == 1 and columns.ends_in_text and line.strip():
            whole[1][-1] += "\n" + cells[0]
            continue
        if len(cells) < wanted:
            if not line.strip() and not begun:
                continue
            begun.append((number, line))
            number, cells = begun[0][0], columns.split("".join(part for _, part in begun))
            if len(cells) < wanted:
                if len(begun) >= _MAX_LINES_OF_A_ROW:
                    give_up()
                continue
            if len(cells) == wanted:
                begun.clear()
        give_up()
        if len(cells) > wanted:
            more = "one cell" if len(cells) == wanted + 1 else "some cells"
            notes.skip(f"{more} more than columns, perhaps a {columns.delimiter} in JobName", f"line {number}")
            continue
        if whole is not None:
            yield whole
        whole = (number, cells)
    give_up()
    if whole is not None:
        yield whole
