"""What would happen if: a scheduling cycle on a changed state, inside a transaction that is discarded.

Nothing is claimed that was not tried. What is tried is one whole cycle, with everybody who waits taking part in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from schedmate.scheduler.cluster_types import UNLIMITED, Health
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.elastic import slowest
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.queue_layer import assumed_again
from schedmate.scheduler.types import Job

if TYPE_CHECKING:
    from schedmate.scheduler.scheduler import Scheduler


class Given(NamedTuple):
    """What is taken to be otherwise: running jobs that have ended, waiting ones that are gone, nodes (pool, number)
    that are healthy, no quota for the job's tenant."""

    ended: Collection[int] = ()
    gone: Collection[int] = ()
    healthy: Collection[tuple[int, int]] = ()
    no_quota: bool = False


class Tried(NamedTuple):
    """Whether the job started, and if not who started or stands before it."""

    starts: bool
    before: tuple[int, ...] = ()


def try_cycle(scheduler: Scheduler, slot: int, now: float, given: Given, other: Job | None = None) -> Tried:
    """One cycle at ``now``, the waiting job in ``slot`` being the ``other`` one at the same place in the queue."""
    with _unnoticed(scheduler), _healthy(scheduler, given), _no_quota(scheduler, slot, given):
        state, tx = scheduler.state, scheduler.transaction
        tx.begin()
        try:
            for ended in given.ended:
                tx.stop(ended, now)
            for gone in given.gone:
                tx.withdraw(gone)
            if given.healthy or given.no_quota:
                _everything_changed(scheduler)
            if other is None:
                return _cycle(scheduler, slot, now)
            tx.withdraw(slot)
            point, kept = tx.savepoint(), _fields(scheduler, slot)
            try:
                _become(scheduler, slot, other)
                return _cycle(scheduler, slot, now)
            finally:
                tx.back_to(point)
                state.dequeue(slot)
                _restore(scheduler, slot, kept)
        finally:
            tx.discard()


def _cycle(scheduler: Scheduler, slot: int, now: float) -> Tried:
    state, tx = scheduler.state, scheduler.transaction
    for action in scheduler.actions:
        action(state, tx, now)
    if state.table.shares[slot] is not None:
        return Tried(True)
    planned = [plan.slot for plans in state.reservations.values() for plan in plans]
    found = dict.fromkeys(other for other in (*tx.started, *state.blocked, *planned) if other != slot)
    return Tried(False, tuple(found))


def _everything_changed(scheduler: Scheduler) -> None:
    """As when a node comes back, or quotas are others."""
    state, layer = scheduler.state, scheduler.state.layer
    state.gained = state.stale = True
    if layer is not None:
        layer.gained = layer.broken = (1 << len(state.cluster.pools)) - 1
        for verdicts in layer.verdicts:
            verdicts.freed_somewhere()


@contextmanager
def _unnoticed(scheduler: Scheduler) -> Iterator[None]:
    """What a cycle leaves behind that no transaction puts back."""
    layer = scheduler.state.layer
    if layer is None:
        yield
        return
    try:
        yield
    finally:
        layer.looked_at = {}
        for verdicts in layer.verdicts:
            verdicts.freed_somewhere()


@contextmanager
def _healthy(scheduler: Scheduler, given: Given) -> Iterator[None]:
    pools, kept = scheduler.state.cluster.pools, list[tuple[PoolIndex, int, Health, int]]()
    for pool, node in given.healthy:
        index = pools[pool]
        if isinstance(index, PoolIndex):
            kept.append((index, node, index.health.get(node, Health.HEALTHY), index.bad.get(node, 0)))
            index.set_health(node, Health.HEALTHY)
            index.set_bad(node, 0)
    try:
        yield
    finally:
        for index, node, health, bad in kept:
            index.set_bad(node, bad)
            index.set_health(node, health)


@contextmanager
def _no_quota(scheduler: Scheduler, slot: int, given: Given) -> Iterator[None]:
    layer, lane = scheduler.state.layer, scheduler.state.table.queue_lanes[slot]
    if not given.no_quota or layer is None or layer.use is None or lane is None:
        yield
        return
    tree, path = layer.tree, [0, *layer.tree.path(lane.tenant)]
    kept = [tree.most[tenant] for tenant in path]
    for tenant in path:
        tree.most[tenant] = [UNLIMITED] * len(tree.pools)
    layer.use.forget_rooms()
    try:
        yield
    finally:
        for tenant, most in zip(path, kept, strict=True):
            tree.most[tenant] = most
        layer.use.forget_rooms()
        for plans in scheduler.state.reservations.values():
            for plan in plans:
                if plan.use is not None:
                    plan.use.forget_rooms()


#: The lists of the job table that tell one waiting job from another.
_FIELDS = ("jobs", "demands", "gpus", "lanes", "queue_lanes", "assumed", "entries", "since")


def _fields(scheduler: Scheduler, slot: int) -> list[Any]:
    return [getattr(scheduler.state.table, name)[slot] for name in _FIELDS]


def _restore(scheduler: Scheduler, slot: int, kept: list[Any]) -> None:
    for name, value in zip(_FIELDS, kept, strict=True):
        getattr(scheduler.state.table, name)[slot] = value


def _become(scheduler: Scheduler, slot: int, other: Job) -> None:
    """Put another job at the place of the one in ``slot``, which waits nowhere. ``ValueError`` if it can never run."""
    state, table = scheduler.state, scheduler.state.table
    lane, queue_lane, demand = scheduler.lanes.of(other)
    old = table.entries[slot]
    key = old[0] if old[0] == -math.inf else state.policy.order(other, state.cluster.spec.gpus)
    table.jobs[slot], table.demands[slot], table.gpus[slot] = other, demand, demand.gpus
    table.lanes[slot], table.queue_lanes[slot] = lane, queue_lane
    table.since[slot] = state.cycles
    restart_s = other.restart_s if table.evictions[slot] else 0.0
    full = state.policy.assume(other)
    table.assumed[slot] = assumed_again(full, table.done_s[slot], restart_s, slowest(other, demand))
    state.enqueue(slot, (key, old[1], slot))
    state.fresh = [*state.fresh, slot]


def smaller(demand: Demand, gpus_per_node: int) -> Iterator[Demand]:
    """The same with less of it, the largest first: fewer GPUs, or fewer replicas of the largest role."""
    if not demand.roles:
        whole = [n * gpus_per_node for n in range(demand.gpus // gpus_per_node, 0, -1)]
        some = whole[:4] + whole[4::4] if len(whole) > 8 else whole
        sizes = sorted({*some, *range(min(demand.gpus, gpus_per_node) - 1, 0, -1)}, reverse=True)
        asked = {key: value for key, value in demand.asked().items() if key != "gpus"}
        yield from (Demand.of(gpus=size, **asked) for size in sizes if size < demand.gpus)
        return
    at = max(range(len(demand.roles)), key=lambda n: (demand.roles[n].gpus * demand.roles[n].replicas, -n))
    role, asked = demand.roles[at], {key: value for key, value in demand.asked().items() if key != "roles"}
    parts = sorted({math.ceil(role.replicas * part / 8) for part in range(1, 8)} - {role.replicas}, reverse=True)
    for replicas in (n for n in parts if n >= 1):
        fewer = role.fewer(replicas)
        yield Demand.of((*demand.roles[:at], fewer, *demand.roles[at + 1 :]), **asked)


def least(given: Sequence[int], suffices: Callable[[list[int]], bool]) -> list[int]:
    """A part of ``given`` that still suffices and of which nothing can be left out."""
    kept = list(given)
    for each in list(given):
        fewer = [other for other in kept if other != each]
        if suffices(fewer):
            kept = fewer
    return kept
