"""The objects of one long JSON array, one at a time, without holding the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.trace_files import chunks

#: One job of an array may be so long; a longer one is no job.
_MAX_OBJECT_CHARS = 1 << 26
#: An error this near to the end of what was read may be for want of more text.
_NEAR_END_CHARS = 32
#: What a value of which nothing can be missing ends with.
_CLOSED = '}]"'
_BETWEEN = re.compile(r"[\s,]*+")


def objects(path: Path, key: str | None) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, value) of the elements of the array that the file is, or of the array named ``key`` in it.

    Raises `UserError` where the text is cut or is no JSON.
    """
    text = _Text(path)
    opening = re.compile(r"\A\s*\[" if key is None else rf'"{re.escape(key)}"\s*:\s*\[')
    text.skip_past(opening, f"no JSON array {key!r}" if key else "no JSON array")
    number = 0
    while True:
        text.skip(_BETWEEN)
        if text.starts_with("]"):
            return
        number += 1
        yield number, text.value(number)


class _Text:
    """A window on the text that grows and moves as it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pieces = chunks(path)
        self._window = ""
        self._at = 0
        # Control characters inside strings are no JSON, but job names hold them.
        self._decoder = json.JSONDecoder(strict=False)

    def skip_past(self, pattern: re.Pattern[str], missing: str) -> None:
        """Move behind the first match."""
        while (match := pattern.search(self._window)) is None:
            wrong = pattern.pattern.startswith(r"\A") and self._window.strip()
            if wrong or len(self._window) > _MAX_OBJECT_CHARS or not self._more():
                raise UserError(f"{self._path}: {missing} in it, or it is cut off", "dump or download the file again")
        self._at = match.end()

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Move behind what matches here, reading on while that goes to the end of the window."""
        while True:
            match = pattern.match(self._window, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._window) or not self._more():
                return

    def starts_with(self, mark: str) -> bool:
        """Whether ``mark`` stands here."""
        return self._window.startswith(mark, self._at)

    def value(self, number: int) -> Any:
        """The JSON value that stands here."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._window, self._at)
                if end == len(self._window) and self._window[-1] not in _CLOSED and self._more():
                    continue  # a number may go on
                self._at = end
                return value
            except RecursionError:
                raise self._error(number, "is nested too deeply") from None
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._window) - _NEAR_END_CHARS or error.msg.startswith("Unterminated string")
                if not cut or len(self._window) - self._at > _MAX_OBJECT_CHARS:
                    raise self._error(number, f"is no JSON ({error.msg})") from None
                if not self._more():
                    raise self._error(number, "is cut off: the file ends early") from None
            except ValueError:  # a number of more digits than Python takes
                raise self._error(number, "holds a number that is none") from None

    def _more(self) -> bool:
        """Double the window, forgetting what lies behind; False at the end of the file."""
        kept = self._window[self._at :]
        parts, wanted = [kept], max(len(kept), 1)
        while wanted > 0 and (piece := next(self._pieces, "")):
            parts.append(piece)
            wanted -= len(piece)
        self._window, self._at = "".join(parts), 0
        return len(parts) > 1

    def _error(self, number: int, what: str) -> UserError:
        return UserError(f"{self._path}: job {number} {what}", "dump or download the file again")
