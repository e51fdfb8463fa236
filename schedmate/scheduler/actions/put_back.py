"""Probes of the early-failure lane whose time is over: put back for those who stand before them, else they go on.

See `early_lane`. Runs after `fill`: who could start without that has started.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import merge

from schedmate.scheduler.actions.fill import fill
from schedmate.scheduler.actions.plan import NEXT_TURN_S
from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.promises import rank
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Place, Trial
from schedmate.scheduler.what_if import least

IN_PLACE = "stands before a job that was tried and has not failed early"

#: So many waiting jobs of a pool, the first in order, are looked at.
MOST_LOOKED_AT = 32

#: So many probes are told together which of them have to go.
MOST_TOGETHER = 16


def put_back(state: State, tx: Transaction, now: float) -> None:
    """Leaves the slots that were put back in ``layer.gave_way``, and those that go on in ``layer.went_on``."""
    layer = state.layer
    if layer is None:
        return
    layer.gave_way = layer.went_on = ()
    due: dict[int, list[int]] = {}
    for due_s, slot in list(layer.trying.order):
        if due_s > now:
            break
        due.setdefault(state.table.pools[slot], []).append(slot)
    for pool, slots in due.items():
        _Pool(state, layer, tx, pool, now).decide(slots)
    if layer.gave_way:
        fill(state, tx, now)
        layer.turn_s = min(layer.turn_s, now + NEXT_TURN_S)  # the first who is blocked now may be another one


class _Pool:
    def __init__(self, state: State, layer: QueueLayer, tx: Transaction, pool: int, now: float) -> None:
        self._state, self._layer, self._tx, self._pool, self._now = state, layer, tx, pool, now

    def decide(self, due: list[int]) -> None:
        """Let go who has to, as few as will do each time, until nobody can be helped any more."""
        for at in range(0, len(due), MOST_TOGETHER):
            left = due[at : at + MOST_TOGETHER]
            while left and self._suffices(left):
                few = least(left, self._suffices)
                self._start_without(few)
                self._layer.gave_way = (*self._layer.gave_way, *few)
                left = [slot for slot in left if slot not in few]
            for slot in left:
                self._tx.try_until(slot, math.inf)
            self._layer.went_on = (*self._layer.went_on, *left)

    def _suffices(self, few: list[int]) -> bool:
        if not few:
            return False
        point = self._tx.savepoint()
        found = self._start_without(few)
        self._tx.back_to(point)
        return found

    def _start_without(self, few: Sequence[int]) -> bool:
        """Put back a few, and start the first job that stands before all of them; whether there is one that can."""
        state, table = self._state, self._state.table
        for slot in few:
            self._tx.put_back(slot, self._now)
        trial = Trial(state, self._tx, self._now)
        lanes = [(lane, table.entries[slot]) for slot in few if (lane := table.queue_lanes[slot]) is not None]
        before = min(trial.place_of(lane, entry) for lane, entry in lanes)
        for slot in self._before(trial, before):
            found = trial.find(slot, (self._pool,))
            if found is not None:
                trial.start(slot, found, IN_PLACE)
                state.blocked = [other for other in state.blocked if other != slot]
                return True
        return False

    def _before(self, trial: Trial, before: Place) -> Iterator[int]:
        """Those who wait for the pool and stand before a place: who has a reservation first; of a lane that has been
        refused a size, the others of that size are left out."""
        table, layer = self._state.table, self._layer
        for slot in layer.reserved:
            lane = table.queue_lanes[slot]
            if lane is not None and lane.pool_bits >> self._pool & 1 and rank(self._state, slot) <= before[0]:
                yield slot
        refused: set[tuple[int, object]] = set()
        lanes = [lane for lane in layer.queue.lanes if lane.pool_bits >> self._pool & 1 and lane.rank <= before[0]]
        for place, slot, lane in merge(*(self._placed(trial, lane) for lane in lanes)):
            if place >= before:
                return
            key = lane.number, table.demands[slot]
            if key not in refused:
                refused.add(key)
                yield slot

    def _placed(self, trial: Trial, lane: QueueLane) -> Iterator[tuple[Place, int, QueueLane]]:
        return ((trial.place_of(lane, entry), entry[2], lane) for entry in lane.order.few(MOST_LOOKED_AT))
