"""Tells estimates what runs: which job has started, and which had to leave without having ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from analyzers.types import JobRecord
from schedmate.simulator.estimates import HearsStarts, as_submitted


class Starts:
    """``cycle`` after every scheduling cycle, ``ended`` for each end. ``shares``, ``present`` and ``numbers`` are those
    of the loop, by slot; jobs with a number below 0 are not told of, as their end is not."""

    def __init__(
        self,
        estimates: HearsStarts,
        shares: Sequence[object | None],
        present: Sequence[JobRecord],
        numbers: Sequence[int],
    ) -> None:
        self._estimates, self._shares, self._present, self._numbers = estimates, shares, present, numbers
        self._running: dict[int, tuple[int, JobRecord]] = {}

    def ended(self, slot: int) -> None:
        """The job in the slot has ended, of which the estimates are told in their own way."""
        self._running.pop(slot, None)

    def cycle(self, started: Iterable[int], now: float) -> None:
        """These slots were started; whatever else ran and does no more was stopped."""
        again = set(started)
        for slot, (number, record) in list(self._running.items()):
            if slot in again or self._shares[slot] is None or self._numbers[slot] != number:
                del self._running[slot]
                self._estimates.stopped(record, now)
        for slot in sorted(again):
            if self._numbers[slot] >= 0:
                record = as_submitted(self._present[slot])
                self._running[slot] = self._numbers[slot], record
                self._estimates.started(record, now)
