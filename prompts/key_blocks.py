"""Private keys between their BEGIN and END lines: whole, cut off, or met line by line."""

from __future__ import annotations

import re

from prompts.secret_shapes import REDACTED

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[^\n]{0,80}?[A-Za-z0-9+/=]{24,}\s*$|\s*$|[^\n]{0,80}(?:Proc-Type|DEK-Info|Version|Comment):")
_LONGEST_KEY_CHARS = 32_768


def without_key_blocks(text: str) -> str:
    """Private keys, whole or cut off, on lines of their own or with ``\\n`` written out."""
    pieces: list[str] = []
    position = 0
    end: re.Match[str] | None = None
    exhausted = False
    while begin := _KEY_BEGIN.search(text, position):
        if not exhausted and (end is None or end.start() < begin.end()):
            end = _KEY_END.search(text, begin.end())
            exhausted = end is None
        if end is not None and 0 <= end.start() - begin.end() <= _LONGEST_KEY_CHARS:
            stop = end.end()
        else:
            stop = _end_of_cut_key(text, begin.end())
        block = text[begin.start() : stop]
        pieces += [text[position : begin.start()], REDACTED, "\n" * block.count("\n")]
        position = stop
    return "".join([*pieces, text[position:]])


def _end_of_cut_key(text: str, position: int) -> int:
    """Where a key block without its END line stops: at the first line that is not base64."""
    line_end = text.find("\n", position)
    if line_end < 0 or line_end - position > 64:  # the key goes on in the same line
        return len(text) if line_end < 0 else line_end
    position = line_end
    while position < len(text):
        line_end = text.find("\n", position + 1)
        line_end = len(text) if line_end < 0 else line_end
        line = text[position + 1 : line_end]
        if not line.strip() or not _KEY_LINE.match(line):
            return position
        position = line_end
    return position


class KeyBlocks:
    """Follows a text that is read line by line, for whoever can not see it whole."""

    def __init__(self) -> None:
        self._inside = False

    def without(self, line: str) -> str:
        """The line without what is inside of a key that began on an earlier one."""
        if self._inside:
            if end := _KEY_END.search(line):
                self._inside = False
                line = line[end.end() :]
            elif _KEY_LINE.match(line):
                return ""
            self._inside = False
        begin = _KEY_BEGIN.search(line)
        self._inside = begin is not None and not _KEY_END.search(line, begin.end())
        return line
