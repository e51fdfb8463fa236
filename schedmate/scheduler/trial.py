"""Whether one waiting job may start now, under every rule of the full queue layer.

The rules: the queue of its tenant is not barred on the pool; quota allows it; it fits; and for every reservation of
its class or a higher one it has left when that begins, or takes nothing that it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.cluster_types import Shares, Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.leaning import leaning
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.placement import View
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import TenantUse
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.types import Hints, Reservation

HEAD = "first in the queue and it fits"
IN_TIME = "backfilled: it ends before the reserved start"
BESIDE = "backfilled: it takes nothing that the reservation needs"
ON_HINT = "backfilled: it is expected to end before the reserved start, and is evicted at {:.0f} s if it does not"
NOTHING_RESERVED = "passed a blocked job that is not due yet, does not want that pool, or lets others pass"

#: An order among waiting jobs: rank of the class, seconds, sequence.
Place = tuple[float, float, int]


class Found(NamedTuple):
    """A start: where, beside which plans of the pool (bits), and when it must have left."""

    pool: int
    shares: Shares
    late: int
    leave_s: float


class Trial:
    """Starts jobs one after the other at ``now``; every one sees what those before it took."""

    __slots__ = ("_later", "_now", "_tx", "_views", "layer", "state")

    def __init__(self, state: State, tx: Transaction, now: float) -> None:
        layer = state.layer
        if layer is None:
            raise ValueError("this policy has no queue layer")
        self.layer: QueueLayer = layer
        self.state, self._tx, self._now = state, tx, now
        self._views: dict[tuple[int, int], View] = {}
        self._later: TenantUse | None = None

    def place_of(self, lane: QueueLane, entry: Entry) -> Place:
        """Where an entry stands in the order of all that wait."""
        layer = self.layer
        if layer.fair is None:
            return lane.rank, entry[0] - lane.shift_s, entry[1]
        standing_s = layer.standings_s.get(lane.tenant)
        if standing_s is None:
            standing_s = layer.fair.standing(lane.tenant, self._now) * self.state.policy.fair_share_s
            layer.standings_s[lane.tenant] = standing_s
        return lane.rank, entry[0] + standing_s - lane.shift_s, entry[1]

    def find(self, slot: int) -> Found | None:
        """A start of the waiting job in ``slot`` now, on the first of its pools that has one."""
        state, layer, table = self.state, self.layer, self.state.table
        lane, demand = table.queue_lanes[slot], table.demands[slot]
        if lane is None:
            return None
        barred = layer.barred if slot not in layer.queue.reserved else frozenset()
        for pool in lane.pools:
            index, verdicts = state.cluster.pools[pool], layer.verdicts[pool]
            if (barred and (lane.tenant, pool) in barred) or verdicts.is_no(index, demand, ()):
                continue
            if layer.use is not None and layer.use.bound(lane.tenant, pool, self._asked(slot, pool)) >= 0:
                continue
            plans = state.reservations.get(pool, ())
            late, leave_s = 0, math.inf
            beside: tuple[Spare, ...] = ()
            if plans:
                late, leave_s = self.late(slot, lane, plans)
                if late:
                    if (
                        layer.use is not None
                        and self._reserved_use(slot).bound(lane.tenant, pool, self._asked(slot, pool)) >= 0
                    ):
                        continue
                    beside = tuple(plan.spare for i, plan in enumerate(plans) if late >> i & 1)
                    if verdicts.is_no(index, demand, beside):
                        continue
            shares = state.place(self._view(pool, late, beside), demand, leaning(self._hints(slot), self._now))
            if shares is not None:
                return Found(pool, shares, late, leave_s)
            verdicts.note_no(demand, beside)
        return None

    def _hints(self, slot: int) -> Hints | None:
        job = self.state.table.jobs[slot]
        return job.hints if job is not None else None

    def _asked(self, slot: int, pool: int) -> int:
        return asked_milli(self.state.table.demands[slot], self.state.cluster.spec.pools[pool])

    def has_quota(self, slot: int, pool: int) -> bool:
        """Whether the job in ``slot`` may use the pool by the quota of its tenant and of all above it."""
        lane, use = self.state.table.queue_lanes[slot], self.layer.use
        return use is None or lane is None or use.bound(lane.tenant, pool, self._asked(slot, pool)) < 0

    def late(self, slot: int, lane: QueueLane, plans: Sequence[Reservation]) -> tuple[int, float]:
        """One bit for each plan that it would run beyond if it started now, and when it must leave for the others."""
        state, table, now = self.state, self.state.table, self._now
        assumed, job = table.assumed[slot], table.jobs[slot]
        late, leave_s, bit = 0, math.inf, 1
        for plan in plans:
            other = table.queue_lanes[plan.slot]
            if plan.slot != slot and other is not None and other.rank <= lane.rank:
                if not (plan.guaranteed or plan.locked):
                    if now + assumed.within_s > plan.start_s:
                        late |= bit
                elif now + assumed.limit_s > plan.start_s:
                    hints = job.hints if job is not None and job.preemptible else None
                    if (
                        not plan.guaranteed
                        or job is None
                        or hints is None
                        or hints.confidence < state.policy.confidence
                        or now + max(assumed.within_s, job.min_run_s) > plan.start_s
                    ):
                        late |= bit
                    else:
                        leave_s = min(leave_s, plan.start_s)
            bit <<= 1
        return late, leave_s

    def start(self, slot: int, found: Found, reason: str = "") -> None:
        """Start the job in ``slot`` as found."""
        state, layer, table = self.state, self.layer, self.state.table
        pool, shares, late, leave_s = found
        lane, plans = table.queue_lanes[slot], state.reservations.get(pool, ())
        beside = {id(plan) for i, plan in enumerate(plans) if late >> i & 1}
        self._tx.start(slot, pool, shares, self._now, reason or self._reason(found))
        if leave_s < math.inf:
            self._tx.must_leave(slot, leave_s)
        plans = state.reservations.get(pool, ())
        if plans:
            if beside:
                less = state.cluster.pools[pool].less
                kept = tuple(
                    replace(plan, spare=less(plan.spare, shares)) if id(plan) in beside else plan for plan in plans
                )
                state.reservations = {**state.reservations, pool: kept}
            nodes, assumed = {share[0] for share in shares}, table.assumed[slot]
            for plan in plans:
                stays_s = assumed.limit_s if plan.guaranteed else assumed.within_s
                if lane is not None and _rank(state, plan) > lane.rank and self._now + stays_s > plan.start_s:
                    layer.take_from(plan, nodes)
        self._later = None
        self._views = {key: view for key, view in self._views.items() if key[0] != pool}

    def _reason(self, found: Found) -> str:
        if found.leave_s < math.inf:
            return ON_HINT.format(found.leave_s)
        if found.late:
            return BESIDE
        return IN_TIME if self.state.reservations.get(found.pool) else NOTHING_RESERVED

    def is_allowed(self, tenant: int, pool: int, demand: Demand, late: int) -> bool:
        """Whether quota lets a job without a plan start that runs beyond the plans ``late`` (bits)."""
        if self.layer.use is None:
            return True
        if self._later is None:
            self._later = reserved_use(self.state, self.layer)
        milli = asked_milli(demand, self.state.cluster.spec.pools[pool])
        return self.layer.use.bound(tenant, pool, milli) < 0 and (
            not late or self._later.bound(tenant, pool, milli) < 0
        )

    def fits(self, pool: int, demand: Demand, late: int) -> bool:
        """Whether a demand has a placement on a pool now that takes nothing from the plans ``late`` (bits)."""
        index, verdicts = self.state.cluster.pools[pool], self.layer.verdicts[pool]
        if verdicts.is_no(index, demand, ()):
            return False
        plans = self.state.reservations.get(pool, ())
        beside = tuple(plan.spare for i, plan in enumerate(plans) if late >> i & 1)
        if late and verdicts.is_no(index, demand, beside):
            return False
        if self.state.place(self._view(pool, late, beside), demand) is not None:
            return True
        verdicts.note_no(demand, beside)
        return False

    def _view(self, pool: int, late: int, beside: tuple[Spare, ...]) -> View:
        if not late:
            return self.state.cluster.pools[pool]
        view = self._views.get((pool, late))
        if view is None:
            view = self._views[pool, late] = self.state.cluster.pools[pool].restricted(beside)
        return view

    def _reserved_use(self, slot: int) -> TenantUse:
        """The tenants' use with all reserved jobs but this one counted as if they ran."""
        state = self.state
        if self._later is None:
            self._later = reserved_use(state, self.layer)
        if slot not in self.layer.queue.reserved:
            return self._later
        own = self._later.copy()
        for plans in state.reservations.values():
            if any(plan.slot == slot for plan in plans):
                lane = state.table.queue_lanes[slot]
                own.charge(lane.tenant if lane else 0, plans[0].pool, -self._asked(slot, plans[0].pool))
        return own


def reserved_use(state: State, layer: QueueLayer) -> TenantUse:
    """The tenants' use with all reserved jobs counted as if they ran."""
    use = (layer.use or TenantUse(layer.tree)).copy()
    table = state.table
    for pool, plans in state.reservations.items():
        for slot in {plan.slot for plan in plans}:
            lane = table.queue_lanes[slot]
            milli = asked_milli(table.demands[slot], state.cluster.spec.pools[pool])
            use.charge(lane.tenant if lane is not None else 0, pool, milli)
    return use


def _rank(state: State, plan: Reservation) -> float:
    lane = state.table.queue_lanes[plan.slot]
    return math.inf if lane is None else lane.rank
