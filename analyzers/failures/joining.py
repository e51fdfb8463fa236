"""Joins what one failure said in several places: below the exception's line, and long before the program ended."""

from __future__ import annotations

import re
from dataclasses import replace

from analyzers.failures.events import Event, Scan
from analyzers.failures.signatures import GENERIC_PRIORITY, STRONG

#: The message of an exception is looked through so far below its line.
MESSAGE_LINES = 12
_PATH = re.compile(r"/[\w.+=@-]{1,80}(?:/[\w.+=@-]{1,120}){1,20}")


def join_messages(scan: Scan) -> None:
    """The message of an exception often goes on below its line and there says what happened: the line that says it
    stands for the exception then."""
    by_line: dict[tuple[str, int | None, int], dict[int, Event]] = {}
    for event in scan.events:
        by_line.setdefault((event.file, event.rank, event.attempt), {})[event.line] = event
    for event in scan.events:
        if not event.fatal or event.dismissed or event.signature.priority > GENERIC_PRIORITY:
            continue
        here = by_line[event.file, event.rank, event.attempt]
        below = [here[line] for line in range(event.line + 1, event.line + MESSAGE_LINES + 1) if line in here]
        ended = min((other.line for other in below if other.fatal), default=event.line + MESSAGE_LINES + 1)
        telling = [e for e in below if e.line < ended and not e.dismissed and e.signature.role in ("root", "ambiguous")]
        told = min(telling, key=lambda e: e.line, default=None)
        if told is None:
            continue
        if told.signature.priority > event.signature.priority:
            told.fatal, told.user_frame = True, event.user_frame
            told.signature = replace(
                told.signature, weight=max(told.signature.weight, told.signature.raised_weight, event.signature.weight)
            )
            event.explained_by = told


def recall(scan: Scan) -> None:
    """An error that was survived is the cause all the same when what ended the program speaks of the same file."""
    ends: dict[tuple[str, int, str], Event] = {}
    for event in scan.events:
        if event.fatal and not event.dismissed and event.writer == "job":
            ends |= {(event.file, event.attempt, path): event for path in _PATH.findall(event.text)}
    for event in scan.events:
        if not event.survived or event.signature.role != "root" or event.weight < STRONG:
            continue
        for path in _PATH.findall(event.text):
            end = ends.get((event.file, event.attempt, path))
            if end is not None and end.line > event.line:
                event.dismissed, event.survived, end.explained_by = "", False, event
                break
