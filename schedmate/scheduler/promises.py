"""Whom a plan binds. A start that was told as guaranteed binds everyone but those of a higher class who came later.

A plan is told as guaranteed only while nobody waits who could still take its place: no job of a higher class that came
later and has no guaranteed plan of its own. The numbers compared are counts of cycles: ``since`` of a job, when it came
(into its class; who reaches the starvation bound, before), and `QueueLayer.promised` of a plan, when it was last told.
"""

from __future__ import annotations

import math

from schedmate.scheduler.state import State
from schedmate.scheduler.types import Reservation

#: Of a plan that was not told to anybody: every job of a higher class came later.
NEVER = -1


def rank(state: State, slot: int) -> float:
    """The rank of the class of a waiting job, the smaller first."""
    lane = state.table.queue_lanes[slot]
    return math.inf if lane is None else lane.rank


def plan_rank(state: State, plan: Reservation) -> float:
    """The rank from which on a plan binds others: a claim, for which others leave, binds everybody."""
    return -math.inf if plan.victims else rank(state, plan.slot)


def bound_before(state: State, plan: Reservation) -> int:
    """Jobs of a higher class that came before this are bound by the plan as well."""
    if not plan.guaranteed or state.layer is None:
        return NEVER
    return state.layer.promised.get(plan.slot, NEVER)


def binds(state: State, plan: Reservation, slot: int) -> bool:
    """Whether the job in ``slot`` may take nothing from a plan of another one."""
    if plan.tentative:
        return _stands_before(state, plan.slot, slot)
    return plan_rank(state, plan) <= rank(state, slot) or state.table.since[slot] < bound_before(state, plan)


def place_in_lane(state: State, slot: int) -> tuple[float, int]:
    """Where a waiting job stands among those of its tenant and class."""
    lane, entry = state.table.queue_lanes[slot], state.table.entries[slot]
    return entry[0] - (0.0 if lane is None else lane.shift_s), entry[1]


def _stands_before(state: State, slot: int, other: int) -> bool:
    """Whether a job is of a higher class than another one, or before it in the queue of one tenant. How tenants stand
    to each other changes all the time, and nobody is to wait for a plan that nobody is sure of because of that."""
    own, its = state.table.queue_lanes[slot], state.table.queue_lanes[other]
    if own is None or its is None or own.rank != its.rank:
        return own is not None and its is not None and own.rank < its.rank
    return own.tenant == its.tenant and place_in_lane(state, slot) < place_in_lane(state, other)


def is_told(state: State, plan: Reservation) -> bool:
    """Whether the start of a guaranteed plan was told in the last cycle."""
    return bound_before(state, plan) == state.cycles


def tell(state: State) -> None:
    """Comes last in a cycle: promises the guaranteed starts that nobody who waits can upset."""
    layer = state.layer
    if layer is None or layer.limits is None:
        return
    promised = {}
    for pool, plans in state.reservations.items():
        sure = [plan for plan in plans if plan.guaranteed and (plan.slot, True) not in layer.void]
        if not sure:
            continue
        lowest = max(plan_rank(state, plan) for plan in sure)
        rivals = _rivals(state, pool, lowest, min(layer.promised.get(plan.slot, NEVER) for plan in sure))
        for plan in sure:
            own, before = plan_rank(state, plan), layer.promised.get(plan.slot, NEVER)
            is_safe = not any(other < own and since >= before for other, since in rivals)
            if is_safe or before != NEVER:
                promised[plan.slot] = state.cycles + 1 if is_safe else before
    layer.promised = promised


def _rivals(state: State, pool: int, lowest: float, earliest: int) -> list[tuple[float, int]]:
    """Rank and ``since`` of those who wait for a pool without a guaranteed plan; of a queue that of its latest, and
    only of queues of a class above the ``lowest`` rank to which somebody has come as late as ``earliest``."""
    layer, since = state.layer, state.table.since
    if layer is None:
        return []
    bit = 1 << pool
    found = [
        (lane.rank, lane.latest)
        for lane in layer.queue.lanes
        if lane.rank < lowest and lane.latest >= earliest and lane.pool_bits & bit and lane.order.first()
    ]
    sure = {plan.slot for plans in state.reservations.values() for plan in plans if plan.guaranteed}
    for slot in layer.reserved:
        lane = state.table.queue_lanes[slot]
        if slot not in sure and lane is not None and lane.pool_bits & bit:
            found.append((lane.rank, since[slot]))
    return found
