"""Jobs that have waited longer than the starvation bound go before all others, whatever their class."""

from __future__ import annotations

import math
from heapq import heappop

from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction


def age(state: State, tx: Transaction, now: float) -> None:
    """Comes first in a cycle: entries of jobs that no longer wait are dropped for good. What was promised before a job
    came binds it in its new class as well."""
    layer, table = state.layer, state.table
    if layer is None:
        return
    while layer.waits and layer.waits[0][0] <= now:
        wait = heappop(layer.waits)
        _, sequence, slot = wait
        lane = table.queue_lanes[slot]
        if table.live[slot] is None or table.entries[slot][1] != sequence or lane is None or lane.rank == -math.inf:
            continue
        tx.waited(wait)
        tx.drop_tentative(slot)
        tx.change_lane(slot, layer.queue.lane(lane.tenant, -math.inf, 0.0, lane.pools))
        for pool, plans in state.reservations.items():
            if any(plan.slot == slot for plan in plans):
                layer.stale |= 1 << pool
