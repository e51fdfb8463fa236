"""Give the blocked heads a start time and concrete GPUs.

The plan looks ahead along the ends of the running jobs and asks, at each, whether the gang has a real placement by
then: along the expected ends for the *expected* start, along the hard limits alone for the *guaranteed* start. It
stays as it is while the same heads are blocked and every job ends when that was assumed: what was backfilled
meanwhile took nothing from it. A job that outlives its expected end gets another one, as `Policy.correct` says and
not beyond its hard limit; the steps are large, so that a wrong estimate costs few new plans.
"""

from __future__ import annotations

import math
from functools import partial

from schedmate.scheduler.expected_ends import ExpectedEnds, corrected_end_s
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Reservation


def reserve(state: State, tx: Transaction, now: float) -> None:
    """Keeps ``state.reservations`` in step with ``state.blocked``: on each pool for the first blocked head only.

    A head that has got a reservation keeps it until it starts: it goes to the front of the queue for good. But with
    `Factors` it is the first only as long as its priority is the highest.
    """
    due = _due(state, now) if state.blocked else []
    if not due:
        if state.reserved_for:
            state.reservations, state.reserved_for, state.gained = {}, [], True
        return
    if state.ends is not None and state.ends.next_s() <= now:
        extend(state, state.ends, tx, now)
    if not state.stale and due == state.reserved_for:
        return
    reservations: dict[int, tuple[Reservation, ...]] = {}
    for slot in due:
        lane = state.table.lanes[slot]
        plans = [_plan(state, slot, pool, now) for pool in (lane.pools if lane else ()) if pool not in reservations]
        if any(plans):
            best = min((plan for plan in plans if plan), key=lambda plan: plan[0].start_s)
            reservations[best[0].pool] = best
            if slot not in state.reserved_for and state.policy.factors is None:
                tx.promote(slot)
    state.reservations = reservations
    state.reserved_for = due
    state.stale = False
    state.gained = True


def earliest_start(
    state: State, ends: ExpectedEnds, slot: int, pool: int, now: float, guaranteed: bool
) -> Reservation | None:
    """The first time from ``now`` at which the gang in ``slot`` has a placement on ``pool``, every running job ending
    as ``ends`` says and nothing else starting. None if that takes a job of which no end is known."""
    table = state.table
    demand = table.demands[slot]
    ahead = state.cluster.pools[pool].copy()
    order = ends.order
    at_s, i = now, 0
    while True:
        shares = state.place(ahead, demand) if ahead.free_gpus >= demand.gpus else None
        if shares is not None:
            return Reservation(slot, pool, at_s, shares, ahead.spare_beside(shares), guaranteed)
        if i == len(order) or order[i][0] == math.inf:
            return None
        end_s = order[i][0]
        at_s = max(end_s, now)
        while i < len(order) and order[i][0] == end_s:
            ending = order[i][1]
            released = table.shares[ending]
            # One that has outlived this end without ending says nothing about when it will.
            if released is not None and table.pools[ending] == pool and not table.starts_s[ending] < now >= end_s:
                ahead.give(released)
            i += 1


def _due(state: State, now: float) -> list[int]:
    """The blocked heads that are to have a reservation, in order."""
    reserve_from, cluster_gpus = state.policy.reserve_from, state.cluster.spec.gpus
    due = []
    for slot in state.blocked:
        job = state.table.jobs[slot]
        if slot in state.reserved_for or (job and reserve_from and reserve_from(job, cluster_gpus) <= now):
            due.append(slot)
    return due


def _plan(state: State, slot: int, pool: int, now: float) -> tuple[Reservation, ...]:
    """The expected start and, where hard limits suffice, the guaranteed one."""
    plans = (
        earliest_start(state, ends, slot, pool, now, guaranteed)
        for ends, guaranteed in ((state.ends, False), (state.limits, True))
        if ends is not None
    )
    return tuple(plan for plan in plans if plan is not None)


def extend(state: State, ends: ExpectedEnds, tx: Transaction, now: float) -> None:
    """What has outlived its expected end gets another one, see `corrected_end_s`."""
    starts_s = state.table.starts_s
    outlived = []
    for end_s, slot in ends.order:
        if end_s > now:
            break
        if starts_s[slot] < now:  # one that started just now with an estimate of 0 has not outlived anything yet
            outlived.append((end_s, slot))
    for end_s, slot in outlived:
        began_s, limit_s = starts_s[slot], state.table.assumed[slot].limit_s
        longer = partial(state.policy.correct, state.table.present(slot))
        tx.move_end(slot, corrected_end_s(longer, began_s, end_s, now, began_s + limit_s))
        state.stale = True
