"""What the end of a log says over and above its counters: that the job is over, or has fallen silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from analyzers.logs.anomaly import silence_after_s
from analyzers.logs.ending import End
from analyzers.logs.series import Series
from analyzers.logs.skew import ahead_s
from analyzers.logs.standstill import is_trusted
from analyzers.logs.tracker import Tracker
from analyzers.types import Progress

#: Ranks of one job end within so many seconds of each other.
_TOGETHER_S = 120.0
#: Fewer time stamps tell no usual gap; more lines without one after the last mean that the log goes on.
_FEWEST_STAMPS = 5
_UNSTAMPED = 10


def with_outlook(found: Progress, tracker: Tracker, main: Series | None) -> Progress:
    """``found`` with how the log ends, without what no longer holds then; else with its silence."""
    missing: list[Literal["counter", "time"]] = []
    if found.current_step is None and found.current_epoch is None:
        missing.append("counter")
    if not tracker.stamps:
        missing.append("time")
    found = replace(found, not_understood=tuple(missing))
    end = ended(tracker, main)
    if end is not None:
        shown = (end.line.evidence(), *found.evidence[-1:])
        return replace(
            found,
            ended=end.outcome,
            quiet=None,
            eta_seconds=0.0 if end.outcome == "completed" else None,
            eta_range=None,
            anomaly=None if found.anomaly == "stall" else found.anomaly,
            evidence=tuple(dict.fromkeys((*found.evidence[:-1], *shown))),
        )
    if found.anomaly is None and _may_be_silent(found, tracker, main) and is_silent(tracker):
        shown = (tracker.stamped.evidence(),) if tracker.stamped is not None else ()
        return replace(
            found,
            anomaly="stall",
            eta_seconds=None,
            eta_range=None,
            evidence=tuple(dict.fromkeys((*shown, *found.evidence))),
        )
    return found


def ended(tracker: Tracker, main: Series | None) -> End | None:
    """How the job ends: as the main series' file says, or another file of the job at the same time or later.

    None while another file's training goes on.
    """
    last = main.last if main is not None else None
    file = last.file if last is not None else next(iter(tracker.spans)) if len(tracker.spans) == 1 else None
    own = tracker.ends.get(file) if file is not None else None
    ends = [own] if own is not None else []
    ahead = ahead_s(tracker, main) if main is not None else {}
    if own is None or own.outcome == "completed":
        ends += [end for name, end in tracker.ends.items() if name != file and _same_time(end, tracker, file, ahead)]
    chosen = max(ends, key=lambda end: end.outcome != "completed", default=None)
    if chosen is None:
        return None
    went_on = [
        time - ahead.get(name, 0.0)
        for name, time in tracker.trained.items()
        if name not in tracker.ends and time is not None
    ]
    until = chosen.line.time - ahead.get(chosen.line.file, 0.0) if chosen.line.time is not None else None
    return None if until is not None and any(time > until + _TOGETHER_S for time in went_on) else chosen


def _same_time(end: End, tracker: Tracker, file: str | None, ahead: Mapping[str, float]) -> bool:
    """Whether another file's end comes no earlier than the last training record of ``file``; ``ahead`` is what their
    clocks are."""
    latest = tracker.trained.get(file) if file is not None else None
    if end.outcome == "completed" or latest is None or file is None or end.line.time is None:
        return False
    return end.line.time - ahead.get(end.line.file, 0.0) >= latest - ahead.get(file, 0.0) - _TOGETHER_S


def is_silent(tracker: Tracker) -> bool:
    """Whether the log's last time stamp, of whatever line, is far older than its usual gap; needs ``now``."""
    if len(tracker.stamps) < _FEWEST_STAMPS or tracker.since_stamp > _UNSTAMPED:
        return False
    present = tracker.present(tracker.stamps[-1])
    return present is not None and present - tracker.stamps[-1] > silence_after_s(list(tracker.stamps))


def _may_be_silent(found: Progress, tracker: Tracker, main: Series | None) -> bool:
    """Whether only silence can tell a stall: no counter, or one of epochs or of a name that is unknown and has not come
    often yet; and not all done."""
    if tracker.finished_at >= 0 and found.current_step is None:
        return False
    if main is None:
        of = found.total_epochs
        return of is None or (found.current_epoch or 0) < of - 1
    done = found.total_steps is not None and (found.current_step or 0) >= found.total_steps
    return main.is_mined and not done and not (is_trusted(main) and found.not_understood == ())
