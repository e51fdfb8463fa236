"""Waiting jobs looked at one by one in the order of the queue, where they are few. Capacity only shrinks on the way, so
that once is enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from schedmate.scheduler.pending import Entry
from schedmate.scheduler.state import State
from schedmate.scheduler.trial import Place, Trial

#: Where the next one of a class stands, its slot, and the number of the class.
_Next = tuple[Place, int, int]


class Walk:
    """Through those who wait for some pools, of which those ``gained`` (bits) have gained."""

    __slots__ = ("_classes", "_gained", "_state", "_trial")

    def __init__(self, state: State, trial: Trial, gained: int) -> None:
        self._state, self._trial, self._gained = state, trial, gained
        self._classes: list[Iterator[Entry]] = []

    def start_all(self, classes: Iterable[Iterable[Entry]], tries: int) -> bool:
        """Start those who may, of classes that are each in order: jobs of one demand that wait in one lane. False if
        more than ``tries`` could not start before all had been looked at."""
        self._classes = [iter(each) for each in classes]
        heads = [head for number in range(len(self._classes)) if (head := self._next(number)) is not None]
        heapify(heads)
        while heads:
            _, slot, number = heads[0]
            is_started = self._start(slot)
            if not is_started:
                tries -= 1
            following = self._next(number) if is_started or self._fits(slot) else None
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, following)
            if is_started and self._trial.layer.fair is not None:  # that sets its tenant back
                heads = [(self._place(each), each, own) for _, each, own in heads]
                heapify(heads)
            if tries < 0:
                return not heads
        return True

    def _next(self, number: int) -> _Next | None:
        """The next one of a class that still waits."""
        entry = next(self._classes[number], None)
        return None if entry is None else (self._place(entry[2]), entry[2], number)

    def _place(self, slot: int) -> Place:
        lane, entry = self._state.table.queue_lanes[slot], self._state.table.entries[slot]
        if lane is None:
            raise ValueError(f"slot {slot} waits in no lane")
        return self._trial.place_of(lane, entry)

    def _start(self, slot: int) -> bool:
        """Start a job if it may, because of what has changed."""
        trial, lane = self._trial, self._state.table.queue_lanes[slot]
        if self._state.table.live[slot] is None or lane is None:  # it was in two classes
            return False
        if lane.pool_bits & ~self._gained and trial.find(slot, self._pools(slot)) is None:
            return False
        found = trial.find(slot)
        if found is None:
            return False
        trial.start(slot, found)
        return True

    def _fits(self, slot: int) -> bool:
        """Whether what a job asks for has a placement at all on what has gained."""
        demand = self._state.table.demands[slot]
        return any(self._trial.beside.fits(pool, demand, 0) for pool in self._pools(slot))

    def _pools(self, slot: int) -> list[int]:
        lane = self._state.table.queue_lanes[slot]
        return [] if lane is None else [pool for pool in lane.pools if self._gained >> pool & 1]
