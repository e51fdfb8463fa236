"""Local times of a dump to seconds since 1970: time zones, and the hour that comes twice a year."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from integrations.traces.values import MAX_TIME_S, BadValueError
from schedmate.ports import TraceNotes

_EPOCH = datetime(1970, 1, 1)
_HOUR_CHARS = len("2024-01-01T00")
#: Offsets kept; beyond it (a file of garbage dates) they are found out again.
_MAX_HOURS_KEPT = 100_000


class Clock:
    """Reads ISO-8601 times without a zone as local ones of ``zone``; a time that states its own keeps it."""

    def __init__(self, zone: tzinfo = UTC, notes: TraceNotes | None = None) -> None:
        self._zone, self._notes, self._name = zone, notes, str(zone)
        self._offsets: dict[str, float | None] = {}

    def seconds(self, cell: str, what: str, not_before_s: float | None = None) -> float:
        """Seconds since 1970. Of the two moments that a time in the repeated hour can be, the first is taken unless
        it lies before ``not_before_s``. Raises `BadValueError`."""
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
            return self._in_odd_hour(moment, not_before_s)
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

    def _in_odd_hour(self, moment: datetime, not_before_s: float | None) -> float:
        first, second = (moment.replace(tzinfo=self._zone, fold=fold).timestamp() for fold in (0, 1))
        if first >= second:  # an hour that was left out; there is only one reading
            return first
        if self._notes is not None:
            self._notes.remark("a time in the hour that comes twice when clocks are put back")
        return second if not_before_s is not None and first < not_before_s else first


def _offset_of(moment: datetime, zone: tzinfo) -> float:
    offset = moment.replace(tzinfo=zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def number_or_time(cell: str, unit_s: float, what: str, clock: Clock, not_before_s: float | None = None) -> float:
    """A point in time as seconds: a number in the given unit, or ISO-8601. Raises `BadValueError`."""
    try:
        value = float(cell) * unit_s
    except ValueError:
        value = clock.seconds(cell, what, not_before_s)
    if value != value or value in (float("inf"), float("-inf")):
        raise BadValueError(f"{what} is not finite")
    if abs(value) > MAX_TIME_S:
        raise BadValueError(f"{what} is out of range")
    return value
