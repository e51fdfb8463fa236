"""Let elastic gangs grow into capacity that is idle: beside every plan, where nobody waits, within quota.

Comes last in a cycle: what waits has had its chance. What a gang grows by is on loan, see `give_back`.
"""

from __future__ import annotations

import math

from schedmate.scheduler.cluster_types import UNLIMITED
from schedmate.scheduler.elastic import counts, full, speed
from schedmate.scheduler.placement.elastic import more
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Trial


def grow(state: State, tx: Transaction, now: float) -> None:
    """The first in the order of the queue first, as far as it makes them end sooner; leaves in ``grow_s`` when the next
    one may."""
    layer, table = state.layer, state.table
    if layer is None or not table.phases or state.policy.resize_every_s == math.inf:
        return
    layer.grow_s = math.inf
    small = [slot for slot in table.phases if slot not in layer.leaving.ends_s and _may_grow(state, slot)]
    pools = {pool for pool in {table.pools[slot] for slot in small} if _nobody_waits_for(state, layer, pool)}
    trial = Trial(state, tx, now)
    for _, slot in sorted((_order(state, trial, slot), slot) for slot in small if table.pools[slot] in pools):
        due_s = table.phases[slot].since_s + state.policy.resize_every_s
        if due_s > now:
            layer.grow_s = min(layer.grow_s, due_s)
        else:
            _grow(state, layer, tx, slot, now)


def _may_grow(state: State, slot: int) -> bool:
    demand, shares = state.table.demands[slot], state.table.shares[slot] or ()
    is_room = not demand.gpus or state.cluster.pools[state.table.pools[slot]].free_gpus > 0
    return is_room and counts(demand, shares) != full(demand)


def _order(state: State, trial: Trial, slot: int) -> tuple[float, ...]:
    lane = state.table.queue_lanes[slot]
    return (math.inf,) if lane is None else trial.place_of(lane, state.table.entries[slot])


def _nobody_waits_for(state: State, layer: QueueLayer, pool: int) -> bool:
    """Whether nobody without a plan could ever use what is free on a pool. Whoever has one has it withheld."""
    rooms = None if layer.use is None else layer.use.rooms(pool)
    return not any(
        lane.pool_bits >> pool & 1 and (rooms is None or rooms[lane.tenant] > 0) and lane.order.first() is not None
        for lane in layer.queue.lanes
    )


def _grow(state: State, layer: QueueLayer, tx: Transaction, slot: int, now: float) -> None:
    table, pool = state.table, state.table.pools[slot]
    index, demand, shares = state.cluster.pools[pool], table.demands[slot], table.shares[slot] or ()
    job, phase, plans = table.jobs[slot], table.phases[slot], state.reservations.get(pool, ())
    if not isinstance(index, PoolIndex) or job is None:
        return
    view = index.restricted([plan.spare for plan in plans]) if plans else index
    added = more(view, demand, shares, _room_milli(state, layer, slot, pool))
    left_s = layer.ends[pool].ends_s[slot] - now
    faster = speed(job, demand, counts(demand, (*shares, *added)))
    if not added or job.restart_s + left_s * phase.speed / faster >= left_s:
        return
    tx.resize(slot, (*shares, *added), now)
    tx.take_from_plans(slot, pool, added)


def _room_milli(state: State, layer: QueueLayer, slot: int, pool: int) -> int:
    """What quota leaves to the tenant of a job, now and when the plans of the pool begin."""
    lane = state.table.queue_lanes[slot]
    if layer.use is None or lane is None:
        return UNLIMITED
    uses = [layer.use, *(plan.use for plan in state.reservations.get(pool, ()) if plan.use is not None)]
    return max(0, min(int(use.rooms(pool)[lane.tenant]) for use in uses))
