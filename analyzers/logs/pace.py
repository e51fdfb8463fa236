"""How fast a series of records advances: robust against evaluation pauses, coarse clocks and noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from analyzers.logs.series import Record

#: With clocks that only show seconds, shorter intervals are joined so that rounding stays small.
_COARSE_INTERVAL_S = 8.0
_PRESENT = 12


@dataclass(frozen=True, slots=True)
class Interval:
    """Some steps and the time they took; ``end`` is the record that closes it, ``since`` the order of the one that
    opens it. ``is_explained``: something in the log says what it waited for."""

    end: Record
    steps: float
    seconds: float
    since: int = 0
    is_explained: bool = False

    @property
    def pace(self) -> float:
        """Seconds per step."""
        return self.seconds / self.steps


@dataclass(frozen=True, slots=True)
class Counting:
    """How steps are to be read: ``steps_per_epoch`` is set where they start anew in each epoch."""

    steps_per_epoch: int | None = None

    def position(self, record: Record) -> tuple[float, int]:
        """(steps since the start, stretch): only positions of one stretch can be compared."""
        step = float(record.step or 0)
        if self.steps_per_epoch is not None and record.epoch is not None:
            return record.epoch * self.steps_per_epoch + step, 0
        return step, record.lap


def intervals(records: Sequence[Record], counting: Counting, whole_seconds: bool) -> list[Interval]:
    """Intervals between records by their time stamps; by the bar's elapsed time where there are none."""
    stamped = [record for record in records if record.time is not None]
    if len({record.time for record in stamped}) >= 2:
        return _between(stamped, counting.position, lambda r: r.time or 0.0, whole_seconds)
    bars = [record for record in records if record.elapsed is not None]
    return _between(bars, lambda r: (float(r.step or 0), r.lap), lambda r: r.elapsed or 0.0, True)


def _between(
    records: Sequence[Record],
    position: Callable[[Record], tuple[float, int]],
    clock: Callable[[Record], float],
    whole_seconds: bool,
) -> list[Interval]:
    if len(records) < 2:
        return []
    span = clock(records[-1]) - clock(records[0])
    shortest = min(_COARSE_INTERVAL_S, max(span, 0.0) / 6) if whole_seconds else 0.0
    found: list[Interval] = []
    start = records[0]
    for record in records[1:]:
        (here, stretch), (there, before) = position(record), position(start)
        steps, passed = here - there, clock(record) - clock(start)
        if stretch != before or steps < 0 or passed < 0:
            start = record
        elif steps > 0 and passed > 0 and passed >= shortest:
            found.append(Interval(record, steps, passed, start.order))
            start = record
    return found


def present_pace(found: Sequence[Interval]) -> float | None:
    """Seconds per step over the last intervals, without pauses."""
    latest = list(found[-_PRESENT:])
    if not latest:
        return None
    middle = median(interval.pace for interval in latest)
    usual = [i for i in latest if 0.5 * middle <= i.pace <= 1.6 * middle] or latest
    return sum(i.seconds for i in usual) / sum(i.steps for i in usual)


def printed_pace(records: Sequence[Record]) -> float | None:
    """Seconds per step as the log itself says it lately."""
    said = [record.pace for record in records if record.pace is not None][-_PRESENT:]
    return median(said) if said else None
