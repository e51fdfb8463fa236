"""Joins what one failure said in several places: below the exception's line, and long before the program ended."""

from __future__ import annotations

import re
from dataclasses import replace

from analyzers.failures.clearing import DECIDES_ALONE
from analyzers.failures.events import Scan

#: Signatures up to this priority know an exception only by its type.
GENERIC_PRIORITY = 15
#: The message of an exception is looked through so far below its line.
MESSAGE_LINES = 12
_PATH = re.compile(r"/[\w.+=@-]{1,80}(?:/[\w.+=@-]{1,120}){1,20}")


def join_messages(scan: Scan) -> None:
    """The message of an exception often goes on below its line and there says what happened: the line that says it
    stands for the exception then."""
    for event in scan.events:
        if not event.fatal or event.dismissed or event.signature.priority > GENERIC_PRIORITY:
            continue
        below = [
            other
            for other in scan.events
            if other.file == event.file
            and other.rank == event.rank
            and 0 < other.line - event.line <= MESSAGE_LINES
            and other.attempt == event.attempt
        ]
        told = min(below, key=lambda e: e.line, default=None)
        if told is None or told.fatal or told.dismissed or told.signature.role not in ("root", "ambiguous"):
            continue
        if told.signature.priority > event.signature.priority:
            told.fatal, told.user_frame = True, event.user_frame
            told.signature = replace(
                told.signature, weight=max(told.signature.weight, told.signature.raised_weight, event.signature.weight)
            )
            event.explained_by = told


def recall(scan: Scan) -> None:
    """An error that was survived is the cause all the same when what ended the program speaks of the same file."""
    ends = [e for e in scan.events if e.fatal and not e.dismissed and e.writer == "job"]
    for event in scan.events:
        if not event.survived or event.signature.role != "root" or event.weight < DECIDES_ALONE:
            continue
        files = set(_PATH.findall(event.text))
        for end in ends:
            same_job_later = end.attempt == event.attempt and end.file == event.file and end.line > event.line
            if files and same_job_later and files & set(_PATH.findall(end.text)):
                event.dismissed, event.survived, end.explained_by = "", False, event
