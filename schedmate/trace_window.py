"""A stretch of a trace: what already ran and waited at its beginning, and what arrived in it.

So that a replay can start from the cluster as it was instead of from an empty one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from analyzers.types import JobRecord

#: Where a job stood at a moment. *held*: submitted, but a dependency or a hold kept it from being started.
#: *unknown*: submitted before, and the trace does not say when it started.
Standing = Literal["not_submitted", "held", "waiting", "running", "ended", "unknown"]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that ran at the beginning of a window: for how long it had run and, where known, how long it still did."""

    record: JobRecord
    ran_s: float
    left_s: float | None


@dataclass(slots=True)
class Window:
    """Jobs of a stretch from ``begin_s`` (included) to ``end_s`` (not included).

    ``running`` and ``waiting`` (held ones too) are those of its beginning; ``arriving`` were submitted in it. Each list
    keeps the order of the trace. ``unknown`` counts jobs of which the trace does not say whether they still mattered.
    """

    begin_s: float
    end_s: float
    running: list[RunningJob] = field(default_factory=list)
    waiting: list[JobRecord] = field(default_factory=list)
    arriving: list[JobRecord] = field(default_factory=list)
    unknown: int = 0


def standing(record: JobRecord, at_s: float) -> Standing:
    """Where a job stood at a moment; what happens at the moment itself has happened."""
    if record.submit_s > at_s:
        return "not_submitted"
    end_s = ended_s(record)
    if end_s is not None and end_s <= at_s:
        return "ended"
    if record.start_s is not None:
        if record.start_s <= at_s:
            return "running" if end_s is not None or record.state in (None, "running", "suspended") else "unknown"
    elif record.state != "pending" and not (record.end_s is not None and record.duration_s is None):
        return "unknown"  # neither started nor still waiting nor cancelled before it could
    return "held" if record.eligible_s is not None and record.eligible_s > at_s else "waiting"


def ended_s(record: JobRecord) -> float | None:
    """When it ended, None where that is not known or it has not."""
    if record.end_s is not None:
        return record.end_s
    if record.start_s is None or record.duration_s is None:
        return None
    return record.start_s + record.duration_s


def window(records: Iterable[JobRecord], begin_s: float, end_s: float) -> Window:
    """What of a trace belongs to a stretch of it; only that is held."""
    found = Window(begin_s, end_s)
    for record in records:
        if begin_s <= record.submit_s < end_s:
            found.arriving.append(record)
        elif record.submit_s < begin_s:
            _place(record, found)
    return found


def _place(record: JobRecord, found: Window) -> None:
    where = standing(record, found.begin_s)
    if where == "running" and record.start_s is not None:
        ran_s, end_s = found.begin_s - record.start_s, ended_s(record)
        found.running.append(RunningJob(record, ran_s, None if end_s is None else end_s - found.begin_s))
    elif where in ("held", "waiting"):
        found.waiting.append(record)
    elif where == "unknown":
        found.unknown += 1
