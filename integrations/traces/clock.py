"""Local times of a dump to seconds since 1970: time zones, and the hours that clocks show twice or never.

Which of the two moments such a time is, only the other times of its job can tell: `settled`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise, product

from integrations.traces.values import MAX_TIME_S, BadValueError
from schedmate.ports import TraceNotes

_EPOCH = datetime(1970, 1, 1)
_HOUR_CHARS = len("2024-01-01T00")
#: A runtime is rounded, and so are start and end: it may be longer than the time between them by this.
_ROUNDED_S = 2.0
TWICE = (
    "a time in the hour that comes twice when clocks are put back, and nothing tells which: "
    "read as the one nearest to the job's other times, else as the first"
)
NEVER = "a time that clocks skip when they are put forward: read as if they had not been"
#: Offsets kept; beyond it (a file of garbage dates) they are found out again.
_MAX_HOURS_KEPT = 100_000


class Clock:
    """Reads ISO-8601 times without a zone as local ones of ``zone``; a time that states its own keeps it."""

    def __init__(self, zone: tzinfo = UTC, notes: TraceNotes | None = None) -> None:
        self._zone, self._notes, self._name = zone, notes, str(zone)
        self._offsets: dict[str, float | None] = {}

    def seconds(self, cell: str, what: str) -> float:
        """Seconds since 1970, an `OddTime` where that may be either of two, for `settled`. Raises `BadValueError`."""
        text = cell.strip()
        if not text:
            raise BadValueError(f"{what} is missing")
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                return moment.timestamp()
            if self._notes is not None:
                self._notes.local_zone = self._name
            local_s = (moment - _EPOCH).total_seconds()
            if self._zone is UTC:
                return local_s
            offset_s = self._offset_s(text[:_HOUR_CHARS], moment)
            if offset_s is not None:
                return local_s - offset_s
            return self._in_odd_hour(moment)
        except (ValueError, OverflowError):
            raise BadValueError(f"{what} is neither a number nor an ISO-8601 time") from None

    def _offset_s(self, hour: str, moment: datetime) -> float | None:
        """The offset that holds all through the hour, None where it changes in it."""
        if hour in self._offsets:
            return self._offsets[hour]
        edges = (moment.replace(minute=m, second=s, fold=f) for m, s in ((0, 0), (59, 59)) for f in (0, 1))
        found = {_offset_of(edge, self._zone) for edge in edges}
        offset_s = found.pop() if len(found) == 1 else None
        if len(self._offsets) < _MAX_HOURS_KEPT:
            self._offsets[hour] = offset_s
        return offset_s

    def _in_odd_hour(self, moment: datetime) -> float:
        first, second = (moment.replace(tzinfo=self._zone, fold=fold).timestamp() for fold in (0, 1))
        return first if first == second else OddTime(first, second)


class OddTime(float):
    """A local time that clocks show twice (``other`` is the later moment), or never (then it is the earlier one)."""

    other: float

    def __new__(cls, seconds: float, other: float) -> OddTime:
        """The moment that it is taken for where nothing tells, and the other one."""
        made = super().__new__(cls, seconds)
        made.other = other
        return made


def settled(times: Sequence[float | None], ran_s: float | None, notes: TraceNotes) -> list[float | None]:
    """The moments of one job in the order in which they come to pass, the last two its start and its end.

    Where one is an `OddTime`, that of its two moments is taken which fits: nothing comes before what precedes it, and
    end minus start is the runtime (a little more where the job was suspended). What nothing decides is remarked.
    """
    odd = [each for each in times if type(each) is OddTime]
    if not odd:
        return list(times)

    def misfit(moments: Sequence[float | None]) -> tuple[int, float]:
        known = [each for each in moments if each is not None]
        wrong = sum(after < before for before, after in pairwise(known))
        start_s, end_s = moments[-2:]
        if start_s is None or end_s is None or ran_s is None:
            return wrong, 0.0
        return wrong + (end_s - start_s < ran_s - _ROUNDED_S), abs(end_s - start_s - ran_s)

    def span_s(moments: Sequence[float | None]) -> float:
        known = [each for each in moments if each is not None]
        return max(known) - min(known)

    tried: list[Sequence[float | None]] = list(
        product(*((float(t), t.other) if type(t) is OddTime else (t,) for t in times))
    )
    least = min(map(misfit, tried))
    fitting = [moments for moments in tried if misfit(moments) == least]
    if any(each.other < each for each in odd):
        notes.remark(NEVER)
    elif len(fitting) > 1:
        notes.remark(TWICE)
    shortest: Sequence[float | None] = min(fitting, key=span_s)
    return list(shortest)


def _offset_of(moment: datetime, zone: tzinfo) -> float:
    offset = moment.replace(tzinfo=zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def number_or_time(cell: str, unit_s: float, what: str, clock: Clock) -> float:
    """A point in time as seconds: a number in the given unit, or ISO-8601. Raises `BadValueError`."""
    try:
        value = float(cell) * unit_s
    except ValueError:
        value = clock.seconds(cell, what)
    if value != value or value in (float("inf"), float("-inf")):
        raise BadValueError(f"{what} is not finite")
    if abs(value) > MAX_TIME_S:
        raise BadValueError(f"{what} is out of range")
    return value
