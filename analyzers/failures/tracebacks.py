"""Reads Python tracebacks as they come, one line at a time, for many interleaved processes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from analyzers.types import LogEvidence

FRAME = re.compile(r'^(?:  )?File "(?P<path>[^"]{1,400})", line (?P<line>\d+)(?:,? in (?P<where>.{1,120}))?')
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,160})(?::\s?(?P<message>.*))?$")
_CHAIN_DIRECT = "The above exception was the direct cause of the following exception"
_CHAIN_DURING = "During handling of the above exception, another exception occurred"
LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python3|<frozen|/conda/.*/lib/|importlib|^<")
_EXCEPTION_WORD = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Failure|Fault|Died|Abort\w*|Iteration|error)$"
)
#: Stacks drawn in a box (rich), and the bars of exception groups.
_DRAWN = ("│", "╭", "╰", "❱", "| ")
_MOST_LINES = 400


@dataclass(slots=True)
class Raised:
    """One exception of a chain: where its line stands, its type, and the innermost frame in the user's own code."""

    evidence: LogEvidence
    type: str
    message: str
    user_frame: LogEvidence | None
    direct_cause_of_next: bool = False


@dataclass(slots=True)
class Traceback:
    """A traceback being read. Feed it lines (prefixes taken off); ``raised`` fills as exceptions are seen."""

    raised: list[Raised] = field(default_factory=list)
    done: bool = False
    _user_frame: LogEvidence | None = None
    _lines: int = 0
    _waiting: bool = False

    def feed(self, rest: str, original: LogEvidence) -> bool:
        """Take one line; returns whether it is part of the stack (a frame or source), which never is an event."""
        self._lines += 1
        if self._lines > _MOST_LINES:
            self.done = True
            return False
        stripped = rest.strip()
        if stripped.startswith(_DRAWN):
            return True
        if not stripped or stripped.startswith("Traceback (most recent"):
            return False
        if _CHAIN_DIRECT in stripped or _CHAIN_DURING in stripped:
            if self.raised:
                self.raised[-1].direct_cause_of_next = _CHAIN_DIRECT in stripped
            self._waiting, self._user_frame = False, None
            return False
        if frame := FRAME.match(stripped):
            self._waiting = False
            if not LIBRARY.search(frame["path"]):
                self._user_frame = original
            return True
        if self._waiting:
            self.done = True
            return False
        if rest.startswith(("  ", "\t")) or set(stripped) <= set("^~ "):
            return True
        exception = _EXCEPTION.match(stripped)
        if exception and is_exception_type(exception["type"]):
            self.raised.append(Raised(original, exception["type"], exception["message"] or "", self._user_frame))
            self._waiting = True
            return False
        # A source line whose indentation was lost by a collector, or the tail of an odd traceback.
        self.done = self._lines > 60
        return False


def is_exception_type(name: str) -> bool:
    """Whether a dotted name looks like an exception's type."""
    last = name.rpartition(".")[2]
    return bool(_EXCEPTION_WORD.search(last)) or (last[:1].isupper() and "." in name and not last.isupper())
