"""Start later jobs that delay nobody who has a reservation. What may start is told by `Trial`.

Without gained capacity only the jobs that are new since the last cycle are looked at. Otherwise those are for whom
something has changed: one by one where they are few (`Walk`), by columns where they are many (`Contest`).
"""

from __future__ import annotations

from collections.abc import Iterable

from schedmate.scheduler.contest import Contest
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.prospects import Changed, Prospects
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Place, Trial
from schedmate.scheduler.walk import Walk

#: So many jobs are looked at one by one in less time than it takes to sort out by columns who might start; of more, but
#: not ``MANY``, so many that can not start.
FEW, TRIES, MANY = 64, 16, 1024


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
        pools = [pool for pool in every if gained >> pool & 1]
        prospects = [each for pool in pools if (each := Prospects(state, trial, pool, now)).groups]
        changed = [each.changed() for each in prospects]
        if not _start_few(Walk(state, trial, gained), prospects, changed):
            Contest(state, trial, prospects).start_all()
        gained = sum(1 << pool for pool in every if len(state.reservations.get(pool, ())) < plans[pool])
        for each, those in zip(prospects, changed, strict=True):
            if (those.groups or those.new) and not gained >> each.pool & 1:  # else what is noted still holds
                each.note()


def _start_few(walk: Walk, prospects: list[Prospects], changed: list[Changed]) -> bool:
    """Those for whom something has changed, one by one; False if they are too many for that."""
    new = [(entry,) for each in changed for entry in each.new]
    classes, most = dict[tuple[int, int], Iterable[Entry]](), len(new)
    for each, those in zip(prospects, changed, strict=True):
        for group in those.groups:
            for lane, ordered in each.in_order(group).items():
                classes[group, lane] = ordered.in_order()
                most += ordered.most
            if most > MANY:
                return False
    return walk.start_all([*classes.values(), *new], most if most <= FEW else TRIES)


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
