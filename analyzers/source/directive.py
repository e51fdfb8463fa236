"""``#SCHEDMATE source=off``: a line in a launch script or program whose owner does not want its source read."""

from __future__ import annotations

import re

# The quote: in a notebook each line of a cell is a text of its own.
_LINE = re.compile(r"""^[ \t]*"?[ \t]*#[ \t]*SCHEDMATE[ \t:]+([^"\\\n]*)""", re.MULTILINE | re.IGNORECASE)
_OFF = frozenset({"source=off", "source=none", "source=no", "source=false", "source=0"})


class SourceOffError(Exception):
    """A file says that source is not to be read. ``header`` are its leading comments, what a scheduler sees anyway."""

    def __init__(self, file: str, line: int, header: str) -> None:
        super().__init__(f"{file}:{line}")
        self.file, self.line, self.header = file, line, header


def obey(text: str, file: str) -> None:
    """Raise `SourceOffError` where a comment line of ``text`` switches source reading off."""
    if "schedmate" not in text and "SCHEDMATE" not in text and "schedmate" not in text.lower():
        return
    for match in _LINE.finditer(text):
        if _OFF & set(match.group(1).lower().split()):
            raise SourceOffError(file, text.count("\n", 0, match.start()) + 1, header_of(text))


def header_of(text: str) -> str:
    """The lines above the first that is neither empty nor a comment: where batch directives stand."""
    rows = []
    for row in text.splitlines():
        if row.strip() and not row.lstrip().startswith("#"):
            break
        rows.append(row)
    return "\n".join(rows) + "\n"
