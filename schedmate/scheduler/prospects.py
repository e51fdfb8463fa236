"""What one pool that has gained offers to those who wait for it: whose size fits, for whom something has changed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.beside import free_on
from schedmate.scheduler.bounds import MOST_PLANS, Bound, Gone, News, PlanBound, Rooms, lacked
from schedmate.scheduler.classes import Asks, Looked
from schedmate.scheduler.cluster_types import UNLIMITED
from schedmate.scheduler.contenders import Contenders
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.pending import Entry, OrderedEntries
from schedmate.scheduler.promises import bound_before, place_in_lane, plan_rank, rank
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import asked_milli
from schedmate.scheduler.trial import Trial
from schedmate.scheduler.types import Reservation

#: In place of what a group asks for that can not fit.
_NEVER = UNLIMITED + 1


class Since(NamedTuple):
    """What has changed since none of those who waited could start: the most free GPUs of a node on which something was
    freed, and how often something had been by then; what quota left then by tenant, and beside each plan that is gone.
    """

    most_freed: int
    clock: int
    rooms: NDArray[np.int64]
    gone: Sequence[Gone]


class Changed(NamedTuple):
    """Those for whom something has changed: all of some groups, and others that are new."""

    groups: Collection[int]
    new: Sequence[Entry]


class Prospects:
    """Of one pool, for one `Trial`."""

    __slots__ = ("_clock", "_now", "_state", "_trial", "groups", "pool")

    def __init__(self, state: State, trial: Trial, pool: int, now: float) -> None:
        self._state, self._trial, self._now = state, trial, now
        self.pool = pool
        self._clock = -1
        #: Numbers of the groups of which somebody waits whom what is free could hold, were it not for anybody else.
        #: Most are too large for the holes of a full pool, so that they need not be sorted out one by one.
        self.groups = self._promising()

    def _promising(self) -> list[int]:
        bounds = self._trial.layer.queue.bounds[self.pool]
        groups = bounds.groups()
        if not groups:
            return []
        asks, index = self._asks(), self._state.cluster.pools[self.pool]
        most = index.levels.bit_length() - 1 if isinstance(index, FreeIndex) else int(index.count.max())
        needs, gpus, free = asks.needs, asks.gpus, index.free_gpus
        return [g for g in groups if needs[g] <= most and gpus[g] <= free and bounds.is_any(g)]

    def changed(self) -> Changed:
        """For whom something has changed since none of those who wait could start."""
        since, needs = self._since(), self._asks().needs
        if since is None:
            return Changed(self.groups, ())
        most = since.most_freed
        changed = {group for group in self.groups if needs[group] <= most or self._has_grown(group, since)}
        others = [group for group in self.groups if group not in changed]
        return Changed(changed, self._trial.layer.queue.bounds[self.pool].unseen(others))

    def in_order(self, group: int) -> Mapping[int, OrderedEntries]:
        """Who waits of a group, by number of the lane."""
        return self._trial.layer.queue.bounds[self.pool].in_order(group)

    def contenders(self) -> Contenders:
        """The same by class, as columns."""
        bounds, since, plans = self._trial.layer.queue.bounds[self.pool], self._since(), self._plan_bounds()
        needs, milli = self._asks().columns
        asked = np.full(len(milli), _NEVER, dtype=np.int64)
        asked[self.groups] = milli[self.groups]
        news = None if since is None else News(needs <= since.most_freed, since.rooms, since.gone)
        if news is not None and since is not None:
            beside, pool, free = self._trial.beside, self.pool, free_on(self._state.cluster.pools[self.pool])
            nodes = beside.verdicts(pool).freed_since(free, since.clock)
            if nodes is not None:
                news = news._replace(needs=needs, most_left=lambda late: beside.most_left(pool, nodes, late))
        rooms = Rooms(self.room_now(), self.room_then(), asked)
        return bounds.contenders(news, plans if len(plans) <= MOST_PLANS else None, self._now, self._bound, rooms)

    def note(self) -> None:
        """None of those who wait can start now."""
        trial, queue = self._trial, self._trial.layer.queue
        settled = trial.settled(self.pool)._replace(clock=self._clock)
        queue.looked[self.pool] = Looked(settled, tuple(self._plan_bounds()), tuple(self._left_then()))
        queue.bounds[self.pool].see()

    def room_now(self) -> NDArray[np.int64]:
        """By tenant, what quota leaves; nothing where the queue is barred."""
        return self._trial.rooms(self.pool)

    def room_then(self) -> NDArray[np.int64]:
        """What quota leaves when the plans begin; shape (plans, tenants)."""
        left = self._left_then()
        return np.array(left, dtype=np.int64).reshape(len(left), len(self._trial.layer.tree.names))

    def _left_then(self) -> list[NDArray[np.int64]]:
        """The same by plan."""
        no_limits = self._trial.layer.tree.no_limits
        return [no_limits if plan.use is None else plan.use.rooms(self.pool) for plan in self._plans()]

    def _since(self) -> Since | None:
        """What has changed since none of those who wait could start; None if that is not known."""
        pool, layer = self.pool, self._trial.layer
        verdicts = self._trial.beside.verdicts(pool)
        if self._clock < 0:  # what is freed from now on is news next time
            self._clock = verdicts.clock
        last = layer.queue.looked[pool]
        if last is None or last.settled.undone != layer.undone:
            return None
        gone = list[Gone]()
        if last.bounds:
            there = {id(plan.origin): now for plan, now in zip(self._plans(), self._plan_bounds(), strict=True)}
            instead = {(plan.slot, plan.guaranteed): plan for plan in self._plans()}
            for plan, before, left in zip(last.settled.plans, last.bounds, last.then, strict=True):
                now = there.get(id(plan.origin))
                if now is None:
                    gone.append((left, self._left_beside(instead.get((plan.slot, plan.guaranteed)), before, there)))
                elif now.rank > before.rank or now.bound_before < before.bound_before or now.behind != before.behind:
                    return None  # it binds fewer
        return Since(verdicts.most_freed(last.settled.clock), last.settled.clock, last.settled.rooms, gone)

    def _left_beside(
        self, plan: Reservation | None, before: PlanBound, there: Mapping[int, PlanBound]
    ) -> NDArray[np.int64] | None:
        """What quota leaves beside the plan that stands in the place of another one, if that binds nobody less."""
        if plan is None or plan.use is None or not there[id(plan.origin)].binds_no_less(before):
            return None
        return plan.use.rooms(self.pool)

    def _has_grown(self, group: int, since: Since) -> bool:
        """Whether quota leaves some tenant so much as the jobs of a group ask for where it did not."""
        now, asked = self.room_now(), self._asks().milli[group]
        if now is since.rooms and not since.gone:
            return False
        too_little = since.rooms < asked
        for left, leaves in since.gone:
            too_little |= lacked(asked, left, leaves)
        return bool((too_little & (now >= asked)).any())

    def _asks(self) -> Asks:
        """What all groups ask of the pool."""
        queue = self._trial.layer.queue
        known = queue.asks[self.pool]
        for group in queue.groups[len(known.milli) :]:
            index, spec = self._state.cluster.pools[self.pool], self._state.cluster.spec.pools[self.pool]
            need = self._trial.layer.verdicts[self.pool].need(index.capacity, group.demand)
            known.add(need, group.demand.least_gpus, asked_milli(group.demand, spec))
        return known

    def _plans(self) -> tuple[Reservation, ...]:
        return self._state.reservations.get(self.pool, ())

    def _plan_bounds(self) -> list[PlanBound]:
        """The plans, as `Trial.late` reads them."""
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
            for plan in self._plans()
        ]

    def _bound(self, slot: int) -> Bound:
        """What `Trial.late` knows of a waiting job."""
        table = self._state.table
        assumed, job, lane = table.assumed[slot], table.jobs[slot], table.queue_lanes[slot]
        leaves_s = math.inf
        hints = job.hints if job is not None and job.preemptible else None
        if job is not None and hints is not None and hints.confidence >= self._state.policy.confidence:
            leaves_s = max(assumed.within_s, job.min_run_s)
        tenant, number, shift_s = (0, 0, 0.0) if lane is None else (lane.tenant, lane.number, lane.shift_s)
        since = table.since[slot]
        return Bound(
            assumed.within_s, assumed.limit_s, leaves_s, rank(self._state, slot), since, tenant, number, shift_s
        )


def _behind(state: State, plan: Reservation) -> tuple[float, float, int] | None:
    """Where the job of a tentative plan stands, and its tenant."""
    lane = state.table.queue_lanes[plan.slot]
    return (*place_in_lane(state, plan.slot), 0 if lane is None else lane.tenant) if plan.tentative else None
