"""Who has waited a while gets a *tentative* plan, and who has waited too long goes first (`policies.Patience`).

The first few jobs of the queue that have waited for a while have a plan each from which those behind them, and lower
classes, keep away. Those before them need not: the start moves with every smaller job that comes. That lasts until by
its plan a job would wait longer than its bound, or has waited so long without one: then it goes before all others of
its tenant and class, for good, and gets a reservation like any blocked head.

The bound grows with what waits at that moment: an overloaded cluster that gives way to each of its largest jobs works
off everything else more slowly, so nobody gains by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from heapq import merge

from schedmate.scheduler.actions import plan
from schedmate.scheduler.actions.admit import may_wait_for
from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.policies import Patience
from schedmate.scheduler.promises import rank
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import Queueing
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Place, Trial
from schedmate.scheduler.types import Reservation

#: Jobs of one lane that are looked at in a cycle: some can not be planned for, for want of quota or of hardware.
DEPTH = 16


def stand_by(state: State, tx: Transaction, now: float) -> None:
    """Runs after `fill`, when all who wait are blocked."""
    patience, layer = state.policy.patience, state.layer
    if patience is None or layer is None:
        return
    lanes = layer.queue.ripe_lanes(now)
    if not lanes and not layer.tentative:
        return
    if plan.are_crowded(state, layer):  # the order changes with every event: it is looked at again in a moment
        if plan.is_rushed(state, layer):
            layer.turn_s = min(layer.turn_s, now + plan.MOMENT_S)
            return
        if now < layer.stand_s and layer.tentative == layer.stood:
            layer.turn_s = min(layer.turn_s, layer.stand_s)
            return
    if layer.void or not layer.is_idle:
        plan.plan(state, tx, now)
    _StandingBy(state, layer, tx, patience, now).through(lanes)
    layer.stood, layer.stand_s = layer.tentative, now + plan.NEXT_TURN_S


class _StandingBy:
    def __init__(self, state: State, layer: QueueLayer, tx: Transaction, patience: Patience, now: float) -> None:
        self._state, self._layer, self._tx, self._patience, self._now = state, layer, tx, patience, now
        backlog = state.queue.backlog
        backlog_s = 0.0 if backlog is None else backlog.total_ms / 1000 / state.cluster.spec.gpus
        self._bound_s = patience.bound_s(backlog_s)
        #: By pool, how many have a tentative plan there.
        self._plans = [0] * len(state.cluster.pools)

    def through(self, lanes: list[QueueLane]) -> None:
        """Those who have waited too long first, then the tentative plans, in the order of the queue."""
        layer, queueing = self._layer, self._layer.tree.queueing
        lanes = [lane for lane in lanes if lane.rank > -math.inf and queueing[lane.tenant] is Queueing.BACKFILL]
        for lane in lanes:
            oldest = layer.queue.oldest(lane)
            if oldest is not None and self._waited_s(oldest[2]) >= self._bound_s:
                self._promote(oldest[2], self._pools(oldest[2], lane))
        planned = {each.slot: each for plans in self._state.reservations.values() for each in plans if each.tentative}
        kept = set[int]()
        for slot, lane in self._in_order(lanes):
            pools = self._pools(slot, lane)
            if self._are_taken(pools):
                continue
            tentative = planned.get(slot)
            if tentative is None and not plan.may_reserve(self._state, layer, pools, self._now):
                kept |= self._as_before(planned, kept)  # until this one has had its turn
                break
            tentative = tentative or plan.stand_by(self._state, self._tx, slot, pools, self._now)
            if tentative is None:
                continue
            if tentative.start_s - self._submit_s(slot) >= self._bound_s and self._promote(slot, pools):
                continue
            self._plans[tentative.pool] += 1
            kept.add(slot)
        for slot in layer.tentative - kept:
            self._tx.drop_tentative(slot)

    def _as_before(self, planned: Mapping[int, Reservation], kept: Set[int]) -> set[int]:
        """Those that have a tentative plan and have not been looked at, as many as there may be beside those kept."""
        found = set[int]()
        for slot, tentative in planned.items():
            if slot not in kept and self._plans[tentative.pool] < self._patience.plans:
                self._plans[tentative.pool] += 1
                found.add(slot)
        return found

    def _in_order(self, lanes: list[QueueLane]) -> Iterator[tuple[int, QueueLane]]:
        """Those who have waited long enough, and their lanes, in the order of all that wait."""
        if len(lanes) == 1:
            return ((entry[2], lanes[0]) for entry in self._ripe(lanes[0]))
        trial = Trial(self._state, self._tx, self._now)
        return ((slot, lane) for _, slot, lane in merge(*(self._placed(trial, lane) for lane in lanes)))

    def _placed(self, trial: Trial, lane: QueueLane) -> Iterator[tuple[Place, int, QueueLane]]:
        return ((trial.place_of(lane, entry), entry[2], lane) for entry in self._ripe(lane))

    def _ripe(self, lane: QueueLane) -> Iterator[Entry]:
        """The first of a lane who have waited long enough, in order."""
        for entry in lane.ripe.few(DEPTH):
            if self._are_taken(lane.pools):
                return
            if self._waited_s(entry[2]) >= self._patience.after_s:
                yield entry

    def _are_taken(self, pools: tuple[int, ...]) -> bool:
        """Whether there are as many tentative plans as there may be on all the pools."""
        return all(self._plans[pool] >= self._patience.plans for pool in pools)

    def _pools(self, slot: int, lane: QueueLane) -> tuple[int, ...]:
        """The pools on which it is not for quota that a job waits."""
        return tuple(pool for pool in lane.pools if may_wait_for(self._state, self._layer, slot, lane, pool))

    def _promote(self, slot: int, pools: tuple[int, ...]) -> bool:
        """Let a job go before all others of its tenant and class, if it may have a reservation on one of the pools."""
        state, own = self._state, rank(self._state, slot)
        plans = state.reservations
        before = {
            pool: {p.slot for p in plans.get(pool, ()) if not (p.tentative or p.victims) and rank(state, p.slot) <= own}
            for pool in pools
        }
        free = tuple(pool for pool in pools if len(before[pool]) < (state.policy.reservations or 0))
        if not free or not plan.may_reserve(state, self._layer, free, self._now):
            return False
        self._tx.promote(slot)
        if plan.reserve(state, self._tx, slot, free, self._now):
            state.blocked = [*state.blocked, slot]
        return True

    def _submit_s(self, slot: int) -> float:
        job = self._state.table.jobs[slot]
        return self._now if job is None else job.submit_s

    def _waited_s(self, slot: int) -> float:
        return self._now - self._submit_s(slot)
