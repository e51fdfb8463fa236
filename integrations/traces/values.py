"""Cells to values: times, durations, counts, outcomes; `BadValueError` says why a cell can not be used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from analyzers.types import Outcome

#: Beyond these a number is garbage, and differences of times lose their seconds.
MAX_TIME_S = 1e13
MAX_GPUS = 10_000_000

_CLOCK = re.compile(
    r"^(?:(?P<days>\d{1,9})-)?(?P<first>\d{1,12}):(?P<second>\d{1,6})(?::(?P<third>\d{1,6}(?:\.\d+)?))?$"
)
_WORDS_BY_OUTCOME: Mapping[Outcome, str] = {
    "completed": "completed complete success successful succeeded pass passed done finished ok",
    "failed": "failed fail failure error nodefail outofmemory oom bootfail crashed",
    "cancelled": "cancelled canceled killed revoked preempted stopped deleted aborted",
    "timeout": "timeout timedout timelimit deadline",
}
_OUTCOME_OF: Mapping[str, Outcome] = {word: end for end, words in _WORDS_BY_OUTCOME.items() for word in words.split()}


class BadValueError(ValueError):
    """A cell that makes its row unusable; the text is the reason."""


def time_s(cell: str, unit_s: float, what: str) -> float:
    """A point in time as seconds: a number in the given unit, or ISO-8601 (UTC where no zone is stated)."""
    try:
        value = float(cell) * unit_s
    except ValueError:
        return _iso_s(cell, what)
    return _in_range(value, what)


def duration_s(cell: str, unit_s: float, what: str) -> float:
    """A length of time as seconds: a number in the given unit, or [D-]HH:MM:SS."""
    try:
        value = float(cell) * unit_s
    except ValueError:
        value = _clock_s(cell, what)
    if _in_range(value, what) < 0:
        raise BadValueError(f"{what} is negative")
    return value


def whole(cell: str, what: str) -> int:
    """A whole number of at least 1."""
    try:
        value = float(cell)
    except ValueError:
        raise BadValueError(f"{what} is {'missing' if not cell.strip() else 'no number'}") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise BadValueError(f"{what} is not finite")
    if value <= 0:
        raise BadValueError(f"{what} is {'0' if value == 0 else 'negative'}")
    if value > MAX_GPUS:
        raise BadValueError(f"{what} is out of range")
    if value != int(value):
        raise BadValueError(f"{what} is no whole number")
    return int(value)


def optional_number(cell: str) -> float | None:
    """A finite number of 0 or more, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def text(cell: str) -> str | None:
    """The cell without surrounding blanks; None for an empty one."""
    return cell.strip() or None


def outcome(cell: str) -> Outcome | None:
    """The outcome a status word stands for; None for words such as RUNNING or unknown codes."""
    words = cell.lower().split()  # "CANCELLED by 1001": the first word counts
    if not words:
        return None
    return _OUTCOME_OF.get(words[0].replace("_", "").replace("-", "")) or _OUTCOME_OF.get("".join(words))


def _in_range(value: float, what: str) -> float:
    if value != value or value in (float("inf"), float("-inf")):
        raise BadValueError(f"{what} is not finite")
    if abs(value) > MAX_TIME_S:
        raise BadValueError(f"{what} is out of range")
    return value


def _iso_s(cell: str, what: str) -> float:
    stripped = cell.strip()
    if not stripped:
        raise BadValueError(f"{what} is missing")
    try:
        moment = datetime.fromisoformat(stripped)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise BadValueError(f"{what} is neither a number nor an ISO-8601 time") from None


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
