"""Start the heads of the queue, in order, until one does not fit. A blocked head bars its pools to all behind it."""

from __future__ import annotations

from schedmate.scheduler.pending import Entry, Lane
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction

HEAD = "first in the queue and it fits"


def allocate(state: State, tx: Transaction, now: float) -> None:
    """Leaves the heads that did not fit in ``state.blocked``, in order."""
    lanes, pools, place = state.queue.lanes, state.cluster.pools, state.place
    demands = state.table.demands
    blocked: list[int] = []
    barred = 0
    while True:
        head: Entry | None = None
        lane: Lane | None = None
        for each in lanes:
            if each.pool_bits & ~barred:
                first = each.order.first()
                if first is not None and (head is None or first < head):
                    head, lane = first, each
        if head is None or lane is None:
            break
        slot = head[2]
        demand = demands[slot]
        for pool in lane.pools:
            if barred >> pool & 1:
                continue
            shares = place(pools[pool], demand)
            if shares is not None:
                tx.start(slot, pool, shares, now, HEAD)
                break
        else:
            blocked.append(slot)
            barred |= lane.pool_bits
    state.blocked = blocked
