"""Texts as trees, remembered by content: a resubmission with a small change parses only what changed."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

#: Characters of source kept parsed in this process; a tree takes about 60 times its text in memory.
KEPT_CHARACTERS_MAX = 1_000_000


class _Kept:
    """Results by the text they were made of, the least recently used forgotten first."""

    def __init__(self, characters_max: int) -> None:
        self._characters_max = characters_max
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, size: int, make: Callable[[], Any]) -> Any:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key][0]
        made = make()
        if size <= self._characters_max // 4:
            with self._lock:
                self._characters += size - self._entries.pop(key, (None, 0))[1]
                self._entries[key] = (made, size)
                while self._characters > self._characters_max:
                    self._characters -= self._entries.popitem(last=False)[1][1]
        return made

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._characters = 0


_kept = _Kept(KEPT_CHARACTERS_MAX)


def forget_parsed() -> None:
    """Drop everything that was remembered (for measurements and tests)."""
    _kept.clear()


def remembered(kind: str, text: str, make: Callable[[], Any]) -> Any:
    """``make()``, or what it gave for the same text before. The result must not be changed by anyone."""
    return _kept.get((kind, text), len(text), make)


def parse_python(source: str) -> ast.Module | int:
    """Python source as a tree, Python 2 leftovers included; the number of the line that stopped it (0: none) if not."""
    made: ast.Module | int = remembered("python", source, lambda: _parse(source))
    return made


def _parse(source: str) -> ast.Module | int:
    line = 0
    for rewrite in (str, modernised):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(rewrite(source))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 0
    return line


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
