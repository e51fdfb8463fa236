"""Where the silences of one kind keep coming: every so many steps, or every so much time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from analyzers.logs.evenly import Even
from analyzers.logs.pauses import Silence

#: Times that a pause by the clock comes after.
BY_CLOCK_S = (600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0)
#: Of silences that come evenly by the clock, at least so many are not explained by steps.
_OFF_STEPS = 1 / 3
#: Of so many latest times between two, this share must be alike.
_LOOKED_BACK, _FEWEST_APART, _KEPT_TO = 12, 3, 0.6


class Course(NamedTuple):
    """What a run's records are like: so many steps (``stride``) and seconds (``gap``) from one to the next; from which
    step on they are known (``since``), and how many steps the run had done ``before`` these count; when the log
    ``begun``, and when its ``first`` record came, in seconds."""

    stride: float
    gap: float
    since: float
    before: float
    begun: float
    first: float


@dataclass(frozen=True)
class Habit:
    """Silences of one kind on a run's course."""

    silences: Sequence[Silence]
    course: Course

    def due(self, here: float, now: float) -> list[Silence]:
        """Those that make another one due after the record of step ``here`` that came at ``now``."""
        by_step = [self._on_steps[at] for at in self._by_step.due(here)]
        by_clock = [self._on_clock[at] for at in self._by_clock.due(now)] or self._renewed(now)
        explained = sum(one.since in self._surely_on_steps for one in by_clock)
        return by_step + (by_clock if explained <= (1 - _OFF_STEPS) * len(by_clock) else [])

    def is_part(self, one: Silence) -> bool:
        """Whether one of the silences is one of several that come evenly."""
        if one.since not in self._off_steps:
            return True
        return one in self._on_clock and self._by_clock.keeps_coming(self._on_clock.index(one))

    def _renewed(self, now: float) -> list[Silence]:
        """All where a time has passed since the last one that has passed between most: a clock set by each of them."""
        begins = [self._begin(one) for one in self._on_clock]
        apart = [b - a for a, b in pairwise(begins)][-_LOOKED_BACK:]
        if len(apart) < _FEWEST_APART:
            return []
        usual, within = median(apart), 1.5 * self.course.gap
        is_kept = sum(abs(one - usual) <= within for one in apart) >= _KEPT_TO * len(apart)
        return self._on_clock if is_kept and abs(now - begins[-1] - usual) <= within else []

    def _begin(self, one: Silence) -> float:
        """When it began; of one that is far longer than usual, as another came before it, so long before its end."""
        usual = median(other.seconds for other in self._on_clock)
        return one.time + (one.seconds - usual if one.seconds > 2 * usual else 0.0)

    @cached_property
    def _on_steps(self) -> list[Silence]:
        return sorted(self.silences, key=lambda one: one.position)

    @cached_property
    def _on_clock(self) -> list[Silence]:
        """Those within epochs, by their times."""
        return sorted((one for one in self.silences if not one.is_new_epoch), key=lambda one: one.time)

    @cached_property
    def _by_step(self) -> Even:
        places = [one.position + self.course.before for one in self._on_steps]
        return Even(places, self.course.stride, self.course.since + self.course.before, from_zero=True)

    @cached_property
    def _by_clock(self) -> Even:
        times = [one.time for one in self._on_clock]
        course = self.course
        return Even(times, 1.5 * course.gap, course.first, from_zero=False, usual=BY_CLOCK_S, begun=course.begun)

    @cached_property
    def _off_steps(self) -> set[int]:
        """The orders of those that no steps explain."""
        return {one.since for at, one in enumerate(self._on_steps) if not self._by_step.keeps_coming(at)}

    @cached_property
    def _surely_on_steps(self) -> set[int]:
        return {one.since for at, one in enumerate(self._on_steps) if self._by_step.surely_keeps_coming(at)}
