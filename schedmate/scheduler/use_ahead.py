"""What the tenants will use of one pool when running jobs have left and reserved ones have started."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from schedmate.scheduler.cluster_types import PoolSpec
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.state import JobTable
from schedmate.scheduler.tenants import ROOT, TenantUse
from schedmate.scheduler.transaction import asked_milli, milli_of
from schedmate.scheduler.types import Reservation


class UseAhead:
    """One pool along ``ends``, one kind of end of everything that runs on it, as of ``now``."""

    __slots__ = ("_now", "_number", "_order", "_pool", "_table", "_tried", "_uses")

    def __init__(
        self, use: TenantUse, number: int, pool: PoolSpec, ends: ExpectedEnds, table: JobTable, now: float
    ) -> None:
        self._number, self._pool, self._order, self._table, self._now = number, pool, ends.order, table, now
        self._tried: list[int] = [0]
        self._uses = {0: use}

    def at(self, at_s: float, others: Sequence[Reservation]) -> TenantUse:
        """By what runs then and by the others that do."""
        then = self._running(bisect_right(self._order, (at_s, math.inf))).copy()
        for other in others:
            if other.start_s <= at_s < other.end_s:
                self.charge(then, other, 1)
        return then

    def charge(self, use: TenantUse, plan: Reservation, sign: int) -> None:
        """Count a reserved job, or no more."""
        lane, demand = self._table.queue_lanes[plan.slot], self._table.demands[plan.slot]
        tenant = ROOT if lane is None else lane.tenant
        use.charge(tenant, self._number, sign * asked_milli(demand, self._pool))

    def kept(self, plan: Reservation, gone: Sequence[Reservation], new: Sequence[Reservation]) -> Reservation:
        """A plan with the use at its start when others are ``gone`` and some are ``new``."""
        changes = [(other, -1) for other in gone if other.start_s <= plan.start_s < other.end_s]
        changes += [(other, 1) for other in new if other.start_s <= plan.start_s < other.end_s]
        if not changes or plan.use is None:
            return plan
        use = plan.use.copy()
        for other, sign in changes:
            self.charge(use, other, sign)
        return replace(plan, use=use)

    def _running(self, releases: int) -> TenantUse:
        """By what runs when the first so many have left; not to be changed."""
        found = self._uses.get(releases)
        if found is None:
            base = self._tried[bisect_right(self._tried, releases) - 1]
            found, table, now = self._uses[base].copy(), self._table, self._now
            gone = dict[int, int]()  # by tenant: charging them one by one would come to the same
            lanes, starts_s, demands, shares = table.queue_lanes, table.starts_s, table.demands, table.shares
            for end_s, slot in self._order[base:releases]:
                # One that has outlived this end without ending says nothing about when it will.
                if end_s > now or starts_s[slot] >= now:
                    lane, demand = lanes[slot], demands[slot]
                    milli = demand.gpu_milli if demand.whole else milli_of(demand, shares[slot] or ())
                    tenant = ROOT if lane is None else lane.tenant
                    gone[tenant] = gone.get(tenant, 0) + milli
            for tenant, milli in gone.items():
                found.charge(tenant, self._number, -milli)
            self._uses[releases] = found
            self._tried.insert(bisect_right(self._tried, releases), releases)
        return found
