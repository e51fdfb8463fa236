"""Keeps the events of one file, in bounded memory: the first ones of a kind and the last."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from analyzers.failures.events import Event, Scan
from analyzers.failures.marks import GIVES_UP
from analyzers.types import LogEvidence

#: Events kept of one signature in one attempt of one file: of one rank (the first ones and the last), of all ranks.
MOST_PER_RANK = 4
MOST_PER_FILE = 2000
MOST_ECHOES_PER_FILE = 40
MOST_EVENTS = 100_000
HANDLED_WITHIN_LINES = 4
#: The traceback of an exception that Python ignored is no longer than this.
IGNORED_LINES = 40

_IGNORED = re.compile(r"Exception ignored in|sys\.unraisablehook|Error in atexit._run_exitfuncs")
_ALL_RANKS = -1


@dataclass(slots=True)
class Keeper:
    """Puts the events of one file into the scan. ``recent``: the last event of each rank that is no mere remark."""

    scan: Scan
    recent: dict[int | None, Event] = field(default_factory=dict)
    _kept: dict[tuple[str, int, int | None], list[int]] = field(default_factory=dict)
    _ignored: dict[int | None, int] = field(default_factory=dict)

    def keep(self, event: Event, rank: int | None) -> None:
        """Keep the first events of a kind and the last one; the last may be fatal where the first were survived."""
        everyone = self._kept.setdefault((event.signature.id, event.attempt, _ALL_RANKS), [])
        slots = self._kept.setdefault((event.signature.id, event.attempt, event.rank), [])
        echo = event.signature.weight == 0
        full = len(everyone) >= (MOST_ECHOES_PER_FILE if echo else MOST_PER_FILE)
        if len(slots) < MOST_PER_RANK and not full and len(self.scan.events) < MOST_EVENTS:
            everyone.append(len(self.scan.events))
            slots.append(len(self.scan.events))
            self.scan.events.append(event)
        elif slots and not echo:
            self.scan.events[slots[-1]] = event
        if event.signature.role != "informational":
            self.recent[rank] = event

    def check_ignored(self, event: Event, rank: int | None) -> None:
        """What Python says to ignore is no failure: the exception below the line, with a traceback or without."""
        if _IGNORED.search(event.text):
            self._ignored[rank] = event.line
            return
        said = self._ignored.get(rank)
        if said is None or event.line - said > IGNORED_LINES or event.signature.role == "informational":
            return
        if event.fatal or event.line == said + 1:
            event.dismissed = f"Python ignored this exception (line {said}); the program went on"
            del self._ignored[rank]

    def handled(self, rank: int | None, here: LogEvidence) -> None:
        """A line that says how an error was dealt with; it means the one just above."""
        recent = self.recent.get(rank)
        if recent is not None and here.line - recent.line <= HANDLED_WITHIN_LINES and not GIVES_UP.search(here.text):
            recent.handled = True
