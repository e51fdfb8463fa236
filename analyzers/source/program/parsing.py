"""Texts as trees, remembered by content: a resubmission with a small change parses only what changed."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

#: Punctuation marks in one source text, and in all that are parsed for one job. A tree takes 300 to 1400 bytes a mark,
#: whatever the text's length, so that these bound memory; 150,000 are a megabyte of usual code.
MARKS_MAX = 150_000
JOB_MARKS_MAX = 250_000
#: Marks of texts that are kept parsed in this process.
KEPT_MARKS_MAX = 50_000
_MARKS = ",.()[]{}=+-*/:\n'\"<>%;|&~^@"
#: Python's parser takes time quadratic in the parts of an f-string.
_BRACES_MAX = 20_000
_IMPORT_DOTS_MAX = 2_000


class _Kept:
    """Results by the text they were made of, the least recently used forgotten first."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, size: int, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        made = make()
        if size <= self._size_max // 4:
            with self._lock:
                self._size += size - self._entries.pop(key, (None, 0))[1]
                self._entries[key] = (made, size)
                while self._size > self._size_max:
                    self._size -= self._entries.popitem(last=False)[1][1]
        return made

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = 0


_kept = _Kept(KEPT_MARKS_MAX)


def forget_parsed() -> None:
    """Drop everything that was remembered (for measurements and tests)."""
    _kept.clear()


def remembered(kind: str, text: str, make: Callable[[], Any]) -> Any:
    """``make()``, or what it gave for the same text before. Nobody may change the result."""
    return _kept.get((kind, text), marks(text), make)


def marks(text: str) -> int:
    """How many punctuation marks a text has: what its tree's size goes by."""
    return sum(map(text.count, _MARKS))


def parse_python(source: str) -> ast.Module | str:
    """Python source as a tree that nobody may change, Python 2 leftovers included; else why not, in words."""
    size = marks(source)
    if size > MARKS_MAX or source.count("{") > _BRACES_MAX or _has_long_import(source):
        return "too dense to be parsed"
    parsed: ast.Module | str = _kept.get(("python", source), size, lambda: _parse(source))
    return parsed


def _has_long_import(source: str) -> bool:
    """Whether an import names a module of thousands of parts: Python's parser takes memory quadratic in them."""
    if source.count(".") <= _IMPORT_DOTS_MAX:
        return False
    rows = source.replace("\\\n", "").splitlines()
    return any(row.count(".") > _IMPORT_DOTS_MAX and ("import" in row or "from" in row) for row in rows)


def _parse(source: str) -> ast.Module | str:
    line = 0
    for rewrite in (str, modernised):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(rewrite(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 0
    return "can not be parsed" + (f" (line {line})" if line else "")


# No pattern may run over a line's end or try one run of characters twice: a file of blanks costs no more than another.
_PRINT = re.compile(r"^([ \t]*)print(?:[ \t]+(?!\()(.*))?$", re.MULTILINE)
_PRINT_TO = re.compile(r">>[ \t]*[\w.]+[ \t]*,")
_EXCEPT = re.compile(r"^([ \t]*except[ \t][^:\n]*):", re.MULTILINE)
_RAISE = re.compile(r"^([ \t]*raise[ \t]+\w+)[ \t]*,(.*)$", re.MULTILINE)


def modernised(source: str) -> str:
    """Python 2 statements that keep a file from being parsed, rewritten line by line."""
    source = source.replace("\0", "")
    source = _PRINT.sub(_print_call, source)
    source = _EXCEPT.sub(_except_as, source)
    source = _RAISE.sub(r"\1(\2)", source)
    source = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[lL]\b", r"\1", source)
    source = re.sub(r"\bur(['\"])", r"r\1", source)
    source = re.sub(r"(?<![\w.])0+([1-7][0-7]*)\b(?!\.)", r"0o\1", source)
    return source.replace("<>", "!=")


def _print_call(match: re.Match[str]) -> str:
    shown = (match.group(2) or "").strip()
    if shown.startswith(("=", "(")):
        return match.group()
    to = _PRINT_TO.match(shown)
    shown = (shown[to.end() :] if to else shown).strip().removesuffix(",")
    return f"{match.group(1)}print({shown})"


def _except_as(match: re.Match[str]) -> str:
    kinds, comma, name = match.group(1).rpartition(",")
    return f"{kinds} as {name.strip()}:" if comma and name.strip().isidentifier() else match.group()
