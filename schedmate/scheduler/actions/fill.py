"""Start later jobs that delay nobody who has a reservation. What may start is told by `Trial`.

Without gained capacity only the jobs that are new since the last cycle are looked at. Otherwise those demands that fit
somewhere are, and of them the jobs that would run beyond only such plans beside which they fit. Capacity only shrinks
on the way, so this is the same as one walk through the queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.bounds import MOST_PLANS, Allowed, Bound, PlanBound
from schedmate.scheduler.classes import Group, QueueLane, Settled
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.promises import bound_before, rank
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.trial import Place, Trial


def fill(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`."""
    layer, fresh = state.layer, state.fresh
    if layer is None:
        return
    if not state.policy.starts_by_plan or not state.reservations:
        trial = Trial(state, tx, now)
        if layer.gained:
            _Classes(state, trial, layer.gained, now).start_all()
        elif fresh:
            _start_fresh(state, trial, fresh)
    layer.gained = 0
    if fresh:
        state.fresh = []


def _start_fresh(state: State, trial: Trial, fresh: list[int]) -> None:
    table, reserved = state.table, trial.layer.queue.reserved
    waiting: list[tuple[Place, int]] = []
    for slot in fresh:
        entry, lane = table.live[slot], table.queue_lanes[slot]
        if entry is not None and lane is not None and slot not in reserved:
            waiting.append((trial.place_of(lane, entry), slot))
    waiting.sort()
    for _, slot in waiting:
        found = trial.find(slot)
        if found is not None:
            trial.start(slot, found)


class _Candidates(NamedTuple):
    """Jobs of one class, in order, that run beyond the same plans of a pool; ``late`` -1 where that is not known."""

    pool: int
    late: int
    demand: Demand
    lane: QueueLane
    entries: Iterator[Entry]


class _Classes:
    """The jobs of all demands that fit on a pool that has gained, by the place of the next one to look at."""

    def __init__(self, state: State, trial: Trial, gained: int, now: float) -> None:
        self._state, self._trial, self._now = state, trial, now
        self._clocks = [verdicts.clock for verdicts in trial.layer.verdicts]
        self._rooms: dict[int, NDArray[np.int64]] = {}
        self._allowed: dict[tuple[int, int], Allowed] = {}
        self._bits: dict[tuple[int, int], list[int]] = {}
        self._looked_at: list[tuple[Group, int]] = []
        self._plans = {pool: self._plan_bounds(pool) for pool in range(len(state.cluster.pools)) if gained >> pool & 1}
        self._candidates = [
            each
            for group in trial.layer.queue.groups_in_order
            if group.pool_bits & gained
            for each in self._promising(group)
        ]
        #: What was found to fit no more: pool, demand, plans beyond which it would run.
        self._full: set[tuple[int, Demand, int]] = set()

    def start_all(self) -> None:
        """Until nothing of any class may start."""
        heap = [each for i in range(len(self._candidates)) if (each := self._next(i)) is not None]
        heapify(heap)
        while heap:
            number, slot = heap[0][1:]
            following = self._next(number) if self._try(number, slot) else None
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, following)
            while heap and (now_at := self._again(heap[0])) != heap[0]:
                heapreplace(heap, now_at)
        for group, pool in self._looked_at:
            plans = self._state.reservations.get(pool, ())
            group.settled[pool] = Settled(self._clocks[pool], plans, self._rooms_on(pool))

    def _try(self, number: int, slot: int) -> bool:
        """Start a job if it may; False if the others that are like it may not either."""
        pool, late, demand, lane, _ = self._candidates[number]
        key = pool, demand, late
        if key in self._full or (late >= 0 and late & ~self._quota_bits(pool, demand)[lane.tenant]):
            return False
        if self._state.table.live[slot] is None:
            return True
        found = self._trial.find(slot)
        if found is not None:
            self._trial.start(slot, found)
            self._rooms.pop(found.pool, None)
            self._allowed = {each: allowed for each, allowed in self._allowed.items() if each[0] != found.pool}
            self._bits = {each: bits for each, bits in self._bits.items() if each[0] != found.pool}
        elif late >= 0 and self._trial.is_full(pool, demand, late):
            self._full.add(key)
        return found is not None or late < 0

    def _again(self, at: tuple[Place, int, int]) -> tuple[Place, int, int]:
        """The same job with its place as it is now: a start sets back the tenant."""
        lane = self._candidates[at[1]].lane
        return self._trial.place_of(lane, self._state.table.entries[at[2]]), at[1], at[2]

    def _next(self, number: int) -> tuple[Place, int, int] | None:
        """The next of some candidates that still waits."""
        live, each = self._state.table.live, self._candidates[number]
        for entry in each.entries:
            if live[entry[2]] is entry:
                return self._trial.place_of(each.lane, entry), number, entry[2]
        return None

    def _promising(self, group: Group) -> Iterator[_Candidates]:
        """The jobs of a demand that might start on a pool that has gained."""
        trial, demand, pools, has_new = self._trial, group.demand, self._state.cluster.pools, group.bounds.has_new
        for pool in group.pools:
            if pool not in self._plans or trial.layer.verdicts[pool].is_no(pools[pool], demand, ()):
                continue
            if len(self._plans[pool]) > MOST_PLANS:
                for each in group.classes:
                    yield _Candidates(pool, -1, demand, each.lane, iter(each.alive()))
                continue
            if has_new or not self._is_settled(group, pool):
                allowed, fits = self._allowed_on(pool, demand), partial(trial.fits, pool, demand)
                found = group.bounds.candidates(self._plans[pool], self._now, self._bound, allowed, fits)
                self._looked_at.append((group, pool))
                for late, owner, entries in found:
                    yield _Candidates(pool, late, demand, owner.lane, iter(entries))

    def _is_settled(self, group: Group, pool: int) -> bool:
        """Whether nothing that matters has changed since nothing of a demand could start: what is free, the plans, what
        quota leaves. Time alone lets nothing start."""
        last = group.settled.get(pool)
        return last is not None and self._trial.is_settled(pool, group.demand, last, self._rooms_on(pool))

    def _rooms_on(self, pool: int) -> NDArray[np.int64]:
        """By tenant, what quota leaves on a pool; nothing where the queue is barred."""
        rooms = self._rooms.get(pool)
        if rooms is None:
            rooms = self._rooms[pool] = self._trial.rooms(pool)
        return rooms

    def _allowed_on(self, pool: int, demand: Demand) -> Allowed:
        """Which tenants may start a demand."""
        milli = asked_milli(demand, self._state.cluster.spec.pools[pool])
        found = self._allowed.get((pool, milli))
        if found is not None:
            return found
        now = self._rooms_on(pool) >= milli
        uses = [plan.use for plan in self._state.reservations.get(pool, ())]
        then = [np.ones_like(now) if use is None else use.rooms(pool) >= milli for use in uses]
        found = Allowed(now, np.array(then, dtype=np.bool_).reshape(len(uses), len(now)))
        self._allowed[pool, milli] = found
        return found

    def _quota_bits(self, pool: int, demand: Demand) -> list[int]:
        """By tenant, the plans (bits) beyond which quota lets a demand run, 0 where it may not start at all."""
        milli = asked_milli(demand, self._state.cluster.spec.pools[pool])
        found = self._bits.get((pool, milli))
        if found is None:
            allowed = self._allowed_on(pool, demand)
            weights = 1 << np.arange(len(allowed.then), dtype=np.int64)
            bits = (allowed.then * weights[:, None]).sum(axis=0, dtype=np.int64)
            found = self._bits[pool, milli] = np.where(allowed.now, bits, 0).tolist()
        return found

    def _plan_bounds(self, pool: int) -> list[PlanBound]:
        """The plans of a pool, as `Trial.late` reads them."""
        state = self._state
        return [
            PlanBound(
                plan.start_s,
                rank(state, plan.slot),
                plan.guaranteed or plan.locked,
                plan.guaranteed,
                bound_before(state, plan),
            )
            for plan in state.reservations.get(pool, ())
        ]

    def _bound(self, slot: int) -> Bound:
        """What `Trial.late` knows of a waiting job."""
        table = self._state.table
        assumed, job, lane = table.assumed[slot], table.jobs[slot], table.queue_lanes[slot]
        leaves_s = math.inf
        hints = job.hints if job is not None and job.preemptible else None
        if job is not None and hints is not None and hints.confidence >= self._state.policy.confidence:
            leaves_s = max(assumed.within_s, job.min_run_s)
        tenant = 0 if lane is None else lane.tenant
        since = table.since[slot]
        return Bound(assumed.within_s, assumed.limit_s, leaves_s, rank(self._state, slot), tenant, since)
