"""A plain pool over time as a table: free GPUs by node between any two moments at which something changes.

For policies under which every blocked job has a plan: with hundreds of them the first gap that is long enough is found
in a few operations on whole columns. Shape of the table: (moments, nodes).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.placement import pack
from schedmate.scheduler.types import Reservation

Times = NDArray[np.float64]


class Timeline:
    """What is free from ``now`` on when the running jobs leave as ``releases`` (end, shares) say, and beside plans."""

    __slots__ = ("_capacity", "_free", "_plans", "_times_s")

    def __init__(
        self, index: FreeIndex, releases: Iterable[tuple[float, Shares]], plans: Sequence[Reservation], now: float
    ) -> None:
        self._capacity = index.capacity
        self._plans = {plan.slot: plan for plan in plans}
        changes = [(max(now, end_s), node, gpus) for end_s, shares in releases for node, gpus in shares]  # type: ignore[misc]
        for plan in plans:
            for node, gpus in plan.shares:  # type: ignore[misc]
                changes.append((max(now, plan.start_s), node, -gpus))
                if plan.end_s < math.inf:
                    changes.append((max(now, plan.end_s), node, gpus))
        self._times_s: Times = np.unique(np.array([now, *(at_s for at_s, _, _ in changes)]))
        self._free: NDArray[np.int64] = np.zeros((len(self._times_s), index.nodes), dtype=np.int64)
        if changes:
            times_s, nodes, amounts = zip(*changes, strict=True)
            np.add.at(self._free, (np.searchsorted(self._times_s, times_s), np.array(nodes)), np.array(amounts))
        self._free[0] += index.free
        self._free = self._free.cumsum(axis=0)

    def follow(self, plans: Sequence[Reservation]) -> None:
        """Have exactly these plans on the table, one a job."""
        wanted = {plan.slot: plan for plan in plans}
        for slot, plan in list(self._plans.items()):
            if wanted.get(slot) is not plan:
                self._put(plan, 1)
                del self._plans[slot]
        for slot, plan in wanted.items():
            if slot not in self._plans:
                self._put(plan, -1)
                self._plans[slot] = plan

    def earliest(self, demand: Demand, from_s: float, before_s: float, span_s: float) -> tuple[float, Shares] | None:
        """The first start in time of a plain demand that has its nodes free for as long as it stays."""
        times_s, capacity = self._times_s, self._capacity
        first = max(0, int(np.searchsorted(times_s, from_s, side="right")) - 1)
        starts_s = np.maximum(times_s[first:], from_s)
        ends_s = (starts_s + span_s)[:, None]
        if demand.gpus <= capacity:
            fits = (self._lasts_s(first, demand.gpus) >= ends_s).any(axis=1)
        else:
            whole, rest = divmod(demand.gpus, capacity)
            fits = (self._lasts_s(first, capacity) >= ends_s).sum(axis=1) >= whole
            if rest:
                fits &= (self._lasts_s(first, rest) >= ends_s).sum(axis=1) > whole
        found = np.flatnonzero(fits)
        at = int(found[0]) if len(found) else -1
        if at < 0 or starts_s[at] >= before_s:
            return None
        start_s = float(starts_s[at])
        end = int(np.searchsorted(times_s, start_s + span_s, side="left"))
        least = self._free[first + at : max(end, first + at + 1)].min(axis=0).tolist()
        view = FreeIndex(len(least), capacity)
        view.take(tuple((node, capacity - free) for node, free in enumerate(least) if free < capacity))
        shares = pack(view, demand)
        return None if shares is None else (start_s, shares)

    def _lasts_s(self, first: int, gpus: int) -> Times:
        """Until when each node keeps so many GPUs free, from every moment on: that moment where it has too few."""
        short = np.where(self._free[first:] < gpus, self._times_s[first:, None], math.inf)
        found: Times = np.minimum.accumulate(short[::-1], axis=0)[::-1]
        return found

    def _put(self, plan: Reservation, sign: int) -> None:
        since = self._moment(plan.start_s)
        until = self._moment(plan.end_s) if plan.end_s < math.inf else len(self._times_s)
        nodes = [share[0] for share in plan.shares]
        self._free[since:until, nodes] += sign * np.array([share[1] for share in plan.shares])

    def _moment(self, at_s: float) -> int:
        at = int(np.searchsorted(self._times_s, at_s))
        if at == len(self._times_s) or self._times_s[at] != at_s:
            if at == 0:
                return 0
            self._times_s = np.insert(self._times_s, at, at_s)
            self._free = np.insert(self._free, at, self._free[at - 1], axis=0)
        return at
