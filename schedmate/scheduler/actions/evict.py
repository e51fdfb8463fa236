"""Evict those who are still there when they must have left: backfilled jobs at the start that was reserved, and victims
of a claim when the last of them is due."""

from __future__ import annotations

import math

from schedmate.scheduler.claims import claims, drop_broken
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, is_there


def evict(state: State, tx: Transaction, now: float) -> None:
    """A backfilled job stays if no guaranteed plan needs its nodes any more, and later if only later ones do."""
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
        needed_s, claim_s = _needed_s(state, slot), claimed_s.get(slot, math.inf)
        if min(needed_s, claim_s) <= now:
            tx.evict(slot, now, table.saved_s(slot, now, told=True), for_another=claim_s <= now)
            continue
        tx.must_leave(slot, needed_s)
        if claim_s < needed_s:
            tx.leave_by(slot, claim_s)


def _needed_s(state: State, slot: int) -> float:
    """When a guaranteed plan needs the nodes of a running job."""
    table = state.table
    nodes = {share[0] for share in table.shares[slot] or ()}
    return min(
        (
            plan.start_s
            for plan in state.reservations.get(table.pools[slot], ())
            if plan.guaranteed and not plan.victims and any(share[0] in nodes for share in plan.shares)
        ),
        default=math.inf,
    )
