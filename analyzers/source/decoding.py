"""Bytes of a source file as text, the way Python and people's editors write them."""

from __future__ import annotations

import codecs
import re

_COOKIE = re.compile(rb"^[ \t\f]*#.{0,100}?coding[:=][ \t]*([-\w.]{1,40})")
#: Codecs that text comes in. Others of Python's (zip, bz2, rot13, idna, ...) transform and may unpack any amount.
_TEXT_CODECS = re.compile(
    r"(utf|ucs|iso|latin|l\d|cp\d|windows|mac|koi8|gb|big5|hz|euc|shift|sjis|ascii|us|8859|johab|ptcp|tis|hp)",
    re.IGNORECASE,
)
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def decoded(data: bytes) -> str | None:
    """The text, None where the bytes are none (a program, a picture). A wrong coding cookie does not keep it back."""
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return _universal(data[len(mark) :].decode(codec, "replace"))
    if b"\0" in data[:8000] and _is_binary(data[:8000]):
        return None
    for codec in ("utf-8", *_cookie(data)):
        try:
            return _universal(data.decode(codec))
        except (UnicodeError, LookupError):
            continue
    return _universal(data.decode("latin-1"))


def _cookie(data: bytes) -> list[str]:
    """The codec that one of the first two lines names, where it is one for text (PEP 263)."""
    for line in data.split(b"\n", 2)[:2]:
        match = _COOKIE.match(line)
        if match is not None:
            name = match.group(1).decode("ascii", "ignore")
            return [name] if _TEXT_CODECS.match(name) else []
    return []


def _is_binary(head: bytes) -> bool:
    """Whether the zeros of these bytes are more than a slip in a text."""
    return head.count(0) > 4 + len(head) // 20 or any(byte < 7 for byte in head if byte)


def _universal(text: str) -> str:
    """Lines end as in Unix, as Python's own reading has it."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
