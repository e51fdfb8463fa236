"""How each entry in the log of a transaction is undone."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heapify, heappush
from typing import Any

from schedmate.scheduler import resizing
from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.elastic import Phase
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.factors import Use
from schedmate.scheduler.fair_share import Use as TenantUsed
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.running import enters, leaves
from schedmate.scheduler.state import State

#: What an eviction changes of a job, and starting again in the same transaction.
CHANGED_BY_EVICTION = (
    "pools", "done_s", "served_s", "assumed", "entries", "evictions", "preemptions", "starts_s", "reasons", "gpus",
)  # fmt: skip


def _undo_start(state: State, slot: int, shares: Shares, end_s: float) -> None:
    table = state.table
    if state.ends is not None:
        state.ends.remove(slot)
    if state.limits is not None:
        state.limits.remove(slot)
    state.cluster.pools[table.pools[slot]].give(shares)
    state.cluster.allocated_gpus -= table.gpus[slot]
    if state.layer is not None:
        pool = table.pools[slot]
        leaves(state, state.layer, slot)
        state.layer.ends[pool].remove(slot)
        if state.layer.limits is not None:
            state.layer.limits[pool].remove(slot)
        state.layer.freed(state.cluster.pools[pool], pool, shares)
    table.shares[slot] = None
    table.phases.pop(slot, None)
    table.pools[slot] = -1
    table.reasons[slot] = ""
    state.enqueue(slot, table.entries[slot])


def _undo_stop(state: State, slot: int, shares: Shares, end_s: float) -> None:
    table = state.table
    state.cluster.pools[table.pools[slot]].take(shares)
    state.cluster.allocated_gpus += table.gpus[slot]
    table.shares[slot] = shares
    if state.ends is not None:
        state.ends.add(slot, end_s)
    if state.limits is not None:
        state.limits.add(slot, table.starts_s[slot] + table.assumed[slot].limit_s)


def _undo_phase(state: State, slot: int, phase: Phase, _: float) -> None:
    state.table.phases[slot] = phase


def _undo_resize(state: State, slot: int, before: resizing.Before, _: float) -> None:
    resizing.undo(state, the_layer(state), slot, before)


def _undo_move(state: State, slot: int, _: object, end_s: float) -> None:
    if state.ends is not None:
        state.ends.remove(slot)
        state.ends.add(slot, end_s)


def _undo_account(state: State, slot: int, before: tuple[str, Use | None], _: float) -> None:
    if state.accounts is not None:
        state.accounts.restore(*before)


def _undo_reorder(state: State, slot: int, entry: Entry, _: float) -> None:
    state.enqueue(slot, entry)


def _undo_evict(state: State, slot: int, old: tuple[Any, ...], _: float) -> None:
    table, job = state.table, state.table.jobs[slot]
    if state.layer is not None and job is not None:
        wait = (job.submit_s + state.policy.starvation_bound_s, table.entries[slot][1], slot)
        if wait in state.layer.waits:
            state.layer.waits.remove(wait)
            heapify(state.layer.waits)
    for name, value in zip(CHANGED_BY_EVICTION, old, strict=True):
        getattr(table, name)[slot] = value
    state.dequeue(slot)


def _undo_unplace(state: State, slot: int, shares: Shares, end_s: float) -> None:
    _undo_stop(state, slot, shares, end_s)


def _undo_left(state: State, slot: int, old: tuple[int, float, float], by_s: float) -> None:
    layer = the_layer(state)
    pool, end_s, limit_s = old
    state.table.pools[slot] = pool
    enters(state, layer, slot)
    layer.ends[pool].add(slot, end_s)
    if layer.limits is not None:
        layer.limits[pool].add(slot, limit_s)
    if by_s < math.inf:
        layer.leaving.add(slot, by_s)


def _undo_waited(state: State, slot: int, wait: tuple[float, int, int], _: float) -> None:
    heappush(the_layer(state).waits, wait)


def _undo_charge(state: State, slot: int, what: tuple[int, int, int, list[tuple[int, TenantUsed]]], _: float) -> None:
    layer = the_layer(state)
    tenant, pool, milli, before = what
    if layer.use is not None and layer.fair is not None:
        layer.use.charge(tenant, pool, -milli)
        layer.fair.restore(before, pool, milli)


def _undo_ends(state: State, slot: int, _: object, end_s: float) -> None:
    ends = ends_of(state, "ends", state.table.pools[slot])
    ends.remove(slot)
    ends.add(slot, end_s)


def _undo_limits(state: State, slot: int, _: object, end_s: float) -> None:
    ends = ends_of(state, "limits", state.table.pools[slot])
    ends.remove(slot)
    ends.add(slot, end_s)


def _undo_leave(state: State, slot: int, _: object, by_s: float) -> None:
    _put_as_it_was(the_layer(state).leaving, slot, by_s)


def _undo_try(state: State, slot: int, _: object, due_s: float) -> None:
    _put_as_it_was(the_layer(state).trying, slot, due_s)


def _put_as_it_was(times: ExpectedEnds, slot: int, at_s: float) -> None:
    """Infinite: the slot was not there."""
    if slot in times.ends_s:
        times.remove(slot)
    if at_s < math.inf:
        times.add(slot, at_s)


def _undo_hold(state: State, slot: int, entry: Entry, _: float) -> None:
    the_layer(state).queue.reserved.discard(slot)
    state.enqueue(slot, entry)


def _undo_release(state: State, slot: int, entry: Entry, _: float) -> None:
    the_layer(state).queue.reserved.add(slot)
    state.enqueue(slot, entry)


def _undo_let_go(state: State, slot: int, _: object, __: float) -> None:
    the_layer(state).queue.reserved.add(slot)


def _undo_lane(state: State, slot: int, old: tuple[QueueLane, Entry], _: float) -> None:
    state.table.queue_lanes[slot], entry = old
    state.enqueue(slot, entry)


def _undo_withdraw(state: State, slot: int, _: object, __: float) -> None:
    state.enqueue(slot, state.table.entries[slot])


def the_layer(state: State) -> QueueLayer:
    """The queue layer. ``ValueError`` if the policy has none."""
    if state.layer is None:
        raise ValueError("this policy has no queue layer")
    return state.layer


def ends_of(state: State, kind: str, pool: int) -> ExpectedEnds:
    """The ``ends`` or the ``limits`` of a pool. ``ValueError`` if the policy keeps none."""
    layer = the_layer(state)
    if kind == "ends":
        return layer.ends[pool]
    if layer.limits is None:
        raise ValueError("this policy keeps no hard limits")
    return layer.limits[pool]


#: By kind of entry: ``(state, slot, what, number) -> None``.
UNDO: dict[str, Callable[[State, int, Any, float], None]] = {
    "start": _undo_start,
    "stop": _undo_stop,
    "phase": _undo_phase,
    "resize": _undo_resize,
    "move": _undo_move,
    "reorder": _undo_reorder,
    "account": _undo_account,
    "evict": _undo_evict,
    "unplace": _undo_unplace,
    "left": _undo_left,
    "charge": _undo_charge,
    "ends": _undo_ends,
    "limits": _undo_limits,
    "leave": _undo_leave,
    "try": _undo_try,
    "hold": _undo_hold,
    "let_go": _undo_let_go,
    "release": _undo_release,
    "waited": _undo_waited,
    "lane": _undo_lane,
    "withdraw": _undo_withdraw,
}
