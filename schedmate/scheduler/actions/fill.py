"""Start later jobs that delay nobody who has a reservation. What may start is told by `Trial`.

Without gained capacity only the jobs that are new since the last cycle are looked at. Otherwise those demands that fit
somewhere are, and of them the jobs that would run beyond only such plans beside which they fit. Capacity only shrinks
on the way, so this is the same as one walk through the queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.bounds import MOST_PLANS, Bound, PlanBound, Rooms
from schedmate.scheduler.classes import Group, QueueLane, Settled
from schedmate.scheduler.cluster_types import UNLIMITED
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.promises import bound_before, place_in_lane, plan_rank, rank
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.trial import Place, Trial
from schedmate.scheduler.types import Reservation


def fill(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`."""
    layer, fresh = state.layer, state.fresh
    if layer is None:
        return
    planned = sum(1 << pool for pool in state.reservations) if state.policy.starts_by_plan else 0
    gained = layer.gained & ~planned
    if planned:  # where all have plans nobody starts but by them
        fresh = [slot for slot in fresh if (lane := state.table.queue_lanes[slot]) and not lane.pool_bits & planned]
    if gained or fresh:
        trial = Trial(state, tx, now)
        if gained:
            _Groups(state, trial, gained, now).start_all()
        _start_fresh(state, trial, fresh, gained)
    layer.gained = 0
    if state.fresh:
        state.fresh = []


def _start_fresh(state: State, trial: Trial, fresh: list[int], gained: int) -> None:
    """Those that are new, on pools on which nobody else could start."""
    table, reserved = state.table, trial.layer.queue.reserved
    waiting: list[tuple[Place, int]] = []
    for slot in fresh:
        entry, lane = table.live[slot], table.queue_lanes[slot]
        if entry is not None and lane is not None and lane.pool_bits & ~gained and slot not in reserved:
            waiting.append((trial.place_of(lane, entry), slot))
    waiting.sort()
    for _, slot in waiting:
        found = trial.find(slot)
        if found is not None:
            trial.start(slot, found)


class _Candidates(NamedTuple):
    """Jobs of one group and lane, in order, that run beyond the same plans of a pool; ``late`` -1 where that is not
    known."""

    pool: int
    late: int
    demand: Demand
    lane: QueueLane
    entries: Iterator[Entry]


class _Groups:
    """The jobs of all demands that fit on a pool that has gained, by the place of the next one to look at."""

    def __init__(self, state: State, trial: Trial, gained: int, now: float) -> None:
        self._state, self._trial, self._now = state, trial, now
        self._clocks = [verdicts.clock for verdicts in trial.layer.verdicts]
        self._room: dict[int, NDArray[np.int64]] = {}
        #: By pool, whether quota keeps tenants off it since the last start there: tenant, milli-GPU, plans (bits).
        self._lacking: dict[int, dict[tuple[int, int, int], bool]] = {}
        self._looked_at: list[tuple[Group, int]] = []
        self._settled: dict[tuple[int, int, tuple[int, int]], bool] = {}
        self._candidates = [
            each
            for pool in range(len(state.cluster.pools))
            if gained >> pool & 1
            for each in self._promising(pool, trial.layer.queue.groups_on[pool])
        ]
        #: By pool, what fits since the last start there, and what fits no more: demand, plans beyond which it runs.
        self._fit: dict[int, set[tuple[Demand, int]]] = {}
        for each in self._candidates:
            self._fit.setdefault(each.pool, set()).add((each.demand, each.late))
        self._full: set[tuple[int, Demand, int]] = set()

    def start_all(self) -> None:
        """Until nothing of any group may start."""
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
        now = {
            pool: Settled(self._clocks[pool], self._state.reservations.get(pool, ()), self._room_on(pool))
            for pool in {pool for _, pool in self._looked_at}
        }
        for group, pool in self._looked_at:
            group.settled[pool] = now[pool]

    def _try(self, number: int, slot: int) -> bool:
        """Start a job if it may; False if the others that are like it may not either."""
        pool, late, demand, lane, _ = self._candidates[number]
        key = pool, demand, late
        if key in self._full or (late > 0 and self._lacks_quota(pool, lane.tenant, demand, late)):
            return False
        if self._state.table.live[slot] is None:
            return True
        if late >= 0 and (demand, late) not in self._fit[pool]:
            if not self._trial.fits(pool, demand, late):
                self._full.add(key)
                return False
            self._fit[pool].add((demand, late))
        found = self._trial.find(slot)
        if found is None:
            return late < 0
        self._trial.start(slot, found)
        self._room.pop(found.pool, None)
        self._lacking.pop(found.pool, None)
        self._fit[found.pool] = set()
        return True

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

    def _promising(self, pool: int, groups: list[Group]) -> Iterator[_Candidates]:
        """The jobs that might start on a pool that has gained."""
        trial, queue, index = self._trial, self._trial.layer.queue, self._state.cluster.pools[pool]
        is_no = trial.layer.verdicts[pool].is_no
        unsettled = [
            group for group in groups if not self._is_settled(group, pool) and not is_no(index, group.demand, ())
        ]
        if not unsettled:
            return
        self._looked_at.extend((group, pool) for group in unsettled)
        plans = self._plan_bounds(pool)
        known = len(plans) <= MOST_PLANS
        found = queue.bounds[pool].candidates(
            [group.number for group in unsettled],
            plans if known else [],
            self._now,
            self._bound,
            self._rooms_on(pool, unsettled),
            lambda group, late: trial.fits(pool, queue.groups[group].demand, late),
        )
        for group, late, lane, entries in found:
            demand = queue.groups[group].demand
            yield _Candidates(pool, late if known else -1, demand, queue.lanes[lane], iter(entries))

    def _is_settled(self, group: Group, pool: int) -> bool:
        """Whether nothing that matters has changed since nothing of a group could start. Of many groups what that rests
        on is the same object, and few differ in what they ask for."""
        last = group.settled.get(pool)
        if last is None:
            return False
        asked = group.asked.get(pool)
        if asked is None:
            need = self._trial.layer.verdicts[pool].need(self._state.cluster.pools[pool].capacity, group.demand)
            asked = group.asked[pool] = need, asked_milli(group.demand, self._state.cluster.spec.pools[pool])
        key = pool, id(last), asked
        found = self._settled.get(key)
        if found is None:
            found = self._settled[key] = self._trial.is_settled(pool, group.demand, last, self._room_on(pool))
        return found

    def _room_on(self, pool: int) -> NDArray[np.int64]:
        """By tenant, what quota leaves on a pool; nothing where the queue is barred."""
        room = self._room.get(pool)
        if room is None:
            room = self._room[pool] = self._trial.rooms(pool)
        return room

    def _rooms_on(self, pool: int, groups: list[Group]) -> Rooms:
        """What quota leaves on a pool, now and when its plans begin, and what some groups ask for."""
        spec, now = self._state.cluster.spec.pools[pool], self._room_on(pool)
        asked = np.zeros(len(self._trial.layer.queue.groups), dtype=np.int64)
        for group in groups:
            asked[group.number] = asked_milli(group.demand, spec)
        return Rooms(now, self._room_then(pool, len(now)), asked)

    def _room_then(self, pool: int, tenants: int) -> NDArray[np.int64]:
        """What quota leaves when the plans of a pool begin; shape (plans, tenants)."""
        uses = [plan.use for plan in self._state.reservations.get(pool, ())]
        then = [np.full(tenants, UNLIMITED, dtype=np.int64) if use is None else use.rooms(pool) for use in uses]
        return np.array(then, dtype=np.int64).reshape(len(uses), tenants)

    def _lacks_quota(self, pool: int, tenant: int, demand: Demand, late: int) -> bool:
        """Whether quota does not let a tenant start a demand now, or run it beyond all of the plans ``late`` (bits)."""
        milli = asked_milli(demand, self._state.cluster.spec.pools[pool])
        known, key = self._lacking.setdefault(pool, {}), (tenant, milli, late)
        found = known.get(key)
        if found is None:
            found = known[key] = self._room_on(pool)[tenant] < milli or any(
                late >> i & 1 and plan.use is not None and plan.use.bound(tenant, pool, milli) >= 0
                for i, plan in enumerate(self._state.reservations.get(pool, ()))
            )
        return found

    def _plan_bounds(self, pool: int) -> list[PlanBound]:
        """The plans of a pool, as `Trial.late` reads them."""
        state = self._state
        return [
            PlanBound(
                plan.start_s,
                plan_rank(state, plan),
                plan.guaranteed or plan.locked or bool(plan.victims),
                plan.guaranteed and not plan.victims and plan.start_s > self._now,
                bound_before(state, plan),
                _behind(state, plan),
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
        tenant, number = (0, 0) if lane is None else (lane.tenant, lane.number)
        since = table.since[slot]
        place_s, sequence = place_in_lane(self._state, slot)
        own = rank(self._state, slot)
        return Bound(assumed.within_s, assumed.limit_s, leaves_s, own, since, place_s, sequence, tenant, number)


def _behind(state: State, plan: Reservation) -> tuple[float, float, int] | None:
    """Where the job of a tentative plan stands, and its tenant."""
    lane = state.table.queue_lanes[plan.slot]
    return (*place_in_lane(state, plan.slot), 0 if lane is None else lane.tenant) if plan.tentative else None
