"""Cells to values: durations, counts, states; `BadValueError` says why a cell can not be used."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyzers.types import Outcome, State

#: Beyond these a number is garbage, and differences of times lose their seconds.
MAX_TIME_S = 1e13
MAX_GPUS = 10_000_000
#: What a history holds at most.
MAX_NUMBER = 1e15

_CLOCK = re.compile(
    r"^(?:(?P<days>\d{1,9})-)?(?P<first>\d{1,12}):(?P<second>\d{1,6})(?::(?P<third>\d{1,6}(?:\.\d+)?))?$"
)
_WORDS_BY_STATE: Mapping[State, str] = {
    "completed": "completed complete success successful succeeded pass passed done finished ok terminated",
    "failed": "failed fail failure error crashed",
    "node_fail": "nodefail nodefailure",
    "out_of_memory": "outofmemory oom oomkilled",
    "boot_fail": "bootfail",
    "cancelled": "cancelled canceled killed revoked stopped deleted aborted",
    "preempted": "preempted evicted",
    "timeout": "timeout timedout timelimit",
    "deadline": "deadline",
    "running": "running completing",
    "pending": "pending queued waiting configuring requeued",
    "suspended": "suspended",
}
_STATE_OF: Mapping[str, State] = {word: state for state, words in _WORDS_BY_STATE.items() for word in words.split()}
_OUTCOME_OF: Mapping[State, Outcome] = {
    "completed": "completed", "failed": "failed", "node_fail": "failed", "out_of_memory": "failed",
    "boot_fail": "failed", "cancelled": "cancelled", "preempted": "cancelled", "timeout": "timeout",
    "deadline": "timeout",
}  # fmt: skip
#: States of jobs that have not ended.
UNENDED: frozenset[State | None] = frozenset({"pending", "running", "suspended"})

#: A remark on rows that are used all the same.
END_DROPPED = "end before start: the end is not used"


#: What tools write where there is no value; anything else that can not be read is told.
NO_VALUE = frozenset(
    ("", "-1", "-", "none", "null", "n/a", "na", "unknown", "invalid", "unlimited", "infinite", "partition_limit")
)


def not_used(column: str) -> str:
    """The remark on a cell that holds something, but nothing that can be used."""
    return f"{column} can not be read: not used"


class BadValueError(ValueError):
    """A cell that makes its row unusable; the text is the reason."""


def duration_s(cell: str, unit_s: float, what: str) -> float:
    """A length of time as seconds: a number in the given unit, or [D-]HH:MM:SS."""
    try:
        value = float(cell) * unit_s
    except ValueError:
        value = _clock_s(cell, what)
    if _in_range(value, what) < 0:
        raise BadValueError(f"{what} is negative")
    return value


def whole(cell: str, what: str, least: int = 1) -> int:
    """A whole number of at least ``least`` (0 or 1)."""
    try:
        value = float(cell)
    except ValueError:
        raise BadValueError(f"{what} is {'missing' if not cell.strip() else 'no number'}") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise BadValueError(f"{what} is not finite")
    if value < 0 or (value == 0 and least > 0):
        raise BadValueError(f"{what} is {'0' if value == 0 else 'negative'}")
    if value > MAX_GPUS:
        raise BadValueError(f"{what} is out of range")
    if value != int(value):
        raise BadValueError(f"{what} is no whole number")
    return int(value)


def optional_number(cell: str) -> float | None:
    """A number of 0 or more that a history can hold, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 <= value <= MAX_NUMBER else None


def text(cell: str) -> str | None:
    """The cell without surrounding blanks; None for an empty one."""
    return cell.strip() or None


def state(cell: str) -> State | None:
    """The state that a status word stands for; None for unknown words and codes."""
    words = cell.lower().split()  # "CANCELLED by 1001": the first word counts
    if not words:
        return None
    return _STATE_OF.get(words[0].replace("_", "").replace("-", "")) or _STATE_OF.get("".join(words))


def outcome_of(ended: State | None) -> Outcome | None:
    """How a job ended, coarsely; None while it has not."""
    return None if ended is None else _OUTCOME_OF.get(ended)


def _in_range(value: float, what: str) -> float:
    if value != value or value in (float("inf"), float("-inf")):
        raise BadValueError(f"{what} is not finite")
    if abs(value) > MAX_TIME_S:
        raise BadValueError(f"{what} is out of range")
    return value


def _clock_s(cell: str, what: str) -> float:
    stripped = cell.strip()
    if not stripped:
        raise BadValueError(f"{what} is missing")
    match = _CLOCK.match(stripped)
    if match is None:
        raise BadValueError(f"{what} is no number")
    days = int(match["days"] or 0)
    if match["third"] is None and not match["days"]:  # MM:SS
        return int(match["first"]) * 60.0 + int(match["second"])
    return days * 86_400.0 + int(match["first"]) * 3_600.0 + int(match["second"]) * 60.0 + float(match["third"] or 0)
