"""Start what is first: jobs with a reservation, then the heads of the queues in order; blocked ones get a reservation.

A pool is closed to more reservations, and to further heads, when as many of its blocked jobs as the policy says are of
the same class or a higher one. What stands behind them is for `fill`.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heapreplace

from schedmate.scheduler.actions.plan import NEXT_TURN_S, may_reserve, reserve
from schedmate.scheduler.actions.plan import plan as renew_plans
from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.policies import FIRST_S
from schedmate.scheduler.promises import rank, tell
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import Queueing, TenantUse
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.trial import HEAD, Found, Place, Trial
from schedmate.scheduler.types import Reservation

RESERVED = "has a reservation, and fits now"
PLANNED = "its reserved start has come"


def admit(state: State, tx: Transaction, now: float) -> None:
    """Leaves in ``state.blocked`` the slots that could not start, those with a reservation first. A job whose plans do
    not hold any more, so that there is no saying when it starts, waits in its queue again."""
    layer = state.layer
    if layer is None:
        return
    trial = Trial(state, tx, now)
    if layer.reserved:
        for slot in _without_plan(state, layer):
            tx.release(slot)
        _start_reserved(state, trial, now)
    layer.due_s = layer.turn_s = math.inf
    _Heads(state, tx, trial, now).start_all()


def _start_reserved(state: State, trial: Trial, now: float) -> None:
    """Those with a reservation, by class."""
    by_plan = state.policy.starts_by_plan
    due = {each.slot for plans in state.reservations.values() for each in plans if each.start_s <= now}
    for slot in sorted(trial.layer.reserved, key=lambda slot: rank(state, slot)):
        if by_plan and slot not in due:
            continue
        found = None if by_plan or _is_settled(trial, slot) else trial.find(slot)
        if found is not None:
            trial.start(slot, found, RESERVED)
            continue
        if slot not in due:
            continue
        found = _planned(state, trial, slot, now)
        if found is not None:
            _start_as_planned(trial, slot, found)


def _without_plan(state: State, layer: QueueLayer) -> list[int]:
    """The slots with a reservation of which no plan holds any more."""
    if not layer.reserved:
        return []
    planned = {each.slot for plans in state.reservations.values() for each in plans}
    return [slot for slot in layer.reserved if slot not in planned]


def _is_settled(trial: Trial, slot: int) -> bool:
    """Whether a job with a reservation was found not to start and nothing that matters has changed since; otherwise
    notes that it is looked at now."""
    layer, table = trial.layer, trial.state.table
    lane, demand = table.queue_lanes[slot], table.demands[slot]
    pools = () if lane is None else lane.pools
    last = layer.looked_at.get(slot)
    now = tuple(trial.settled(pool) for pool in pools)
    layer.looked_at[slot] = now
    return last is not None and all(
        trial.is_settled(pool, demand, then, each.rooms) for pool, then, each in zip(pools, last, now, strict=True)
    )


def settle(state: State, tx: Transaction, now: float) -> None:
    """Comes last: brings the plans in step with what was started, starts what they promise for now, reserves for the
    heads that are next then, and tells what is promised."""
    layer, before = state.layer, len(tx.started)
    while _start_what_is_due(state, tx, now):
        _Heads(state, tx, Trial(state, tx, now), now).start_all()
    tell(state)
    if layer is not None and _without_plan(state, layer):
        layer.due_s = now
    if layer is not None and layer.tentative and len(tx.started) > before:
        layer.turn_s = min(layer.turn_s, now + NEXT_TURN_S)  # who stands by may have a reservation now


def _start_what_is_due(state: State, tx: Transaction, now: float) -> bool:
    """Renews the plans, and starts what they promise for now until there is no more; whether there was anything."""
    renew_plans(state, tx, now)
    before = len(tx.started)
    layer, waits = state.layer, state.policy.guarantees or state.policy.starts_by_plan
    while layer is not None and waits and any(p.start_s <= now for plans in state.reservations.values() for p in plans):
        trial = Trial(state, tx, now)
        for slot in layer.reserved:
            found = _planned(state, trial, slot, now)
            if found is not None:
                _start_as_planned(trial, slot, found)
                break
        else:
            break
        renew_plans(state, tx, now)
    return len(tx.started) > before


def _planned(state: State, trial: Trial, slot: int, now: float) -> Found | None:
    """A start as planned, when the time has come: by the guaranteed plan where there are such. A job that has none
    starts as is expected, unless it would run into what is guaranteed to others: two that are expected to start at once
    would otherwise wait for each other."""
    own = [plan for plans in state.reservations.values() for plan in plans if plan.slot == slot]
    guaranteed = any(plan.guaranteed for plan in own)
    for plan in own:
        if (
            plan.start_s <= now
            and plan.guaranteed == guaranteed
            and (slot, guaranteed) not in trial.layer.void
            and trial.has_quota(slot, plan.pool)
            and not _meets_claim(state, plan, now)
            and _is_free(state, plan.pool, plan.shares)
            and (guaranteed or not state.policy.guarantees or _delays_nobody(trial, plan))
        ):
            return Found(plan.pool, trial.within_quota(slot, plan.pool, plan.shares), 0, math.inf)
    return None


def _delays_nobody(trial: Trial, plan: Reservation) -> bool:
    """Whether a job that starts as is expected runs beyond nothing that is guaranteed to others on its pool, or locked
    for those who were to start before it: two that have waited too long would otherwise wait for each other."""
    others = trial.state.reservations[plan.pool]
    sure = [each for each in others if each.guaranteed or each.victims or (each.locked and each.start_s < plan.start_s)]
    return trial.late(plan.slot, sure) == (0, math.inf)


def _meets_claim(state: State, plan: Reservation, now: float) -> bool:
    """Whether a job might still be on nodes of a claim when that begins, or hold quota that it needs: its plan rests on
    estimates alone."""
    if plan.guaranteed or plan.victims:
        return False
    table, nodes = state.table, {share[0] for share in plan.shares}
    lane, limit_s = table.queue_lanes[plan.slot], table.assumed[plan.slot].limit_s
    milli = asked_milli(table.demands[plan.slot], state.cluster.spec.pools[plan.pool])
    return any(
        other.slot != plan.slot
        and now + limit_s > other.start_s
        and (
            any(share[0] in nodes for share in other.shares)
            or (lane is not None and other.use is not None and other.use.bound(lane.tenant, plan.pool, milli) >= 0)
        )
        for other in state.reservations.get(plan.pool, ())
        if other.victims
    )


def _start_as_planned(trial: Trial, slot: int, found: Found) -> None:
    trial.start(slot, found, PLANNED)
    if trial.state.policy.guarantees:  # what others are expected to do was not looked at
        nodes = {share[0] for share in found.shares}
        for plan in trial.state.reservations.get(found.pool, ()):
            if not plan.guaranteed:
                trial.layer.take_from(plan, nodes)


def _is_free(state: State, pool: int, shares: Shares) -> bool:
    index = state.cluster.pools[pool]
    if isinstance(index, FreeIndex):
        return all(index.free[share[0]] >= share[1] for share in shares)
    try:
        index.copy().take(shares)
    except ValueError:
        return False
    return True


def may_wait_for(state: State, layer: QueueLayer, slot: int, lane: QueueLane, pool: int) -> bool:
    """Whether a job is held up by lack of room, or by others who have borrowed what it is guaranteed. Nothing else of a
    strict queue may pass, so its head may also wait for its own tenant's jobs to end; and so may who has waited too
    long."""
    use, tree = layer.use, layer.tree
    if use is None:
        return True
    milli = asked_milli(state.table.demands[slot], state.cluster.spec.pools[pool])
    if lane.rank == -math.inf:
        return TenantUse(tree).bound(lane.tenant, pool, milli) < 0
    if not use.is_limited(lane.tenant, pool, milli) or use.is_entitled(lane.tenant, pool, milli):
        return True
    return tree.queueing[lane.tenant] is Queueing.STRICT and tree.is_guaranteed(lane.tenant, pool, milli)


class _Heads:
    """The heads of all lanes, in order."""

    def __init__(self, state: State, tx: Transaction, trial: Trial, now: float) -> None:
        self._state, self._tx, self._trial, self._now = state, tx, trial, now
        self._layer = trial.layer
        self._lanes = self._layer.queue.lanes
        self._ranks: list[list[float]] = [[] for _ in state.cluster.pools]
        self._barred: dict[tuple[int, int], float] = {}
        self._blocked: list[int] = list(self._layer.reserved)
        self._opens: dict[tuple[float, tuple[int, ...]], tuple[int, ...]] = {}
        if state.policy.reservations == math.inf and Queueing.STRICT not in self._layer.tree.queueing:
            return  # there is no counting to infinity
        for pool, plans in state.reservations.items():
            for slot in {plan.slot for plan in plans}:
                claimed = any(plan.victims for plan in plans if plan.slot == slot)
                self._count(slot, () if claimed else (pool,))  # one that is sure to start soon keeps nobody waiting

    def start_all(self) -> None:
        """Until every head is blocked, and everyone who is to have a reservation has one."""
        self._layer.barred = dict(self._barred)
        heap: list[tuple[Place, int, int]] = []
        queueing = self._layer.tree.queueing
        for lanes in self._layer.queue.alike.values():
            is_open = bool(self._open_to(lanes[0]))
            for lane in lanes:
                if self._open(lane) if queueing[lane.tenant] is Queueing.STRICT else is_open:
                    head = self._head(lane)
                    if head is not None:
                        heap.append(head)
        heapify(heap)
        while heap:
            lane = self._lanes[heap[0][1]]
            head = self._head(lane) if self._open(lane) else None
            if head is None:
                heappop(heap)
            elif head != heap[0]:
                heapreplace(heap, head)
            elif not self._try(head[2], lane):
                heappop(heap)
        self._layer.barred = dict(self._barred)
        self._state.blocked = self._blocked

    def _head(self, lane: QueueLane) -> tuple[Place, int, int] | None:
        first = lane.order.first()
        return None if first is None else (self._trial.place_of(lane, first), lane.number, first[2])

    def _open(self, lane: QueueLane) -> tuple[int, ...]:
        """The pools on which a blocked head of this lane would get a reservation."""
        if self._layer.tree.queueing[lane.tenant] is Queueing.STRICT:  # which alone are barred, and never too many
            return tuple(p for p in lane.pools if self._barred.get((lane.tenant, p), math.inf) > lane.rank)
        return self._open_to(lane)

    def _open_to(self, lane: QueueLane) -> tuple[int, ...]:
        """The pools on which not too many are blocked for a lane that is not strict."""
        key = lane.rank, lane.pools
        found = self._opens.get(key)
        if found is None:
            most = self._state.policy.reservations or 0
            found = self._opens[key] = tuple(
                p for p in lane.pools if sum(rank <= lane.rank for rank in self._ranks[p]) < most
            )
        return found

    def _try(self, slot: int, lane: QueueLane) -> bool:
        """Start the head of a lane or give it a reservation; False if the lane is to be left for this cycle."""
        state, layer = self._state, self._layer
        if not state.policy.starts_by_plan or not any(pool in state.reservations for pool in lane.pools):
            found = self._find(slot, lane)
            if found is not None:
                self._trial.start(slot, found, "" if state.reservations.get(found.pool) else HEAD)
                return True
        queueing = layer.tree.queueing[lane.tenant]
        pools = tuple(pool for pool in self._open(lane) if may_wait_for(self._state, self._layer, slot, lane, pool))
        strict = queueing is Queueing.STRICT
        if strict:
            self._bar(lane)
        if not pools or (queueing is Queueing.BEST_EFFORT and lane.rank > -math.inf):
            return False
        self._blocked.append(slot)
        due_s = -math.inf if strict else self._due_s(slot, lane)
        wanted = due_s <= self._now and may_reserve(state, layer, pools, self._now)
        if wanted and reserve(state, self._tx, slot, pools, self._now):
            if self._start_as_planned(slot):
                return True
            self._count(
                slot, tuple(pool for pool, plans in state.reservations.items() if any(p.slot == slot for p in plans))
            )
            return not strict
        # One that is due but has to wait for its turn, or has no plan at all, is looked at again in the next cycle.
        layer.due_s = min(layer.due_s, due_s)
        self._count(slot, pools)
        return False

    def _find(self, slot: int, lane: QueueLane) -> Found | None:
        """`Trial.find` for a head, on pools on which something has changed since it was looked at there."""
        table, trial = self._state.table, self._trial
        entry, demand = table.entries[slot], table.demands[slot]
        if lane.looked_at[0] is not entry:
            lane.looked_at = entry, {}
        known = lane.looked_at[1]
        now = {pool: trial.looked(lane, pool) for pool in lane.pools}
        pools = [
            pool
            for pool in lane.pools
            if (last := known.get(pool)) is None or not trial.is_as_seen(pool, demand, last, now[pool])
        ]
        found = trial.find(slot, pools) if pools else None
        if found is None:
            known |= {pool: now[pool] for pool in pools}
        return found

    def _start_as_planned(self, slot: int) -> bool:
        """Start a job whose plan begins now: it may have been kept by what others are expected, not bound, to do."""
        found = _planned(self._state, self._trial, slot, self._now)
        if found is None:
            return False
        self._blocked.remove(slot)
        _start_as_planned(self._trial, slot, found)
        return True

    def _due_s(self, slot: int, lane: QueueLane) -> float:
        """From when on the job is to have a reservation."""
        policy, job = self._state.policy, self._state.table.jobs[slot]
        if lane.rank == -math.inf or job is None or policy.reserve_from is None:
            return -math.inf
        if policy.patience is not None and self._state.table.entries[slot][0] <= FIRST_S:
            return -math.inf
        return policy.reserve_from(job, self._state.cluster.spec.gpus)

    def _bar(self, lane: QueueLane) -> None:
        """Nothing of the same queue passes a blocked strict head, but for those of a higher class."""
        for pool in lane.pools:
            at = lane.tenant, pool
            self._barred[at] = min(lane.rank, self._barred.get(at, math.inf))
        self._layer.barred = dict(self._barred)

    def _count(self, slot: int, pools: tuple[int, ...]) -> None:
        """The job is one of the blocked ones of the pools."""
        lane = self._state.table.queue_lanes[slot]
        if lane is None:
            return
        if self._layer.tree.queueing[lane.tenant] is Queueing.STRICT:
            self._bar(lane)
            return
        self._opens.clear()
        for pool in pools:
            self._ranks[pool].append(lane.rank)
