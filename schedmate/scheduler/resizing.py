"""What a change of size of a running elastic gang changes, and how it is undone. Called by transactions only."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.elastic import Phase, counts, full, minimum, speed
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.running import enters, leaves
from schedmate.scheduler.state import State


class Before(NamedTuple):
    """What a running gang had."""

    shares: Shares
    gpus: int
    phase: Phase | None
    end_s: float


def first_phase(state: State, slot: int, now: float) -> Phase:
    """The phase with which the run of an elastic gang begins; its shares are known already."""
    table = state.table
    job, demand = table.jobs[slot], table.demands[slot]
    if job is None:
        raise ValueError(f"slot {slot} holds no job")
    replicas = counts(demand, table.shares[slot] or ())
    return Phase(now, 0.0, table.still_s(slot), speed(job, demand, replicas), replicas)


def expected_end_s(state: State, slot: int, now: float) -> float:
    """When a running job is expected to end, as of its start or its last change of size."""
    table, assumed = state.table, state.table.assumed[slot]
    phase, job = table.phases.get(slot), table.jobs[slot]
    if phase is None or job is None:
        return now + assumed.ends_s
    work_s = state.policy.assume(job).ends_s
    return min(table.done_at(slot, max(work_s, table.done_s[slot])), table.starts_s[slot] + assumed.limit_s)


def resize(
    state: State, layer: QueueLayer, slot: int, shares: Shares, now: float, work_s: float | None = None
) -> Before:
    """Put a running gang on ``shares``; returns what it had. ``ValueError`` if it does not run or may not be so.

    ``work_s`` is what is left of the work of this run after a fault; None if nothing was lost. Only then may the gang
    be a rigid one.
    """
    table = state.table
    job, demand, old = table.jobs[slot], table.demands[slot], table.shares[slot]
    phase = table.phases.get(slot)
    if job is None or old is None or (phase is None and work_s is None):
        raise ValueError(f"slot {slot} runs no elastic job")
    if phase is None:
        phase = Phase(table.starts_s[slot], 0.0, table.still_s(slot), 1.0, counts(demand, old))
    replicas = counts(demand, shares)
    if any(not low <= n <= high for n, low, high in zip(replicas, minimum(demand), full(demand), strict=True)):
        raise ValueError(f"job {job.job_id} may not run with {replicas} replicas")
    pool = table.pools[slot]
    index, end_s = state.cluster.pools[pool], layer.ends[pool].remove(slot)
    bound_s = layer.limits[pool].remove(slot) if layer.limits is not None else math.inf
    before = Before(old, table.gpus[slot], table.phases.get(slot), end_s)
    index.give(without(old, shares))
    index.take(without(shares, old))
    _set(state, layer, slot, shares, sum(share[1] for share in shares))
    done_s = phase.work_by(now) if work_s is None else work_s
    table.phases[slot] = Phase(now, done_s, job.restart_s, speed(job, demand, replicas), phase.own)
    new_end_s = expected_end_s(state, slot, now)
    if new_end_s <= now:  # it has outlived what was expected of it: only how fast it runs is known
        new_end_s = now + job.restart_s + max(0.0, end_s - now) * phase.speed / table.phases[slot].speed
    limit_s = table.starts_s[slot] + table.assumed[slot].limit_s
    layer.ends[pool].add(slot, min(new_end_s, max(limit_s, now)))
    if layer.limits is not None:  # the limit stays, on other nodes
        layer.limits[pool].add(slot, bound_s)
    _tell(state, layer, slot, before, shares)
    return before


def undo(state: State, layer: QueueLayer, slot: int, before: Before) -> None:
    """Put a gang back to what it had."""
    table, pool = state.table, state.table.pools[slot]
    layer.ends[pool].remove(slot)
    bound_s = layer.limits[pool].remove(slot) if layer.limits is not None else math.inf
    shares = table.shares[slot] or ()
    state.cluster.pools[pool].give(without(shares, before.shares))
    state.cluster.pools[pool].take(without(before.shares, shares))
    _set(state, layer, slot, before.shares, before.gpus)
    if before.phase is None:
        del table.phases[slot]
    else:
        table.phases[slot] = before.phase
    layer.ends[pool].add(slot, before.end_s)
    if layer.limits is not None:
        layer.limits[pool].add(slot, bound_s)
    layer.freed(state.cluster.pools[pool], pool, before.shares)


def without(shares: Shares, others: Shares) -> Shares:
    """Those of the shares that are not among the others; equal ones are counted."""
    left = Counter(others)
    found = []
    for share in shares:
        if left[share]:
            left[share] -= 1
        else:
            found.append(share)
    return tuple(found)


def _set(state: State, layer: QueueLayer, slot: int, shares: Shares, gpus: int) -> None:
    table = state.table
    leaves(state, layer, slot)
    state.cluster.allocated_gpus += gpus - table.gpus[slot]
    table.gpus[slot], table.shares[slot] = gpus, shares
    enters(state, layer, slot)


def _tell(state: State, layer: QueueLayer, slot: int, before: Before, shares: Shares) -> None:
    """Plans that rested on what was, and verdicts about what was freed."""
    pool, freed = state.table.pools[slot], without(before.shares, shares)
    if freed:
        layer.freed(state.cluster.pools[pool], pool, freed)
        layer.gained |= 1 << pool
        layer.stale |= 1 << pool
    note_end(state, layer, slot, before.shares, before.end_s)
    if slot not in layer.resized:
        layer.resized = (*layer.resized, slot)


def note_end(state: State, layer: QueueLayer, slot: int, shares: Shares, old_s: float) -> None:
    """The expected end of a running job on ``shares`` was ``old_s``: plans that rest on it follow."""
    pool = state.table.pools[slot]
    end_s, bit = layer.ends[pool].ends_s[slot], 1 << pool
    if end_s < old_s:
        layer.stale |= bit
    elif end_s > old_s:
        nodes = {share[0] for share in shares}
        expected = [p for p in state.reservations.get(pool, ()) if not p.guaranteed and p.slot != slot]
        layer.void |= {(p.slot, False) for p in expected if any(share[0] in nodes for share in p.shares)}
        if state.policy.starts_by_plan:
            layer.moved |= bit
