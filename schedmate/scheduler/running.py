"""What the queue layer notes of a job whenever it begins or ceases to run somewhere."""

from __future__ import annotations

from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State


def enters(state: State, layer: QueueLayer, slot: int) -> None:
    """The job in ``slot`` runs: it may be one that can be evicted."""
    table = state.table
    job, lane = table.jobs[slot], table.queue_lanes[slot]
    if job is not None and lane is not None:
        layer.evictable.enter(table.pools[slot], slot, lane.tenant, job, table.shares[slot] or ())


def leaves(state: State, layer: QueueLayer, slot: int) -> None:
    """It does not any more."""
    table = state.table
    job, lane = table.jobs[slot], table.queue_lanes[slot]
    if job is not None and lane is not None:
        layer.evictable.leave(table.pools[slot], slot, lane.tenant, job)
