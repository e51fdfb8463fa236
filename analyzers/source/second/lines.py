"""A file's lines as a second reader may see them: code without comments, and a little prose, marked as such.

A comment or a docstring changes nothing about a job, but is where somebody would write an instruction to the reader.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analyzers.source.opened import Text

_LONGEST_CHARS = 240
_PROSE_LINES = 4
_PROSE = frozenset({"md", "rst", "txt", ""})
_HASHED = frozenset(
    {"sh", "bash", "yaml", "yml", "toml", "cfg", "ini", "conf", "gin", "r", "jl", "mk", "slurm", "sbatch"}
)
_SLASHED = frozenset({"c", "cc", "cpp", "cu", "h", "hpp", "js", "ts", "java", "go", "rs", "scala", "swift"})
_HASH = re.compile(r"(?:^|\s)#(?!SBATCH|PBS|BSUB|\$).*")
_SLASH = re.compile(r"//.*|/\*.*?\*/|^\s*\*.*")
_LINE_STARTS = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
#: From Python 3.12 on the text in an f-string is a token of its own.
_STRINGS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
#: Lines of a README that tell nothing: badges, pictures, tables.
_DECORATION = re.compile(r"\]\(http|<img|^\s*\||^\s*<")
_OPTION = re.compile(r"\s(?=--?[A-Za-z][\w-]*[ =])")


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is shown. ``prose`` can not back a number; ``idle``: it is code that is not known to run."""

    file: str
    number: int
    text: str
    prose: bool = False
    python: bool = False
    idle: bool = False


def command_lines(command: str) -> list[Line]:
    """A command with each option on a line of its own, so that a number stands with its option alone."""
    rows = (part.strip() for row in command.strip()[:2000].split("\n") for part in _OPTION.split(row))
    return [Line("launch", 1, row) for row in rows if row]


def code_lines(text: Text) -> Iterator[Line]:
    """The lines of a file that hold something, without comments; none of a README's."""
    if text.ending == "py":
        rows: Iterator[tuple[int, str]] = _python(text)
    elif text.ending in _PROSE and text.path.rpartition("/")[2].upper().startswith("README"):
        return
    else:
        rows = _others(text)
    for number, row in rows:
        if row.strip():
            yield Line(text.path, number, row.strip()[:_LONGEST_CHARS], python=text.ending == "py")


def _others(text: Text) -> Iterator[tuple[int, str]]:
    hashed = text.ending in _HASHED or any(row.startswith("#!") for _, row in text.lines[:1])
    for number, row in text.lines:
        if hashed or text.ending not in _SLASHED | {"json"}:
            row = _HASH.sub("", row)
        if text.ending in _SLASHED:
            row = _SLASH.sub("", row)
        if text.ending in ("sh", "bash", "slurm", "sbatch") or text.path == "Makefile":
            for part in [row] if row.startswith("#SBATCH") else _OPTION.split(row):
                yield number, part
        else:
            yield number, row


def _python(text: Text) -> Iterator[tuple[int, str]]:
    """The lines of a program without comments, docstrings and other text of several lines."""
    rows = [row for _, row in text.lines]
    hidden: dict[int, list[tuple[int, int]]] = {}
    try:
        previous = tokenize.NEWLINE
        for token in tokenize.generate_tokens(io.StringIO("\n".join(rows)).readline):
            (first, start), (last, end) = token.start, token.end
            alone = token.type == tokenize.STRING and previous in _LINE_STARTS
            if token.type == tokenize.COMMENT or (token.type in _STRINGS and (alone or first != last)):
                for at in range(first, last + 1):
                    hidden.setdefault(at, []).append((start if at == first else 0, end if at == last else 1 << 30))
            previous = token.type
    except (tokenize.TokenError, SyntaxError, IndentationError, ValueError):
        # half a program: what can be told from a comment without its context
        yield from ((number, _HASH.sub("", row)) for number, row in text.lines if '"""' not in row and "'''" not in row)
        return
    for at, (number, row) in enumerate(text.lines, 1):
        for start, end in reversed(hidden.get(at, [])):
            row = row[:start] + row[end:]
        yield number, row


def prose_lines(texts: Sequence[Text]) -> list[Line]:
    """The top of the README and of the program's own docstring."""
    found: list[Line] = []
    for text in texts:
        if text.path.rpartition("/")[2].upper().startswith("README"):
            rows = [(n, r.strip()) for n, r in text.lines if re.search(r"\w{3}", r) and not _DECORATION.search(r)]
            found += [Line(text.path, n, r[:_LONGEST_CHARS], prose=True) for n, r in rows[:_PROSE_LINES]]
    for text in texts:
        if text.ending == "py":
            found += [Line(text.path, n, r, prose=True) for n, r in _docstring(text)]
            break
    return found


def _docstring(text: Text) -> list[tuple[int, str]]:
    rows: list[tuple[int, str]] = []
    mark = ""
    for number, row in text.lines[:60]:
        stripped = row.strip()
        if not mark:
            if not stripped or stripped.startswith("#"):
                continue
            mark = next((m for m in ('"""', "'''") if stripped.lstrip("rRuU").startswith(m)), "")
            if not mark:
                break
            stripped = stripped.lstrip("rRuU")[3:]
        if mark in stripped:
            rows.append((number, stripped.partition(mark)[0]))
            break
        rows.append((number, stripped))
    return [(number, row[:_LONGEST_CHARS]) for number, row in rows if row.strip()][:4]
