"""Jobs that wait are predicted anew when more has been learned: a queue that is days long would else be worked off by
what was known when it formed.
"""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.types import JobRecord
from schedmate.scheduler import Scheduler
from schedmate.simulator.estimates import ThinksAgain, as_submitted

#: Estimates are asked again when so many jobs have ended since, and this share of all that had ended by then.
LEAST = 10
GROWTH = 0.25


class SecondThoughts:
    """``ended`` for each end, ``before_cycle`` before every scheduling cycle. ``present`` and ``numbers`` are those of
    the loop, by slot; jobs with a number below 0 are not asked about."""

    def __init__(
        self, estimates: ThinksAgain, scheduler: Scheduler, present: Sequence[JobRecord], numbers: Sequence[int]
    ) -> None:
        self._estimates, self._scheduler, self._present, self._numbers = estimates, scheduler, present, numbers
        self._ended, self._next = 0, LEAST

    def ended(self) -> None:
        """One more job has ended, of which the estimates have been told."""
        self._ended += 1

    def before_cycle(self, now: float) -> None:
        """Whoever waits gets the hints that it would come with now, if enough was learned since the last time."""
        if self._ended < self._next:
            return
        self._next = self._ended + max(LEAST, int(GROWTH * self._ended))
        table = self._scheduler.state.table
        for slot, number in enumerate(self._numbers):
            if number < 0 or table.live[slot] is None:
                continue
            hints = self._estimates.again(as_submitted(self._present[slot]), now)
            if hints is not None:
                self._scheduler.update_hints(slot, hints, now)
