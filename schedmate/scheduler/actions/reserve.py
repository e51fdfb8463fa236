"""Give the blocked heads a start time and concrete GPUs.

The plan looks ahead along the expected ends of the running jobs and asks, at each, whether the gang has a real
placement by then. It stays as it is while the same heads are blocked and every job ends when that was assumed:
what was backfilled meanwhile took nothing from it. A job that outlives its assumed end is assumed to run for twice as
long in all (at least `SHORTEST_EXTENSION_S`), again and again, so that a wrong estimate costs few new plans.
"""

from __future__ import annotations

from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Reservation

SHORTEST_EXTENSION_S = 60.0


def reserve(state: State, tx: Transaction, now: float) -> None:
    """Keeps ``state.reservations`` in step with ``state.blocked``: at most one per pool, for the first in order."""
    ends = state.ends
    if ends is None:
        return
    if not state.blocked:
        if state.reservations:
            state.reservations, state.reserved_for = {}, []
        return
    if ends.next_s() <= now:
        _extend(state, ends, tx, now)
    if not state.stale and state.blocked == state.reserved_for:
        return
    reservations: dict[int, Reservation] = {}
    for slot in state.blocked:
        lane = state.table.lanes[slot]
        options = [
            earliest_start(state, ends, slot, pool, now)
            for pool in (lane.pools if lane is not None else ())
            if pool not in reservations
        ]
        if options:
            best = min(options, key=lambda option: option.start_s)
            reservations[best.pool] = best
    state.reservations = reservations
    state.reserved_for = state.blocked
    state.stale = False
    state.gained = True


def earliest_start(state: State, ends: ExpectedEnds, slot: int, pool: int, now: float) -> Reservation:
    """The first time from ``now`` at which the gang in ``slot`` has a placement on ``pool``, all running jobs ending
    as expected and nothing else starting."""
    table = state.table
    gpus = table.gpus[slot]
    ahead = state.cluster.pools[pool].copy()
    order, firm, at_s, i = ends.order, True, now, 0
    while True:
        shares = state.place(ahead, gpus) if ahead.free_gpus >= gpus else None
        if shares is not None:
            spare = {node: ahead.free[node] - taken for node, taken in shares}
            return Reservation(slot, pool, at_s, shares, spare, firm)
        at_s = order[i][0]
        while i < len(order) and order[i][0] == at_s:
            ending = order[i][1]
            released = table.shares[ending]
            if released is not None and table.pools[ending] == pool:
                ahead.give(released)
                firm = firm and table.firm[ending]
            i += 1


def _extend(state: State, ends: ExpectedEnds, tx: Transaction, now: float) -> None:
    starts_s = state.table.starts_s
    outlived = []
    for end_s, slot in ends.order:
        if end_s > now:
            break
        if starts_s[slot] < now:  # one that started just now with an estimate of 0 has not outlived anything yet
            outlived.append((end_s, slot))
    for end_s, slot in outlived:
        total_s = max(end_s - starts_s[slot], SHORTEST_EXTENSION_S / 2)
        while starts_s[slot] + total_s <= now:
            total_s *= 2
        tx.move_end(slot, starts_s[slot] + total_s)
        state.table.firm[slot] = False
        state.stale = True
