"""Start later jobs that delay nobody who has a reservation. What may start is told by `Trial`.

Without gained capacity only the jobs that are new since the last cycle are looked at. Otherwise those are for whom
something has changed: one by one where they are few, by class where they are many (`Contest`).
"""

from __future__ import annotations

from collections.abc import Collection

from schedmate.scheduler.contest import Contest
from schedmate.scheduler.prospects import Prospects
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Place, Trial

#: So many jobs are looked at one by one in less time than it takes to sort out by columns who might start.
FEW = 64


def fill(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`."""
    layer, fresh = state.layer, state.fresh
    if layer is None:
        return
    planned = sum(1 << pool for pool in state.reservations) if state.policy.starts_by_plan else 0
    gained = layer.gained & ~planned
    if planned:  # where all have plans nobody starts but by them
        fresh = [slot for slot in fresh if (lane := state.table.queue_lanes[slot]) and not lane.pool_bits & planned]
    if gained or fresh:
        trial = Trial(state, tx, now)
        if gained:
            _start_waiting(state, trial, gained, now)
        if fresh:
            _start_fresh(state, trial, fresh, gained)
    layer.gained = 0
    if state.fresh:
        state.fresh = []


def _start_waiting(state: State, trial: Trial, gained: int, now: float) -> None:
    """Those who wait for pools that have gained. When somebody with a tentative plan has started, those are looked at
    once more who kept away from it."""
    every = range(len(state.cluster.pools))
    while gained:
        plans = [len(state.reservations.get(pool, ())) for pool in every]
        prospects = [
            each for pool in every if gained >> pool & 1 if (each := Prospects(state, trial, pool, now)).groups
        ]
        few = [each.few(FEW) for each in prospects]
        if None in few:
            Contest(state, trial, prospects).start_all()
        else:
            _start_few(state, trial, {slot for slots in few for slot in slots or ()}, gained)
        gained = sum(1 << pool for pool in every if len(state.reservations.get(pool, ())) < plans[pool])
        for each, slots in zip(prospects, few, strict=True):
            if slots != [] and not gained >> each.pool & 1:  # else what is noted still holds
                each.note()


def _start_few(state: State, trial: Trial, slots: Collection[int], gained: int) -> None:
    """One walk through some jobs in the order of the queue, as capacity only shrinks on the way; but a start sets its
    tenant back."""
    left, fair = _last_first(state, trial, slots), trial.layer.fair
    while left:
        slot = left.pop()
        lane = state.table.queue_lanes[slot]
        if lane is not None and lane.pool_bits & ~gained:
            gaining = [pool for pool in lane.pools if gained >> pool & 1]
            found = trial.find(slot) if trial.find(slot, gaining) is not None else None
        else:
            found = trial.find(slot)
        if found is not None:
            trial.start(slot, found)
            left = left if fair is None else _last_first(state, trial, left)


def _last_first(state: State, trial: Trial, slots: Collection[int]) -> list[int]:
    """Against the order of the queue."""
    if len(slots) < 2:
        return list(slots)
    lanes, entries = state.table.queue_lanes, state.table.entries
    places = [(trial.place_of(lane, entries[slot]), slot) for slot in slots if (lane := lanes[slot]) is not None]
    return [slot for _, slot in sorted(places, reverse=True)]


def _start_fresh(state: State, trial: Trial, fresh: list[int], gained: int) -> None:
    """Those that are new, on pools on which nobody else could start."""
    table, reserved = state.table, trial.layer.queue.reserved
    waiting: list[tuple[Place, int]] = []
    for slot in fresh:
        entry, lane = table.live[slot], table.queue_lanes[slot]
        if entry is not None and lane is not None and lane.pool_bits & ~gained and slot not in reserved:
            waiting.append((trial.place_of(lane, entry), slot))
    waiting.sort()
    for _, slot in waiting:
        found = trial.find(slot)
        if found is not None:
            trial.start(slot, found)
