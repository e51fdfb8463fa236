"""Start later jobs that delay nobody who has a reservation. What may start is told by `Trial`.

Without gained capacity only the jobs that are new since the last cycle are looked at. Otherwise the classes of those
demands that fit somewhere are, in order, by their first job; in a class of which the first would stay too long, by
the first that would not. Capacity only shrinks on the way, so this is the same as one walk through the queue.
"""

from __future__ import annotations

import math
from functools import partial
from heapq import heapify, heappop, heapreplace

import numpy as np

from schedmate.scheduler.bounds import MOST_PLANS, Allowed, Bound, PlanBound
from schedmate.scheduler.classes import Group, JobClass
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.trial import Place, Trial

#: By pool, the plans that a job would run beyond.
Late = tuple[int, ...]


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


class _Classes:
    """The classes of all demands that fit on a pool that has gained, by the place of the next job to look at."""

    def __init__(self, state: State, trial: Trial, gained: int, now: float) -> None:
        self._state, self._trial, self._now = state, trial, now
        self._allowed: dict[tuple[int, int], Allowed] = {}
        self._plans = {pool: self._plan_bounds(pool) for pool in range(len(state.cluster.pools)) if gained >> pool & 1}
        self._classes = [
            each
            for group in trial.layer.queue.groups_in_order
            if group.pool_bits & gained
            for each in self._promising(group)
        ]
        #: Of each class, the plans beyond which a job was found not to start.
        self._failed: list[set[Late]] = [set() for _ in self._classes]

    def start_all(self) -> None:
        """Until nothing of any class may start."""
        heap = [each for i in range(len(self._classes)) if (each := self._next(i)) is not None]
        heapify(heap)
        while heap:
            _, number, slot = heap[0]
            found = self._trial.find(slot)
            if found is not None:
                self._trial.start(slot, found)
            else:
                self._failed[number].add(self._late(slot))
            following = self._next(number)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, following)
            while heap and (now_at := self._again(heap[0])) != heap[0]:
                heapreplace(heap, now_at)

    def _again(self, at: tuple[Place, int, int]) -> tuple[Place, int, int]:
        """The same job with its place as it is now: a start sets back the tenant."""
        lane = self._classes[at[1]].lane
        return self._trial.place_of(lane, self._state.table.entries[at[2]]), at[1], at[2]

    def _promising(self, group: Group) -> list[JobClass]:
        """The classes of a demand with a job that might start on a pool that has gained, in order."""
        found: set[int] = set()
        trial, demand, pools = self._trial, group.demand, self._state.cluster.pools
        for pool in group.pools:
            if pool not in self._plans or trial.layer.verdicts[pool].is_no(pools[pool], demand, ()):
                continue
            if len(self._plans[pool]) > MOST_PLANS:
                return group.classes
            allowed = self._allowed_on(pool, demand)
            if allowed.now.any():
                fits = partial(trial.fits, pool, demand)
                found.update(map(id, group.bounds.owners(self._plans[pool], self._now, self._bound, allowed, fits)))
        return [each for each in group.classes if id(each) in found] if found else []

    def _allowed_on(self, pool: int, demand: Demand) -> Allowed:
        """Which tenants have quota for a demand."""
        key = pool, asked_milli(demand, self._state.cluster.spec.pools[pool])
        found = self._allowed.get(key)
        if found is None:
            tenants = range(len(self._trial.layer.tree.names))
            columns = (
                np.array([self._trial.is_allowed(tenant, pool, demand, late) for tenant in tenants]) for late in (0, 1)
            )
            found = self._allowed[key] = Allowed(*columns)
        return found

    def _plan_bounds(self, pool: int) -> list[PlanBound]:
        """The plans of a pool, as `Trial.late` reads them."""
        lanes = self._state.table.queue_lanes
        return [
            PlanBound(
                plan.start_s,
                math.inf if (lane := lanes[plan.slot]) is None else lane.rank,
                plan.guaranteed or plan.locked,
                plan.guaranteed,
            )
            for plan in self._state.reservations.get(pool, ())
        ]

    def _bound(self, slot: int) -> Bound:
        """What `Trial.late` knows of a waiting job."""
        table = self._state.table
        assumed, job, lane = table.assumed[slot], table.jobs[slot], table.queue_lanes[slot]
        leaves_s = math.inf
        hints = job.hints if job is not None and job.preemptible else None
        if job is not None and hints is not None and hints.confidence >= self._state.policy.confidence:
            leaves_s = max(assumed.within_s, job.min_run_s)
        rank, tenant = (math.inf, 0) if lane is None else (lane.rank, lane.tenant)
        return Bound(assumed.within_s, assumed.limit_s, leaves_s, rank, tenant)

    def _next(self, number: int) -> tuple[Place, int, int] | None:
        each, failed = self._classes[number], self._failed[number]
        entry = each.first()
        if entry is None:
            return None
        if failed and self._late(entry[2]) in failed:
            entry = self._shorter(each, failed)
        return None if entry is None else (self._trial.place_of(each.lane, entry), number, entry[2])

    def _shorter(self, each: JobClass, failed: set[Late]) -> Entry | None:
        """The first job of a class that would leave earlier than those that were found not to start."""
        reservations = self._state.reservations
        last_s = max(
            (plan.start_s for pool in each.lane.pools for plan in reservations.get(pool, ())), default=-math.inf
        )
        if self._now + each.shortest_s > last_s:
            return None
        waiting = each.alive()
        for entry in waiting:
            if self._late(entry[2]) not in failed:
                return entry
        assumed = self._state.table.assumed
        each.shortest_s = min((assumed[entry[2]].within_s for entry in waiting), default=math.inf)
        return None

    def _late(self, slot: int) -> Late:
        lane, reservations = self._state.table.queue_lanes[slot], self._state.reservations
        if lane is None:
            return ()
        return tuple(self._trial.late(slot, lane, reservations.get(pool, ()))[0] for pool in lane.pools)
