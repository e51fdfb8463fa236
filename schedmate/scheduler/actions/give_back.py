"""Elastic gangs give back what they have grown by when a blocked job of their class or a higher one starts by it.

Nobody is evicted for that, and what a gang started with stays its own. A job that can not be helped so is not looked at
again before something has changed.
"""

from __future__ import annotations

from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.shrinking import Shrinking, surplus
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction

GIVEN_BACK = "fits after elastic gangs gave back what they had grown by"

#: So many gangs are looked at for one job, those that have grown last first.
MOST_LENDERS = 16


def give_back(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`, for the jobs that it left blocked."""
    layer, table = state.layer, state.table
    if layer is None or not table.phases or not state.blocked or state.policy.starts_by_plan:
        return
    leaving = layer.leaving.ends_s

    def own(slot: int) -> tuple[int, ...]:
        return table.phases[slot].own

    loans = {slot: on_loan for slot in table.phases if slot not in leaving and (on_loan := surplus(state, slot, own))}
    for slot in state.blocked if loans else ():
        known = _known(state, layer, slot)
        if layer.asked_back.get(slot) == known:
            continue
        lenders = _lenders(state, slot, loans)
        most = {other: loans[other] for other in lenders}
        if most and Shrinking(state, tx, slot, now, own).start(most, GIVEN_BACK):
            loans = {other: on_loan for other in loans if (on_loan := surplus(state, other, own))}
            state.blocked = [other for other in state.blocked if other != slot]
        else:
            layer.asked_back = {**_present(layer), slot: _known(state, layer, slot)}


def _present(layer: QueueLayer) -> dict[int, tuple[object, ...]]:
    return {} if len(layer.asked_back) > 256 else layer.asked_back


def _known(state: State, layer: QueueLayer, slot: int) -> tuple[object, ...]:
    """What a refusal rests on: what has been freed, the plans (by identity), which job it is."""
    lane = state.table.queue_lanes[slot]
    pools = () if lane is None else lane.pools
    plans = tuple(state.reservations.get(pool, ()) for pool in pools)
    return state.table.entries[slot][1], *(layer.verdicts[pool].clock for pool in pools), *map(id, plans), plans


def _lenders(state: State, slot: int, loans: dict[int, int]) -> list[int]:
    """Who might help: enough of them on one of the job's pools, of its class or a lower one."""
    table, lane = state.table, state.table.queue_lanes[slot]
    found: list[int] = []
    for pool in () if lane is None else lane.pools:
        here = [
            other
            for other in loans
            if table.pools[other] == pool
            and (theirs := table.queue_lanes[other]) is not None
            and lane is not None
            and theirs.rank >= lane.rank
        ]
        here.sort(key=lambda other: (-table.phases[other].since_s, other))
        lent = sum(table.gpus[other] for other in here[:MOST_LENDERS])
        if state.cluster.pools[pool].free_gpus + lent >= table.demands[slot].least_gpus:
            found += here[:MOST_LENDERS]
    return found
