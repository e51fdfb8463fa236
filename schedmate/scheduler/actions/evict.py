"""Evict backfilled jobs that are still there when they must have left: at the start that was reserved."""

from __future__ import annotations

import math

from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction


def evict(state: State, tx: Transaction, now: float) -> None:
    """A job stays if no guaranteed plan needs its nodes any more, and later if only later ones do."""
    layer, table = state.layer, state.table
    if layer is None:
        return
    if layer.evicted or layer.resized:
        layer.evicted = layer.resized = ()
    order = layer.leaving.order
    for _, slot in order[: next((i for i, (by_s, _) in enumerate(order) if by_s > now), len(order))]:
        nodes = {share[0] for share in table.shares[slot] or ()}
        needed_s = min(
            (
                plan.start_s
                for plan in state.reservations.get(table.pools[slot], ())
                if plan.guaranteed and any(share[0] in nodes for share in plan.shares)
            ),
            default=math.inf,
        )
        if needed_s <= now:
            tx.evict(slot, now, table.saved_s(slot, now, told=True))
        else:
            tx.must_leave(slot, needed_s)
