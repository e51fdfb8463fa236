"""A file's lines as a second reader may see them: code without comments, and a little prose, marked as such.

A comment or a docstring changes nothing about a job, but is where somebody would write an instruction to the reader.
Lines are as they will be sent, without secrets, so that what is said is compared with what was seen.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analyzers.source.opened import Text
from prompts.outgoing import outgoing, outgoing_lines

_LONGEST_CHARS = 240
_COMMAND_CHARS = 2_000
_PROSE_LINES = 4
_PROSE = frozenset({"md", "rst", "txt", ""})
_HASHED = frozenset(
    {"sh", "bash", "yaml", "yml", "toml", "cfg", "ini", "conf", "gin", "r", "jl", "mk", "slurm", "sbatch"}
)
_SHELL = frozenset({"sh", "bash", "slurm", "sbatch"})
_SLASHES = re.compile(r"//.*")
#: How the rest of a line, and text of several, is a comment, by a file's ending; elsewhere it is behind a hash.
_MARKED = {
    **dict.fromkeys("c cc cpp cu cuh h hpp js ts java go rs scala swift kt cs".split(), _SLASHES),  # noqa: SIM905
    **dict.fromkeys(("lua", "sql", "hs"), re.compile(r"--(?=\s|\W|$).*")),
    **dict.fromkeys(("m", "tex", "erl"), re.compile(r"%.*")),
    **dict.fromkeys(("f", "f90", "f95", "f03"), re.compile(r"!.*")),
    **dict.fromkeys(("ini", "cfg", "conf", "lisp", "clj"), re.compile(r"(?:^|\s);.*")),
    "json": re.compile(r"^\s*(?://|\"(?:_comment|comment|//|\$comment)\"\s*:).*"),
}  # fmt: skip
_C_BLOCK = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_BLOCKS = {
    **{ending: _C_BLOCK for ending, mark in _MARKED.items() if mark is _SLASHES},
    **dict.fromkeys(("md", "html", "xml"), re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)),
    "jl": re.compile(r"#=.*?(?:=#|\Z)", re.DOTALL),
    "lua": re.compile(r"--\[\[.*?(?:\]\]|\Z)", re.DOTALL),
    "hs": re.compile(r"\{-.*?(?:-\}|\Z)", re.DOTALL),
    "toml": re.compile(r"""(?<==)\s*(?:\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z))""", re.DOTALL),
}
#: A line that is a comment for the shell and an order for the scheduler.
_DIRECTIVE = re.compile(r"\s*#(?:SBATCH|PBS|BSUB|\$)\s+-")
_HASH = re.compile(r"(?:^|\s)#(?!(?:SBATCH|PBS|BSUB|\$)\s+-).*")
_LITERAL_OR_COMMENT = re.compile(
    r"""#[^\n]*|[rbufRBUF]{0,2}(?:\"\"\"(?:[^\\]|\\.)*?(?:\"\"\"|\Z)|'''(?:[^\\]|\\.)*?(?:'''|\Z))"""
    r"""|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?""",
    re.DOTALL,
)
#: Where a text of several lines begins in YAML, and a here-document or a message in a shell script.
_YAML_TEXT = re.compile(r"(?:(?P<key>\s*(?:- +)*)[^\s:#\"'{\[][^:#]*:\s+|(?P<item>\s*)- +)(?=[^\s\[{&*#])")
_YAML_ITEM = re.compile(r"""\s*(?:-(?:\s|$)|[\[{"'\]}]|[^\s:#]+(?: [^\s:#]+)*\s*:(?:\s|$)|---)""")
_HERE = re.compile(r"<<-?\s*[\"'\\]?(\w+)")
_SAID = re.compile(r"\s*(?:echo|printf|:|logger|wall|cat)\s")
_ONLY_TEXT = re.compile(r"""\s*[rbufRBUF]{0,2}(?:\"[^\"]*\"?|'[^']*'?)\s*""")
_LINE_STARTS = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)
#: From Python 3.12 on the text in an f-string is a token of its own.
_STRINGS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
#: Lines of a README that tell nothing: badges, pictures, tables.
_DECORATION = re.compile(r"\]\(http|<img|^\s*\||^\s*<")
#: Before an option of a command, but for those in quotes; and what is a comment for the shell.
_OPTION = re.compile(
    r"""(?P<quoted>'[^']*(?:'|$)|\"(?:\\.|[^\"\\])*(?:\"|\\?$))|(?:^|\s)\#.*|\s(?=--?[A-Za-z][\w-]*[ =])"""
)


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
    shown = outgoing(command.strip())[:_COMMAND_CHARS]
    rows = (part.strip()[:_LONGEST_CHARS] for row in shown.split("\n") for part in _options(row))
    return [Line("launch", 1, row) for row in rows if row]


def _options(command: str) -> Iterator[str]:
    at = 0
    for match in _OPTION.finditer(command):
        if match["quoted"] is None:
            yield command[at : match.start()]
            at = match.end()
    yield command[at:]


def code_lines(text: Text) -> Iterator[Line]:
    """The lines of a file that hold something, without comments; none of a README's."""
    if text.ending == "py":
        rows: Iterator[tuple[int, str]] = _python(text)
    elif text.ending in _PROSE and text.path.rpartition("/")[2].upper().startswith("README"):
        return
    else:
        rows = _others(text)
    yield from _lines(text, list(rows))


def _lines(text: Text, rows: Sequence[tuple[int, str]], prose: bool = False) -> Iterator[Line]:
    """What is in the rows, without secrets; these are looked for before a row is cut, and over all rows together."""
    said = _said(text) if not prose else frozenset()
    for (number, _), row in zip(rows, outgoing_lines([row for _, row in rows]), strict=True):
        if shown := row.strip()[:_LONGEST_CHARS].rstrip():
            yield Line(text.path, number, shown, prose or number in said, text.ending == "py")


def _said(text: Text) -> frozenset[int]:
    """The lines of a configuration or a script that are somebody's words: text of several lines, messages, what a job
    calls itself."""
    if text.ending in ("yaml", "yml"):
        return frozenset(_said_in_yaml(text))
    if text.ending in _SHELL or any(row.startswith("#!") for _, row in text.lines[:1]):
        return frozenset(_said_in_script(text))
    return frozenset()


def _said_in_yaml(text: Text) -> Iterator[int]:
    """Lines of a text of several: all that are indented more than the key, or the item, that it belongs to."""
    text_of: int | None = None  # the column of that key
    for number, whole in text.lines:
        row = whole[:_LONGEST_CHARS]
        if not row.strip():
            continue
        indent = len(row) - len(row.lstrip())
        if text_of is not None and indent > text_of:
            yield number
            continue
        key = _YAML_TEXT.match(row)
        text_of = None if key is None else len(key["item"] if key["key"] is None else key["key"])
        if not _YAML_ITEM.match(row):
            yield number


def _said_in_script(text: Text) -> Iterator[int]:
    end = ""
    for number, row in text.lines:
        if end:
            if row.strip() == end:
                end = ""
            yield number
            continue
        if here := _HERE.search(row):
            end = here[1]
        if _SAID.match(row) or _DIRECTIVE.match(row):
            yield number


def _others(text: Text) -> Iterator[tuple[int, str]]:
    whole = "\n".join(row for _, row in text.lines)
    block = _BLOCKS.get(text.ending)  # what it holds is replaced by as many empty lines
    if block is not None:
        whole = block.sub(lambda match: "\n" * match[0].count("\n"), whole)
    hashed = text.ending in _HASHED or whole.startswith("#!") or text.ending not in _MARKED
    for (number, _), row in zip(text.lines, whole.split("\n"), strict=True):
        if hashed:
            row = _HASH.sub("", row)
        if text.ending in _MARKED:
            row = _MARKED[text.ending].sub("", row)
        if text.ending in _SHELL or text.path == "Makefile":
            for part in [row] if _DIRECTIVE.match(row) else _options(row):
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
        yield from _half_a_program(text)
        return
    for at, (number, row) in enumerate(text.lines, 1):
        for start, end in reversed(hidden.get(at, [])):
            row = row[:start] + row[end:]
        yield number, row


def _half_a_program(text: Text) -> Iterator[tuple[int, str]]:
    """What can be told from comments and texts where a program is no whole one."""

    def shown(match: re.Match[str]) -> str:
        is_text = match[0].startswith(("'", '"')) and not match[0].startswith(('"""', "'''"))
        return match[0] if is_text else "\n" * match[0].count("\n")

    whole = _LITERAL_OR_COMMENT.sub(shown, "\n".join(row for _, row in text.lines))
    for (number, _), row in zip(text.lines, whole.split("\n"), strict=True):
        yield number, "" if _ONLY_TEXT.fullmatch(row) else row


def prose_lines(texts: Sequence[Text]) -> list[Line]:
    """The top of the README and of the program's own docstring."""
    found: list[Line] = []
    for text in texts:
        if text.path.rpartition("/")[2].upper().startswith("README"):
            rows = [(n, r.strip()) for n, r in text.lines if re.search(r"\w{3}", r) and not _DECORATION.search(r)]
            found += _lines(text, rows[:_PROSE_LINES], prose=True)
    for text in texts:
        if text.ending == "py":
            found += _lines(text, _docstring(text), prose=True)
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
    return [(number, row) for number, row in rows if row.strip()][:4]
