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
from schedmate.scheduler.claims import SHORTEST_SPAN_S
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.policies import Assumed, Patience
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
            if oldest is None or self._waited_s(oldest[2]) < max(patience.after_s, patience.bound_s(self._backlog_s)):
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
        """Start what comes before a job, and the job itself; if it is blocked it gets plans. Whether they are
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
        plans = self._kept(slot) or self._planned(slot)
        if not plans:
            return False
        promoted = slot in state.reserved_for
        if not promoted and self._is_due(slot, plans[0].start_s):
            self._promote(slot)
            promoted = True
        pool = plans[0].pool
        state.reservations = {**state.reservations, pool: (*state.reservations.get(pool, ()), *plans)}
        return not promoted

    def _is_due(self, slot: int, start_s: float) -> bool:
        """Whether a job would wait beyond its bound by its plan."""
        patience, job = self._patience, self._state.table.jobs[slot]
        if job is None or len(self._state.reserved_for) >= patience.promoted:
            return False
        wait_s = start_s - job.submit_s
        return wait_s > patience.after_s and wait_s >= patience.bound_s(self._backlog_s)

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
        self._note_start(found[1], found[2], found[0][2])
        start_found(self._state, self._tx, self._now, found)
        return True

    def _note_start(self, pool: int, shares: Shares, slot: int) -> None:
        self._started.append(_Started(pool, shares, self._state.table.assumed[slot]))
        self._ahead.clear()

    def _kept(self, slot: int) -> list[Reservation]:
        """The plans of the last walk if they are what would be found now: those before are the same, and what has
        started meanwhile leaves what they need."""
        before = [(plan, pool) for pool, plans in self._before.items() for plan in plans if plan.slot == slot]
        if not self._keeps or not before:
            self._keeps = False
            return []
        pool = before[0][1]
        place, now_before = self._before[pool].index(before[0][0]), self._state.reservations.get(pool, ())
        same = [plan.slot for plan in self._before[pool][:place]] == [plan.slot for plan in now_before]
        if not same or before[0][0].start_s <= self._now:
            self._keeps = False
            return []
        self._keeps = all(self._stands(plan) for plan, _ in before)
        return [plan for plan, _ in before] if self._keeps else []

    def _stands(self, plan: Reservation) -> bool:
        """Whether nothing that started in this walk will be on the nodes of a plan when it begins."""
        nodes = {share[0] for share in plan.shares}
        return not any(
            started.pool == plan.pool
            and runs_beyond(plan, started.assumed, self._now)
            and any(share[0] in nodes for share in started.shares)
            for started in self._started
        )

    def _planned(self, slot: int) -> list[Reservation]:
        """A new plan on the pool that comes first."""
        self._keeps = False
        lane = self._state.table.lanes[slot]
        found = [plan for pool in (lane.pools if lane else ()) if (plan := self._plan(slot, pool)) is not None]
        if not found:
            return []
        return [min(found, key=lambda plan: plan.start_s)]

    def _plan(self, slot: int, pool: int) -> Reservation | None:
        """The first start on a pool that takes nothing from the plans before."""
        state, table = self._state, self._state.table
        assumed, ahead = table.assumed[slot], self._ahead_of(pool)
        expected_s = assumed.within_s if assumed.within_s < math.inf else assumed.ends_s
        span_s = max(SHORTEST_SPAN_S, expected_s)
        others = state.reservations.get(pool, ())
        window = Window(self._now, math.inf, span_s)
        found = earliest(ahead, state.place, table.demands[slot], others, window)
        if found is None or found[0] == math.inf:
            return None
        plan = Reservation(slot, pool, found[0], found[1], {}, False, found[0] + span_s)
        return with_spare(ahead, plan, [*others, plan])

    def _ahead_of(self, pool: int) -> Ahead:
        """One pool along the ends of what runs there now."""
        found = self._ahead.get(pool)
        if found is None:
            state = self._state
            ends = state.ends
            own = ExpectedEnds()
            own.order = [each for each in (ends.order if ends else ()) if state.table.pools[each[1]] == pool]
            found = self._ahead[pool] = Ahead(state.cluster.pools[pool], own, state.table, self._now)
        return found
