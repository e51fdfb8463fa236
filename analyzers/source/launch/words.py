"""Words of a shell command: quoting, variables, defaults, arithmetic. What can not be known becomes UNKNOWN."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

#: Stands inside a word for text that only running the command would give (a private-use character).
UNKNOWN = "\ue000"
TEXT_MAX = 100_000
#: Words that one word may expand to.
FIELDS_MAX = 10_000

Variables = dict[str, "str | list[str]"]


@dataclass(frozen=True, slots=True)
class Word:
    """One word after expansion, and the place it was written: ``launch``:1 or a script's ``file``:``line``."""

    text: str
    file: str = "launch"
    line: int = 1

    @property
    def known(self) -> bool:
        """Whether no part of the word depends on running something."""
        return UNKNOWN not in self.text


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_PARAMETER = re.compile(r"([#!]?)([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?])(\[[^\]]*\])?(.*)", re.DOTALL)


class Expander:
    """Expands raw words with a set of variables.

    ``substitute`` answers a command substitution's text, or None where it can not be known. ``cut`` tells that a word
    was longer than is followed.
    """

    def __init__(self, variables: Variables, substitute: Callable[[str], str | None]) -> None:
        self.variables = variables
        self.substitute = substitute
        self.cut = False

    def fields(self, raw: str) -> list[str]:
        """One raw word as zero or more fields, the way a shell splits what is not quoted."""
        fields: list[str] = []
        current: list[str] = []
        started = False
        budget = TEXT_MAX

        def split_in(text: str) -> None:
            nonlocal started, budget
            text = text[: max(0, budget)]
            budget -= len(text) + 1
            for index, part in enumerate(re.split(r"[ \t\n]+", text)):
                if index and (current or started):
                    fields.append("".join(current))
                    current.clear()
                    started = False
                if part:
                    current.append(part)

        i = 0
        while i < len(raw) and budget > 0:
            budget -= 1
            c = raw[i]
            if c == "\\" and i + 1 < len(raw):
                if raw[i + 1] != "\n":
                    current.append(raw[i + 1])
                    started = True
                i += 2
            elif c == "'":
                end = raw.find("'", i + 1)
                end = len(raw) if end < 0 else end
                current.append(raw[i + 1 : min(end, i + TEXT_MAX)])
                budget -= end - i
                started = True
                i = end + 1
            elif c == '"':
                end = closing_quote(raw, i)
                inner = raw[i + 1 : end]
                array = re.fullmatch(r"\$\{(\w+)\[@\]\}|\$(@)|\$\{@((?::\s*\d+){0,2})\}", inner)
                if array and not current:
                    values = self._array(array.group(1) or "@")
                    if array.group(3):
                        values = sliced_words(values, array.group(3))
                    values = values[:FIELDS_MAX]
                    budget -= sum(map(len, values))
                    fields.extend(values[:-1])
                    if values:
                        current.append(values[-1])
                        started = True
                else:
                    current.append(self.text(inner))
                    budget -= len(current[-1])
                    started = True
                i = end + 1
            elif c in "$`":
                value, i = self._dollar(raw, i)
                split_in(value)
            elif c == "~" and i == 0 and raw[1:2] in ("", "/"):
                current.append(UNKNOWN)
                i += 1
            else:
                current.append(c)
                i += 1
        if current or started:
            fields.append("".join(current))
        self.cut = self.cut or budget <= 0 or len(fields) > FIELDS_MAX
        return fields[:FIELDS_MAX]

    def text(self, raw: str) -> str:
        """Double-quoted text or the right-hand side of an assignment, unsplit."""
        out: list[str] = []
        size = 0
        i = 0
        while i < len(raw) and size < TEXT_MAX:
            c = raw[i]
            if c == "\\" and i + 1 < len(raw):
                following = raw[i + 1]
                out.append("" if following == "\n" else following if following in '$`"\\' else c + following)
                i += 2
            elif c in "$`":
                value, i = self._dollar(raw, i)
                out.append(value)
                size += len(value)
            else:
                out.append(c)
                size += 1
                i += 1
        return self._whole("".join(out), read_to_end=i >= len(raw))

    def _whole(self, text: str, *, read_to_end: bool) -> str:
        """A text of bearable length; where it is not all, its end is not known."""
        if read_to_end and len(text) <= TEXT_MAX:
            return text
        self.cut = True
        return text[:TEXT_MAX] + UNKNOWN

    def assigned(self, raw: str) -> str:
        """A word's value without splitting, quotes removed: what an assignment stores."""
        out: list[str] = []
        i = size = 0
        while i < len(raw) and size < TEXT_MAX:
            c = raw[i]
            if c == "'":
                end = raw.find("'", i + 1)
                end = len(raw) if end < 0 else end
                out.append(raw[i + 1 : end])
                i = end + 1
            elif c == '"':
                end = closing_quote(raw, i)
                out.append(self.text(raw[i + 1 : end]))
                i = end + 1
            else:
                start = i
                while i < len(raw) and raw[i] not in "'\"":
                    if raw[i] == "\\":
                        i += 1
                    elif raw[i] in "$`":
                        i = after_dollar(raw, i)
                        continue
                    i += 1
                out.append(self.text(re.sub(r"\\([^$`\"\\])", r"\1", raw[start:i])))
            size += len(out[-1])
        return self._whole("".join(out), read_to_end=i >= len(raw))

    def _array(self, name: str) -> list[str]:
        value = self.variables.get(name)
        if isinstance(value, list):
            return value
        return [UNKNOWN] if value is None and not name.isdigit() and name not in "@*" else [value or ""]

    def _value(self, name: str) -> str | None:
        value = self.variables.get(name)
        if isinstance(value, list):
            return " ".join(value) if name in "@*" else (value[0] if value else "")
        return value

    def _dollar(self, raw: str, i: int) -> tuple[str, int]:
        """The value of the ``$...`` or backquote at ``i`` and the index after it."""
        after = after_dollar(raw, i)
        if raw[i] == "`":
            return self._substituted(raw[i + 1 : after - 1]), after
        if raw.startswith("$((", i):
            return self.arithmetic(raw[i + 3 : after - 2]), after
        if raw.startswith("$(", i):
            return self._substituted(raw[i + 2 : after - 1]), after
        if raw.startswith("${", i):
            return self._parameter(raw[i + 2 : after - 1]), after
        if raw.startswith("$'", i):
            return raw[i + 2 : after - 1], after
        match = _NAME.match(raw, i + 1)
        if not match:
            return "$", i + 1
        name = match.group()
        value = self._value(name)
        if value is None:
            value = "" if name.isdigit() or name in "@*" else UNKNOWN
        return value, match.end()

    def _substituted(self, command: str) -> str:
        answer = self.substitute(command.strip())
        return UNKNOWN if answer is None else answer

    def _parameter(self, inner: str) -> str:
        match = _PARAMETER.fullmatch(inner)
        if not match:
            return UNKNOWN
        mark, name, index, rest = match.groups()
        if index is not None:
            values = self._array(name)
            if mark == "#":
                return str(len(values)) if UNKNOWN not in values else UNKNOWN
            if index in ("[@]", "[*]"):
                return " ".join(values)
            position = self.arithmetic(index[1:-1])
            return values[int(position)] if position.isdigit() and int(position) < len(values) else UNKNOWN
        value = self._value(name)
        if not mark and re.fullmatch(r"(:\s*\d+){1,2}", rest):
            if name in "@*":
                return " ".join(sliced_words(self._array(name), rest))
            start, _, length = rest[1:].partition(":")
            known = value is not None and UNKNOWN not in value
            return (value or "")[int(start) :][: int(length) if length else None] if known else UNKNOWN
        if mark == "#":
            return UNKNOWN if value is None or UNKNOWN in value else str(len(value))
        if mark:
            return UNKNOWN
        empty = value is None or value == ""
        if rest[:2] in (":-", ":="):
            chosen = self.assigned(rest[2:]) if empty else value
        elif rest[:1] in ("-", "="):
            chosen = self.assigned(rest[1:]) if value is None else value
        elif rest[:2] == ":+" or rest[:1] == "+":
            chosen = "" if empty else self.assigned(rest.lstrip(":+"))
        else:
            chosen = UNKNOWN if value is None and not name.isdigit() else cut(value or "", rest)
        if rest[:2] == ":=" and chosen is not None:
            self.variables[name] = chosen
        return chosen or ""

    def arithmetic(self, text: str) -> str:
        """The value of ``$(( text ))`` for integers, else UNKNOWN."""

        def value_of(match: re.Match[str]) -> str:
            value = self._value(match.group(1))
            return UNKNOWN if value is None else f"({value or 0})"

        plain = re.sub(r"\$?\{?\b([A-Za-z_]\w*)\b\}?", value_of, text)
        if "$" in plain:
            plain = self.text(plain)
        answer = integer_expression(plain)
        return UNKNOWN if answer is None else str(answer)


def integer_expression(text: str) -> int | None:
    """An integer expression's value (``+ - * / % **``, parentheses), bounded; None where it is not one."""
    if UNKNOWN in text or len(text) > 500:
        return None
    try:
        return _integer(ast.parse(text.strip().replace("/", "//").replace("////", "//"), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError, OverflowError):
        return None


def _integer(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return int(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _integer(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.BinOp):
        left, right = _integer(node.left), _integer(node.right)
        if left is None or right is None or max(abs(left), abs(right)) > 10**15:
            return None
        operation = _OPERATIONS.get(type(node.op))
        return None if operation is None else operation(left, right)
    return None


def _power(left: int, right: int) -> int:
    if not 0 <= right <= 64 or abs(left) > 10**6:
        raise ValueError("power out of bounds")
    return int(left**right)


_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: int(a / b),
    ast.Mod: lambda a, b: a % b,
    ast.Pow: _power,
}


def cut(value: str, rest: str) -> str:
    """Apply ``#prefix``, ``##prefix``, ``%suffix``, ``%%suffix`` and ``/old/new`` with literal patterns and ``*/``."""
    if not rest or UNKNOWN in value:
        return value
    if rest in ("##*/",):
        return value.rpartition("/")[2]
    if rest in ("%/*",):
        return value.rpartition("/")[0]
    if rest[0] == "%" and "*" not in rest:
        return value.removesuffix(rest.lstrip("%"))
    if rest[0] == "#" and "*" not in rest:
        return value.removeprefix(rest.lstrip("#"))
    if rest[0] == "/" and rest.count("/") >= 2 and "*" not in rest:
        everywhere = rest.startswith("//")
        old, _, new = rest.lstrip("/").partition("/")
        return value.replace(old, new, -1 if everywhere else 1) if old else value
    return UNKNOWN


def sliced_words(values: list[str], rest: str) -> list[str]:
    """The positional parameters of ``${@:start}`` or ``${@:start:count}``; they are counted from 1."""
    start, _, count = rest[1:].partition(":")
    first = max(int(start) - 1, 0)
    return values[first:][: int(count) if count else None]


def after_dollar(raw: str, i: int) -> int:
    """The index after the ``$...`` or backquote at ``i``, without expanding it."""
    for opener, closer in (("`", "`"), ("$'", "'"), ("$((", "))")):
        if raw.startswith(opener, i):
            end = raw.find(closer, i + len(opener))
            return (len(raw) if end < 0 else end) + len(closer)
    if raw.startswith("$(", i):
        return closing(raw, i + 1, "(", ")") + 1
    if raw.startswith("${", i):
        return closing(raw, i + 1, "{", "}") + 1
    match = _NAME.match(raw, i + 1)
    return match.end() if match else i + 1


def closing_quote(text: str, start: int) -> int:
    """Index of the double quote that closes the one at ``start`` (or the end)."""
    i = start + 1
    while i < len(text):
        if text[i] == "\\":
            i += 2
        elif text[i] == '"':
            return i
        elif text.startswith("$(", i):
            i = closing(text, i + 1, "(", ")") + 1
        else:
            i += 1
    return len(text)


def closing(text: str, start: int, opener: str, closer: str) -> int:
    """Index of the bracket that closes the one at ``start`` (or the end), minding quotes."""
    depth = 0
    i = start
    while i < len(text):
        c = text[i]
        if c == "\\":
            i += 1
        elif c == "'":
            end = text.find("'", i + 1)
            i = len(text) if end < 0 else end
        elif c == opener:
            depth += 1
        elif c == closer:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(text)
