"""Looks for plans: the first start in time of a waiting job that takes nothing from the plans of others."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from schedmate.scheduler.ahead import Ahead, Window, earliest
from schedmate.scheduler.claims import SHORTEST_SPAN_S
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.promises import binds, rank
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.timeline import Timeline
from schedmate.scheduler.transaction import asked_milli
from schedmate.scheduler.types import Reservation
from schedmate.scheduler.use_ahead import UseAhead

#: So many plans on one pool are better looked at as a table.
MANY_PLANS = 8


class PlanSearch:
    """Looks for plans of one kind on one pool."""

    def __init__(
        self, state: State, layer: QueueLayer, pool: int, ends: ExpectedEnds, guaranteed: bool, now: float
    ) -> None:
        self._state, self._layer, self._pool, self._ends = state, layer, pool, ends
        self.guaranteed, self._now = guaranteed, now
        self._spec = state.cluster.spec.pools[pool]
        self.ahead = Ahead(state.cluster.pools[pool], ends, state.table, now)
        use = layer.use
        self.uses = None if use is None else UseAhead(use, pool, self._spec, ends, state.table, now)
        self._timeline: Timeline | None = None

    def plan_of(self, slot: int, from_s: float, before_s: float) -> Reservation | None:
        """A plan for a job that has none yet."""
        plans, kind = self._state.reservations.get(self._pool, ()), self.guaranteed
        others = [each for each in plans if each.guaranteed == kind and binds(self._state, each, slot)]
        if kind:
            others += to_be_locked(self._state, plans, slot)
        return self.plan(slot, others, from_s, before_s)

    def plan(self, slot: int, others: list[Reservation], from_s: float, before_s: float) -> Reservation | None:
        """The first start in time that takes nothing from the others: neither GPUs nor quota."""
        table, assumed = self._state.table, self._state.table.assumed[slot]
        span_s = max(SHORTEST_SPAN_S, assumed.limit_s if self.guaranteed else assumed.span_s)
        from_s = max(from_s, self._now)
        while from_s < before_s:
            window = Window(from_s, before_s, span_s)
            found = self._first(table.demands[slot], others, window)
            if found is None:
                return None
            start_s, shares = found
            if self._has_quota(slot, others, start_s, start_s + span_s):
                is_tentative = slot in self._layer.tentative
                return Reservation(
                    slot, self._pool, start_s, shares, {}, self.guaranteed, start_s + span_s, tentative=is_tentative
                )
            from_s = self._quota_from(slot, others, start_s, span_s)
        return None

    def _first(self, demand: Demand, others: list[Reservation], window: Window) -> tuple[float, Shares] | None:
        """Where all have plans and there are many, by table; else by looking ahead."""
        state, index = self._state, self._state.cluster.pools[self._pool]
        if len(others) < MANY_PLANS or not state.policy.starts_by_plan or not isinstance(index, FreeIndex):
            return earliest(self.ahead, state.place, demand, others, window)
        if self._timeline is None:
            starts_s, now, running = state.table.starts_s, self._now, state.table.shares
            releases = [
                (end_s, running[slot] or ())
                for end_s, slot in self._ends.order
                if end_s < math.inf and not starts_s[slot] < now >= end_s
            ]
            self._timeline = Timeline(index, releases, others, now)
        self._timeline.follow(others)
        return self._timeline.earliest(demand, *window)

    def _has_quota(self, slot: int, others: list[Reservation], start_s: float, end_s: float) -> bool:
        """Whether quota suffices at the start and when any of the others starts later."""
        lane, demand, spec = self._state.table.queue_lanes[slot], self._state.table.demands[slot], self._spec
        if self.uses is None or lane is None:
            return True
        times_s = {start_s, *(other.start_s for other in others if start_s < other.start_s < end_s)}
        tenant, milli = lane.tenant, asked_milli(demand, spec)
        return all(self.uses.at(at_s, others).bound(tenant, self._pool, milli) < 0 for at_s in times_s)

    def gives_way(self, other: Reservation, new: Reservation, plans: list[Reservation]) -> bool:
        """Whether a plan that does not bind the job of a new one lacks what that takes, nodes or quota, all ``plans``
        being kept."""
        apart = other.start_s >= new.end_s or new.start_s >= other.end_s
        if other.slot == new.slot or apart or binds(self._state, other, new.slot):
            return False
        if self.uses is None or meet(other, new):
            return meet(other, new)
        return self.uses.at(max(other.start_s, new.start_s), plans).is_exceeded(self._pool)

    def _quota_from(self, slot: int, others: list[Reservation], after_s: float, span_s: float) -> float:
        """The next time after one without quota at which there is some; infinite if there never is. Between two turns
        of the others quota only grows, so that it is looked for by bisection."""
        order = self._ends.order
        turns = {t for o in others for t in (o.start_s, o.start_s - span_s, o.end_s) if after_s < t < math.inf}
        for until_s in (*sorted(turns), math.inf):
            low = bisect_right(order, (after_s, math.inf))
            end = bisect_left(order, (until_s, -1))
            if low < end and self._has_quota(slot, others, order[end - 1][0], order[end - 1][0] + span_s):
                at = bisect_left(
                    range(low, end),
                    True,
                    key=lambda i: self._has_quota(slot, others, order[i][0], order[i][0] + span_s),
                )
                return order[low + at][0]
            if until_s < math.inf and self._has_quota(slot, others, until_s, until_s + span_s):
                return until_s
            after_s = until_s
        return math.inf


def meet(one: Reservation, other: Reservation) -> bool:
    """Whether two plans share a node."""
    nodes = {share[0] for share in one.shares}
    return any(share[0] in nodes for share in other.shares)


def starving_unsure(state: State, plans: Sequence[Reservation]) -> set[int]:
    """Jobs that have waited too long and have an expected plan only."""
    sure = {each.slot for each in plans if each.guaranteed}
    return {each.slot for each in plans if each.slot not in sure and rank(state, each.slot) == -math.inf}


def to_be_locked(state: State, plans: Sequence[Reservation], slot: int) -> list[Reservation]:
    """Plans of those who got a reservation before the job in ``slot``, have waited too long, and may stay for ever:
    nothing is guaranteed to it that they would have to wait for."""
    layer = state.layer
    unsure = starving_unsure(state, plans) if layer is not None else set()
    if layer is None or not unsure:
        return []
    reserved = layer.reserved
    before = set(reserved[: reserved.index(slot)] if slot in reserved else reserved)
    return [replace(each, end_s=math.inf) for each in plans if each.slot in unsure & before and each.slot != slot]
