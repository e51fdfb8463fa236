"""Reservations of the full queue layer: when and where blocked jobs will start.

A reserved job has up to two plans on one pool: a *guaranteed* one along the hard limits of what runs, where these
suffice, and an *expected* one along what is assumed. A plan is kept while it can be; it moves up when something ends
early, is made anew when an assumed end moves, and gives way to plans of a higher class.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

from schedmate.scheduler.actions.reserve import SHORTEST_EXTENSION_S
from schedmate.scheduler.ahead import Ahead, Window, earliest, with_spare
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import TenantUse
from schedmate.scheduler.transaction import Transaction, milli_of
from schedmate.scheduler.types import Reservation

#: In plans every job takes some time.
SHORTEST_SPAN_S = 1e-3

#: Plans by slot.
Plans = dict[int, Reservation]


def plan(state: State, tx: Transaction, now: float) -> None:
    """Keep the reservations in step with what has happened."""
    layer = state.layer
    if layer is None:
        return
    for pool, plans in list(state.reservations.items()):
        extend(state, tx, pool, now)
        if any(each.start_s < now for each in plans) or _is_overrun(state, layer, pool, now):
            layer.broken |= 1 << pool
        if (layer.stale | layer.moved | layer.broken) >> pool & 1:
            _renew(state, layer, pool, now)
    layer.stale = layer.moved = layer.broken = 0


def reserve(state: State, tx: Transaction, slot: int, pools: tuple[int, ...], now: float) -> bool:
    """Give the waiting job in ``slot`` a reservation on the one of the pools on which it starts first; False if there
    never is room for it."""
    layer = state.layer
    if layer is None:
        return False
    best: tuple[Reservation, ...] = ()
    for pool in pools:
        extend(state, tx, pool, now)
        if layer.moved >> pool & 1:
            _renew(state, layer, pool, now)
            layer.moved &= ~(1 << pool)
        found = _both(state, layer, slot, pool, now)
        if found and (not best or found[0].start_s < best[0].start_s):
            best = found
    if not best:
        return False
    pool = best[0].pool
    tx.hold(slot)
    _put(state, layer, pool, [*state.reservations.get(pool, ()), *best], now)
    own = _rank(state, slot)
    if any(_rank(state, other.slot) > own for other in state.reservations[pool]):
        layer.broken |= 1 << pool
    return True


def extend(state: State, tx: Transaction, pool: int, now: float) -> None:
    """What has outlived its expected end is expected to run twice as long in all, or a minute longer at least."""
    layer, starts_s = state.layer, state.table.starts_s
    if layer is None or layer.ends[pool].next_s() > now:
        return
    outlived = []
    for end_s, slot in layer.ends[pool].order:
        if end_s > now:
            break
        if starts_s[slot] < now:  # one that started just now with an estimate of 0 has not outlived anything yet
            outlived.append((end_s, slot))
    for end_s, slot in outlived:
        total_s = end_s - starts_s[slot]
        while starts_s[slot] + total_s <= now:
            total_s += max(total_s, SHORTEST_EXTENSION_S)
        tx.move_expected_end(slot, starts_s[slot] + total_s)
        layer.moved |= 1 << pool


def _is_overrun(state: State, layer: QueueLayer, pool: int, now: float) -> bool:
    """Whether something runs beyond its hard limit, against what was promised about it."""
    if layer.limits is None:
        return False
    starts_s, order = state.table.starts_s, layer.limits[pool].order
    return any(starts_s[slot] < now for _, slot in order[: bisect_right(order, (now, math.inf))])


def _kinds(layer: QueueLayer, pool: int) -> list[tuple[bool, ExpectedEnds]]:
    """Guaranteed or not, and the ends that count for it; guaranteed first."""
    expected = [(False, layer.ends[pool])]
    return expected if layer.limits is None else [(True, layer.limits[pool]), *expected]


def _both(state: State, layer: QueueLayer, slot: int, pool: int, now: float) -> tuple[Reservation, ...]:
    """The expected and the guaranteed plan of a job that has none yet."""
    found: list[Reservation] = []
    own = _rank(state, slot)
    for guaranteed, ends in _kinds(layer, pool):
        others = [
            other
            for other in state.reservations.get(pool, ())
            if other.guaranteed == guaranteed and _rank(state, other.slot) <= own
        ]
        ahead = Ahead(state.cluster.pools[pool], ends, state.table, now)
        new = _new(state, layer, ahead, ends, slot, pool, others, now, math.inf, guaranteed)
        if new is not None:
            found.insert(0, _locked(state, new, bool(found)))
    return tuple(found)


def _new(
    state: State, layer: QueueLayer, ahead: Ahead, ends: ExpectedEnds, slot: int, pool: int,
    others: list[Reservation], now: float, before_s: float, guaranteed: bool,
) -> Reservation | None:  # fmt: skip
    demand, assumed = state.table.demands[slot], state.table.assumed[slot]
    from_s = _quota_from(state, layer, ends, slot, pool, now)
    if from_s >= before_s:
        return None
    span_s = max(SHORTEST_SPAN_S, assumed.limit_s if guaranteed else assumed.ends_s)
    found = earliest(ahead, state.place, demand, others, Window(from_s, before_s, span_s))
    if found is None:
        return None
    return Reservation(slot, pool, found[0], found[1], {}, guaranteed, found[0] + span_s)


def _locked(state: State, new: Reservation, has_guaranteed: bool) -> Reservation:
    """An expected plan of a job that has waited too long and has no guaranteed one locks its nodes."""
    locks = state.policy.guarantees and not new.guaranteed and not has_guaranteed
    return replace(new, locked=True) if locks and _rank(state, new.slot) == -math.inf else new


def _renew(state: State, layer: QueueLayer, pool: int, now: float) -> None:
    """All plans of one pool, in the order of class and reservation."""
    plans, bit = state.reservations.get(pool, ()), 1 << pool
    at = {slot: i for i, slot in enumerate(layer.reserved)}
    slots = sorted({old.slot for old in plans}, key=lambda slot: (_rank(state, slot), at.get(slot, -1)))
    renewed: list[Reservation] = []
    for guaranteed, ends in _kinds(layer, pool):
        old = {each.slot: each for each in plans if each.guaranteed == guaranteed}
        anew = bool(layer.broken & bit or (layer.moved & bit and not guaranteed))
        sure = {each.slot for each in renewed}
        renewed += _renewed(state, layer, ends, pool, slots, old, sure, now, guaranteed, anew).values()
    _put(state, layer, pool, renewed, now)


def _renewed(
    state: State, layer: QueueLayer, ends: ExpectedEnds, pool: int, slots: list[int], old: Mapping[int, Reservation],
    sure: set[int], now: float, guaranteed: bool, anew: bool,
) -> Plans:  # fmt: skip
    ahead = Ahead(state.cluster.pools[pool], ends, state.table, now)
    kept: Plans = {} if anew else dict(old)
    if anew and not layer.broken >> pool & 1:
        locked = [each for each in old.values() if each.locked and each.slot not in sure]
        kept = {each.slot: _relocked(state, each, ends, now) for each in locked}
    for slot in slots:
        before = kept.get(slot)
        if before is not None and before.locked and slot not in sure:
            continue
        others = [other for key, other in kept.items() if key != slot]
        before_s = math.inf if before is None else before.start_s
        new = _new(state, layer, ahead, ends, slot, pool, others, now, before_s, guaranteed)
        if new is not None:
            kept[slot] = _locked(state, new, slot in sure)
    return kept


def _relocked(state: State, plan: Reservation, ends: ExpectedEnds, now: float) -> Reservation:
    """A plan that locks its nodes stays on them; it starts when what runs there is expected to have ended."""
    nodes, start_s = {share[0] for share in plan.shares}, now
    for end_s, slot in reversed(ends.order):
        if state.table.pools[slot] == plan.pool and any(share[0] in nodes for share in state.table.shares[slot] or ()):
            start_s = max(now, end_s)
            break
    return replace(plan, start_s=start_s, end_s=start_s + (plan.end_s - plan.start_s))


def _put(state: State, layer: QueueLayer, pool: int, plans: list[Reservation], now: float) -> None:
    """Keep the plans of one pool, each with what it leaves unused."""
    if not state.policy.starts_by_plan:
        spared: list[Reservation] = []
        for guaranteed, ends in _kinds(layer, pool):
            ahead = Ahead(state.cluster.pools[pool], ends, state.table, now)
            spared += with_spare(ahead, [each for each in plans if each.guaranteed == guaranteed])
        plans = spared
    plans.sort(key=lambda each: (each.slot, each.guaranteed))
    kept = tuple(plans)
    old = state.reservations.get(pool, ())
    if kept != old:
        layer.gained |= 1 << pool
    rest = {p: each for p, each in state.reservations.items() if p != pool}
    state.reservations = {**rest, pool: kept} if kept else rest


def _quota_from(state: State, layer: QueueLayer, ends: ExpectedEnds, slot: int, pool: int, now: float) -> float:
    """From when on there is quota for the job: now, or when borrowers have ended."""
    table, lane = state.table, state.table.queue_lanes[slot]
    milli = table.demands[slot].gpu_milli
    if layer.use is None or lane is None or layer.use.bound(lane.tenant, pool, milli) < 0:
        return now
    use: TenantUse = layer.use.copy()
    for end_s, ending in ends.order:
        if end_s == math.inf:
            return math.inf
        theirs = table.queue_lanes[ending]
        use.charge(theirs.tenant if theirs else 0, pool, -milli_of(table.demands[ending], table.shares[ending] or ()))
        if use.bound(lane.tenant, pool, milli) < 0:
            return max(now, end_s)
    return math.inf


def _rank(state: State, slot: int) -> float:
    lane = state.table.queue_lanes[slot]
    return math.inf if lane is None else lane.rank
