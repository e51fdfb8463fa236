"""Evict those who are still there when they must have left: backfilled jobs at the start that was reserved, and victims
of a claim when the last of them is due."""

from __future__ import annotations

import math

from schedmate.scheduler.claims import claims, drop_broken
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import ROOT, TenantUse
from schedmate.scheduler.transaction import Transaction, asked_milli, is_there, milli_of
from schedmate.scheduler.types import Reservation


def evict(state: State, tx: Transaction, now: float) -> None:
    """A backfilled job stays if no guaranteed plan needs its nodes or quota any more, and until the start of a later
    one that may."""
    layer, table = state.layer, state.table
    if layer is None:
        return
    if layer.evicted or layer.resized or layer.preemptions:
        layer.evicted = layer.resized = layer.preemptions = ()
    drop_broken(state, tx, now)
    order = layer.leaving.order
    due = order[: next((i for i, (by_s, _) in enumerate(order) if by_s > now), len(order))]
    if not due:
        return
    claimed_s = {v.slot: claim.start_s for claim in claims(state) for v in claim.victims if is_there(state, v)}
    for _, slot in due:
        needed_s, claim_s = _needed_s(state, layer, slot, now), claimed_s.get(slot, math.inf)
        if min(needed_s, claim_s) <= now:
            tx.evict(slot, now, table.saved_s(slot, now, told=True), for_another=claim_s <= now)
            continue
        tx.must_leave(slot, needed_s)
        if claim_s < needed_s:
            tx.leave_by(slot, claim_s)


def _needed_s(state: State, layer: QueueLayer, slot: int, now: float) -> float:
    """When a guaranteed plan needs what a running job has: its nodes, or its quota."""
    table = state.table
    pool, nodes = table.pools[slot], {share[0] for share in table.shares[slot] or ()}
    plans = [each for each in state.reservations.get(pool, ()) if each.guaranteed and not each.victims]
    needed = [each.start_s for each in plans if any(share[0] in nodes for share in each.shares)]
    if layer.use is not None:
        # How much of it plans to come will lack is known at their start only: others may leave or start until then.
        needed += [each.start_s for each in plans if each.start_s > now]
        if _lacks_quota(state, layer.use, slot, [each for each in plans if each.start_s <= now]):
            needed.append(now)
    return min(needed, default=math.inf)


def _lacks_quota(state: State, use: TenantUse, slot: int, starting: list[Reservation]) -> bool:
    """Whether jobs that are to start now lack quota, and less of it if the one in ``slot`` leaves."""
    table, pool = state.table, state.table.pools[slot]
    if not starting:
        return False
    then = use.copy()
    for plan in starting:
        then.charge(
            _tenant(state, plan.slot), pool, asked_milli(table.demands[plan.slot], state.cluster.spec.pools[pool])
        )
    without = then.copy()
    without.charge(_tenant(state, slot), pool, -milli_of(table.demands[slot], table.shares[slot] or ()))
    rows = zip(then.used[pool], without.used[pool], use.tree.most, strict=True)
    return any(used > most[pool] and left < used for used, left, most in rows)


def _tenant(state: State, slot: int) -> int:
    lane = state.table.queue_lanes[slot]
    return ROOT if lane is None else lane.tenant
