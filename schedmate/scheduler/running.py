"""What the queue layer notes of a job whenever it begins or ceases to run somewhere."""

from __future__ import annotations

from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.types import Job


def enters(state: State, layer: QueueLayer, slot: int) -> None:
    """The job in ``slot`` runs: it may be one that can be evicted."""
    table = state.table
    job, lane = table.jobs[slot], table.queue_lanes[slot]
    if job is not None and lane is not None:
        protected_s = _protected_until_s(state, slot, job)
        layer.evictable.enter(table.pools[slot], slot, lane.tenant, job, table.shares[slot] or (), protected_s)


def leaves(state: State, layer: QueueLayer, slot: int) -> None:
    """It does not any more."""
    table = state.table
    job, lane = table.jobs[slot], table.queue_lanes[slot]
    if job is not None and lane is not None:
        layer.evictable.leave(table.pools[slot], slot, lane.tenant, job)


def _protected_until_s(state: State, slot: int, job: Job) -> float:
    """From when on a running job may be told to leave."""
    table, policy = state.table, state.policy
    least_s = max(job.min_run_s, policy.min_run_s)
    if table.preemptions[slot] >= policy.most_preemptions:
        least_s = max(least_s, policy.spared_s)
    return table.starts_s[slot] + least_s - job.grace_s
