"""Times of a log as seconds on one clock, whatever its prefixes leave out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from analyzers.logs.dates import NO_YEAR

#: Unix seconds below which a time has no year.
DATED_FROM = datetime(NO_YEAR + 2, 1, 1, tzinfo=UTC).timestamp()
_DAY_S = 86400.0
_LAGS = 16
#: What is written now and has a time that is further from now was written by another clock, or comes late as a rule.
_CLOCKS_APART_S = 10.0
#: A clock is ahead where so many lines say so: one alone may name a time to come.
_FEWEST_AHEAD = 3
#: A time so much earlier than the one before it is of a clock that was set back (the end of summer time).
_SET_BACK_S = 60.0
#: No clock is further off.
_FURTHEST_S = 100 * 366 * _DAY_S


@dataclass(slots=True)
class Clock:
    """Times as seconds, with the year or date that a prefix leaves out; grows over midnight and new year.

    Seconds are those of the clock on the wall where ``now`` was read: of ``zone``, or the log's own.
    """

    now: datetime | None = None
    zone: tzinfo | None = None
    last: float | None = None
    added_s: float = 0.0
    whole_seconds: bool = True

    def seconds(self, time: datetime) -> float:
        """Unix seconds (times without a zone count as UTC)."""
        if time.tzinfo is not None and self.now is not None:
            time = (time.astimezone(self.zone) if self.zone is not None else time).replace(tzinfo=None)
        incomplete = time.year == NO_YEAR
        if time.microsecond:
            self.whole_seconds = False
        if incomplete and self.now is not None and (time.month, time.day) != (1, 1):
            time = self._dated(time)
            incomplete = False
        value = time.replace(tzinfo=time.tzinfo or UTC).timestamp() + (self.added_s if incomplete else 0.0)
        if incomplete and self.last is not None and value < self.last - _DAY_S / 2:
            step = _DAY_S if self.last - value < 2 * _DAY_S else 366 * _DAY_S
            self.added_s += step
            value += step
        self.last = value
        return value

    def _dated(self, time: datetime) -> datetime:
        assert self.now is not None
        for year in (self.now.year, self.now.year - 1):
            try:
                dated = time.replace(year=year)
            except ValueError:
                continue
            if dated.replace(tzinfo=UTC).timestamp() <= self.now.replace(tzinfo=UTC).timestamp() + _DAY_S:
                return dated
        return time


def present_after(now: datetime, last: float) -> float:
    """``now`` (without a zone) in seconds. Where the log's ``last`` time has no date, this is the nearest such time of
    day after it, within half a day."""
    present = now.replace(tzinfo=UTC).timestamp()
    if last > DATED_FROM:
        return present
    passed = (present - last) % _DAY_S
    return last + passed if passed < _DAY_S / 2 else last


@dataclass(slots=True)
class Lags:
    """How much later than their time stamps the latest lines were seen, while a log is followed."""

    _known: deque[float] = field(default_factory=lambda: deque(maxlen=_LAGS))
    _last: float = 0.0

    def note(self, arrived: float, time: float) -> None:
        """A line with that time was seen at ``arrived``, both in seconds; a time without a year tells nothing."""
        if time <= DATED_FROM or abs(arrived - time) > _FURTHEST_S:
            return
        if time < self._last - _SET_BACK_S:
            self._known.clear()
        self._last = time
        self._known.append(arrived - time)

    def behind_s(self) -> float:
        """By how much the log's clock is behind the follower's (less than 0: ahead); 0 where that is not known."""
        ahead = sum(lag < -_CLOCKS_APART_S for lag in self._known)
        lags = [lag for lag in self._known if ahead >= _FEWEST_AHEAD or lag >= -_CLOCKS_APART_S]
        least = min(lags, default=0.0)
        return least if abs(least) > _CLOCKS_APART_S else 0.0
