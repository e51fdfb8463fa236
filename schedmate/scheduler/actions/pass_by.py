"""Smallest expected GPU time first, and bounds on how long a larger job is passed by (`policies.Patience`).

One walk through the queue, in its order: what fits starts, beside the plans made so far. A blocked job that has waited
a while gets a *tentative* plan: those behind it must leave its GPUs alone, those before it need not, so that its start
moves with every smaller job that comes. That lasts until the plan would let it wait longer than its bound: then the job
goes to the front of the queue for good and its plan holds, as far as everything ends when that was expected. Nothing
is guaranteed here.

The bound of a job grows with what waits at that moment: an overloaded cluster that gives way to each of its largest
jobs works off everything else more slowly, so nobody gains by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from schedmate.scheduler.actions.backfill import Found, first_startable, runs_beyond, start_found, startable
from schedmate.scheduler.actions.reserve import extend
from schedmate.scheduler.ahead import Ahead, Window, earliest, with_spare
from schedmate.scheduler.assumptions import Assumed
from schedmate.scheduler.claims import SHORTEST_SPAN_S
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.policies import Patience
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Reservation


def pass_by(state: State, tx: Transaction, now: float) -> None:
    """For policies with `Patience`, in place of `allocate`, `reserve` and `backfill`."""
    patience, ends = state.policy.patience, state.ends
    if patience is None or ends is None:
        return
    if state.reservations and ends.next_s() <= now:
        extend(state, ends, tx, now)
    live = state.table.live
    planned = [plan.slot for plans in state.reservations.values() for plan in plans]
    if state.gained or state.fresh or state.stale or any(live[slot] is None for slot in planned):
        _Walk(state, tx, patience, now).through()
    state.gained = state.stale = False
    if state.fresh:
        state.fresh = []


class _Started(NamedTuple):
    pool: int
    shares: Shares
    assumed: Assumed


class _Walk:
    def __init__(self, state: State, tx: Transaction, patience: Patience, now: float) -> None:
        self._state, self._tx, self._patience, self._now = state, tx, patience, now
        self._before = state.reservations
        #: Whether the plans of the last walk can be kept: until one of them differs from what it was.
        self._keeps = not state.stale
        self._started: list[_Started] = []
        self._ahead: dict[int, Ahead] = {}

    def through(self) -> None:
        state, live = self._state, self._state.table.live
        state.reserved_for = [slot for slot in state.reserved_for if live[slot] is not None]
        state.reservations, state.blocked = {}, []
        ripe = state.queue.ripe(self._now)
        self._promote_oldest()
        promoted = state.reserved_for
        for slot in promoted:
            self._reach(slot)
        tentative = 0
        for entry in self._waiting(ripe, set(promoted)):
            if tentative == self._patience.plans:
                break
            tentative += self._reach(entry[2])
        self._start_until(None)
        state.reserved_for = [slot for slot in state.reserved_for if live[slot] is not None]

    def _waiting(self, ripe: list[Entry], promoted: set[int]) -> Iterator[Entry]:
        """Those who have waited long enough for a plan and still wait, in the order of the queue."""
        for entry in ripe:
            slot = entry[2]
            if slot not in promoted and self._waited_s(slot) >= self._patience.after_s:
                yield entry

    def _promote_oldest(self) -> None:
        """Who has waited beyond the bound goes before all others, whether there was a plan or not."""
        state, patience = self._state, self._patience
        while len(state.reserved_for) < patience.promoted:
            oldest = state.queue.oldest(state.reserved_for)
            if oldest is None or self._waited_s(oldest[2]) < patience.bound_s(self._backlog_s):
                return
            self._promote(oldest[2])

    def _promote(self, slot: int) -> None:
        self._tx.promote(slot)
        self._state.reserved_for = [*self._state.reserved_for, slot]

    def _waited_s(self, slot: int) -> float:
        """How long a job has waited; less than nothing if it does not wait."""
        job = self._state.table.jobs[slot]
        return -math.inf if job is None or self._state.table.live[slot] is None else self._now - job.submit_s

    def _reach(self, slot: int) -> bool:
        """Start what comes before a job, and the job itself; if it is blocked it gets a plan. Whether that is
        tentative. Those that go before all others come in the order in which they were promoted."""
        state, table = self._state, self._state.table
        entry = table.live[slot]
        if entry is not None and slot in state.reserved_for:
            self._start(startable(state, self._now, entry))
        else:
            self._start_until(entry)
        if entry is None or table.live[slot] is not entry:
            return False
        state.blocked.append(slot)
        plan = self._kept(slot)
        if plan is None:
            self._keeps = False
            plan = self._planned(slot)
        if plan is None:
            return False
        if slot not in state.reserved_for and self._is_due(slot, plan.start_s):
            self._promote(slot)
        state.reservations = {**state.reservations, plan.pool: (*state.reservations.get(plan.pool, ()), plan)}
        return slot not in state.reserved_for

    def _is_due(self, slot: int, start_s: float) -> bool:
        """Whether a job would wait beyond its bound by its plan."""
        patience, job = self._patience, self._state.table.jobs[slot]
        if job is None or len(self._state.reserved_for) >= patience.promoted:
            return False
        return start_s - job.submit_s >= patience.bound_s(self._backlog_s)

    @property
    def _backlog_s(self) -> float:
        """How long the whole cluster would take for all that waits, as far as is expected."""
        backlog = self._state.queue.backlog
        return 0.0 if backlog is None else backlog.total_ms / 1000 / self._state.cluster.spec.gpus

    def _start_until(self, last: Entry | None) -> None:
        """Start what may start, in order, up to one entry of the queue."""
        while self._start(first_startable(self._state, self._now, last)):
            pass

    def _start(self, found: Found | None) -> bool:
        if found is None:
            return False
        self._started.append(_Started(found[1], found[2], self._state.table.assumed[found[0][2]]))
        self._ahead.clear()
        start_found(self._state, self._tx, self._now, found)
        return True

    def _kept(self, slot: int) -> Reservation | None:
        """The plan of the last walk if it is what would be found now: those before are the same, and what has started
        meanwhile leaves what it needs."""
        plan = next((plan for plans in self._before.values() for plan in plans if plan.slot == slot), None)
        if not self._keeps or plan is None or plan.start_s <= self._now:
            return None
        plans = self._before[plan.pool]
        before, now_before = plans[: plans.index(plan)], self._state.reservations.get(plan.pool, ())
        same = [each.slot for each in before] == [each.slot for each in now_before]
        return plan if same and self._stands(plan) else None

    def _stands(self, plan: Reservation) -> bool:
        """Whether nothing that started in this walk will be on the nodes of a plan when it begins."""
        nodes = {share[0] for share in plan.shares}
        return not any(
            started.pool == plan.pool
            and runs_beyond(plan, started.assumed, self._now)
            and any(share[0] in nodes for share in started.shares)
            for started in self._started
        )

    def _planned(self, slot: int) -> Reservation | None:
        """A new plan on the pool that comes first."""
        lane = self._state.table.lanes[slot]
        found = [plan for pool in (lane.pools if lane else ()) if (plan := self._plan(slot, pool)) is not None]
        return min(found, key=lambda plan: plan.start_s, default=None)

    def _plan(self, slot: int, pool: int) -> Reservation | None:
        """The first start on a pool that takes nothing from the plans before."""
        state, table = self._state, self._state.table
        others, ahead = state.reservations.get(pool, ()), self._ahead_of(pool)
        span_s = max(SHORTEST_SPAN_S, table.assumed[slot].span_s)
        found = earliest(ahead, state.place, table.demands[slot], others, Window(self._now, math.inf, span_s))
        if found is None or found[0] == math.inf:
            return None
        plan = Reservation(slot, pool, found[0], found[1], {}, False, found[0] + span_s)
        return with_spare(ahead, plan, [*others, plan])

    def _ahead_of(self, pool: int) -> Ahead:
        """One pool along the ends of what runs there now."""
        found = self._ahead.get(pool)
        if found is None:
            state, own = self._state, ExpectedEnds()
            own.order = [
                each for each in (state.ends.order if state.ends else ()) if state.table.pools[each[1]] == pool
            ]
            found = self._ahead[pool] = Ahead(state.cluster.pools[pool], own, state.table, self._now)
        return found
