"""``#SCHEDMATE source=off``: a line in a launch script or program whose owner does not want its source read."""

from __future__ import annotations

import re

#: However the language of the file marks a comment.
_COMMENT = re.compile(r"(?:#|//|--|%|;|/\*|<!--)[ \t]*SCHEDMATE(?![A-Za-z0-9_])([^\n]*)", re.IGNORECASE)
# What is almost it counts as well (``source = off``, ``source=off,x``): whoever wrote it wants to be left alone.
_OFF = re.compile(r"""(?<![\w.-])source[ \t]*[=:][ \t]*["']?(?:off|none|no|false|0)\b""", re.IGNORECASE)
# In a notebook each line of a cell is a JSON text of its own. Every replacement keeps the length.
_JSON = re.compile(r"""\\"|\\n|\\.|"|\n""")
_JSON_TEXT = {'\\"': " '", "\\n": " \n", '"': "\n", "\n": " "}
#: Before a directive that stands behind code: no line is looked at further back, nor are more such directives weighed.
_PREFIX_MAX = 500
_QUOTED_MAX = 200


class SourceOffError(Exception):
    """A file says that source is not to be read. ``header`` are its leading comments, what a scheduler sees anyway."""

    def __init__(self, file: str, line: int, header: str) -> None:
        super().__init__(f"{file}:{line}")
        self.file, self.line, self.header = file, line, header


def obey(text: str, file: str) -> None:
    """Raise `SourceOffError` where a comment line of ``text`` switches source reading off."""
    if "schedmate" not in text and "SCHEDMATE" not in text and "schedmate" not in text.lower():
        return
    lines = _JSON.sub(lambda m: _JSON_TEXT.get(m[0], "  "), text) if file.endswith(".ipynb") else text
    quoted = 0
    for match in _COMMENT.finditer(lines):
        if not _OFF.search(match[1]):
            continue
        before = lines[lines.rfind("\n", 0, match.start()) + 1 : match.start()]
        if len(before) <= _PREFIX_MAX and quoted < _QUOTED_MAX and _is_quoted(before):
            quoted += 1
            continue
        raise SourceOffError(file, text.count("\n", 0, match.start()) + 1, header_of(text))


def _is_quoted(before: str) -> bool:
    """Whether what follows ``before`` on its line is text in quotes, so that it is only spoken of."""
    if before.lstrip().startswith("#"):
        return before[-1] in "'\"`"
    quote = ""
    characters = iter(before)
    for character in characters:
        if character == "\\":
            next(characters, None)
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"`":
            quote = character
    return quote != ""


def header_of(text: str) -> str:
    """The lines above the first that is neither empty nor a comment: where batch directives stand."""
    rows = []
    for row in text.splitlines():
        if row.strip() and not row.lstrip().startswith("#"):
            break
        rows.append(row)
    return "\n".join(rows) + "\n"
