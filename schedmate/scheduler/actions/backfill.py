"""Start later jobs that delay no reserved start.

A waiting job may start now when it fits and either ends, by its bound, no later than the shadow time of the
reservation on that pool, or has a placement beside the reservation: one that leaves every reserved GPU free at the
shadow time. Jobs are taken in the order of the queue until none qualifies. Capacity only shrinks on the way, so this
is the same as one walk through the queue; jobs of one size share the verdict "does it fit".
"""

from __future__ import annotations

from dataclasses import replace

from schedmate.scheduler.free_index import RestrictedView
from schedmate.scheduler.pending import Entry, SizeClass
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Shares

IN_TIME = "backfilled: it ends before the reserved start"
BESIDE = "backfilled: it takes nothing that the reservation needs"
NOTHING_RESERVED = "backfilled: nothing is reserved on that pool"

Found = tuple[Entry, int, Shares, str]


def backfill(state: State, tx: Transaction, now: float) -> None:
    """Runs after `reserve`. Without gained capacity only the jobs that are new since the last cycle are looked at."""
    fresh = state.fresh
    if fresh:
        state.fresh = []
    if not state.blocked:
        state.gained = False
        return
    if not state.gained:
        live = state.table.live
        for entry in sorted(entry for slot in fresh if (entry := live[slot]) is not None):
            _start(state, tx, now, _one(state, now, entry))
        return
    while _start(state, tx, now, _first(state, now)):
        pass
    state.gained = False


def _start(state: State, tx: Transaction, now: float, found: Found | None) -> bool:
    if found is None:
        return False
    entry, pool, shares, reason = found
    slot = entry[2]
    tx.start(slot, pool, shares, now, reason)
    reservation = state.reservations.get(pool)
    if reason is BESIDE and reservation is not None:
        used = {node: gpus for node, gpus in shares if node in reservation.spare}
        if used:
            spare = {node: left - used.get(node, 0) for node, left in reservation.spare.items()}
            state.reservations = {**state.reservations, pool: replace(reservation, spare=spare)}
    return True


def _first(state: State, now: float) -> Found | None:
    """The first job in the queue's order that may start now."""
    best: Found | None = None
    views: dict[int, RestrictedView] = {}
    for lane in state.queue.lanes:
        for gpus, sized in (lane.by_size or {}).items():
            for pool in lane.pools:
                shares = state.place(state.cluster.pools[pool], gpus)
                if shares is None:
                    continue
                found = _in_class(state, now, sized, gpus, pool, shares, views)
                if found is not None and (best is None or found[0] < best[0]):
                    best = found
    return best


def _in_class(
    state: State,
    now: float,
    sized: SizeClass,
    gpus: int,
    pool: int,
    shares: Shares,
    views: dict[int, RestrictedView],
) -> Found | None:
    first = sized.first()
    if first is None:
        return None
    reservation = state.reservations.get(pool)
    if reservation is None:
        return first, pool, shares, NOTHING_RESERVED
    shadow_s = reservation.start_s
    bound_s = state.table.bound_s
    if now + bound_s[first[2]] <= shadow_s:
        return first, pool, shares, IN_TIME
    view = views.get(pool)
    if view is None:
        view = views[pool] = RestrictedView(state.cluster.pools[pool], reservation.spare)
    beside = state.place(view, gpus)
    if beside is not None:
        return first, pool, beside, BESIDE
    if now + sized.shortest_s > shadow_s:
        return None
    shortest = float("inf")
    for entry in sized.alive():
        bound = bound_s[entry[2]]
        if now + bound <= shadow_s:
            return entry, pool, shares, IN_TIME
        if bound < shortest:
            shortest = bound
    sized.shortest_s = shortest
    return None


def _one(state: State, now: float, entry: Entry) -> Found | None:
    """Whether this job may start now."""
    slot = entry[2]
    table = state.table
    gpus, lane = table.gpus[slot], table.lanes[slot]
    for pool in lane.pools if lane is not None else ():
        index = state.cluster.pools[pool]
        shares = state.place(index, gpus)
        if shares is None:
            continue
        reservation = state.reservations.get(pool)
        if reservation is None:
            return entry, pool, shares, NOTHING_RESERVED
        if now + table.bound_s[slot] <= reservation.start_s:
            return entry, pool, shares, IN_TIME
        beside = state.place(RestrictedView(index, reservation.spare), gpus)
        if beside is not None:
            return entry, pool, beside, BESIDE
    return None
