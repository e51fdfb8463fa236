"""The waiting jobs of the full queue layer: by tenant, class and pools in order, and within that by demand.

A *lane* holds the jobs of one tenant and one priority class that accept the same pools, in order. A *job class* holds
those of a lane with one demand and about the same time limit, and a *group* all classes of one demand on one set
of pools: whether something of that size fits is one question for all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.bounds import Bounds
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pending import Entry, OrderedEntries
from schedmate.scheduler.policies import Assumed
from schedmate.scheduler.types import Reservation


class Settled(NamedTuple):
    """What a verdict about a pool rests on: the clock of its `Verdicts`, its plans, what quota leaves to tenants."""

    clock: int
    plans: tuple[Reservation, ...]
    rooms: NDArray[np.int64]


class JobClass(OrderedEntries):
    """Waiting jobs of one lane, demand and magnitude of time. ``shortest_s`` is at most the smallest ``within_s``."""

    __slots__ = ("group", "lane", "shortest_s")

    def __init__(self, live: list[Entry | None], lane: QueueLane, group: Group) -> None:
        super().__init__(live)
        self.lane = lane
        self.group = group
        self.shortest_s = math.inf


class Group:
    """All classes of one demand on one set of pools; ``bounds`` are those of all their jobs.

    ``settled``: by pool, the state of things (see `actions.fill`) in which nothing of it could start.
    """

    __slots__ = ("bounds", "classes", "demand", "pool_bits", "pools", "settled")

    def __init__(self, pools: tuple[int, ...], demand: Demand, live: list[Entry | None]) -> None:
        self.pools = pools
        self.pool_bits = sum(1 << pool for pool in pools)
        self.demand = demand
        self.classes: list[JobClass] = []
        self.bounds: Bounds[JobClass] = Bounds(live)
        self.settled: dict[int, Settled] = {}


class QueueLane:
    """The waiting jobs of one tenant and class that accept exactly ``pools``, in order.

    ``rank`` orders classes, the smaller first; -inf for those that have waited too long, +-0 if classes mix by age.
    ``shift_s`` is taken off the order of its jobs. ``latest``: the largest ``since`` of any that was in it.
    """

    __slots__ = ("_by_demand", "latest", "number", "order", "pool_bits", "pools", "rank", "shift_s", "tenant")

    def __init__(
        self, number: int, tenant: int, rank: float, shift_s: float, pools: tuple[int, ...], live: list[Entry | None]
    ) -> None:
        self.number = number
        self.tenant = tenant
        self.rank = rank
        self.shift_s = shift_s
        self.pools = pools
        self.pool_bits = sum(1 << pool for pool in pools)
        self.latest = -1
        self.order = OrderedEntries(live)
        self._by_demand: dict[tuple[Demand, int], JobClass] = {}

    def job_class(self, demand: Demand, magnitude: int) -> JobClass | None:
        """The class of a demand, None if nothing of it has ever waited here."""
        return self._by_demand.get((demand, magnitude))

    def add_class(self, demand: Demand, magnitude: int, added: JobClass) -> None:
        """A new class."""
        self._by_demand[demand, magnitude] = added


class ClassQueue:
    """All lanes and groups, and the jobs that have a reservation, which are in no lane."""

    __slots__ = ("_by_key", "_live", "groups", "groups_in_order", "lanes", "reserved")

    def __init__(self, live: list[Entry | None]) -> None:
        self._live = live
        self._by_key: dict[tuple[int, float, float, tuple[int, ...]], QueueLane] = {}
        self.lanes: list[QueueLane] = []
        self.groups: dict[tuple[tuple[int, ...], Demand], Group] = {}
        self.groups_in_order: list[Group] = []
        self.reserved: set[int] = set()

    def lane(self, tenant: int, rank: float, shift_s: float, pools: tuple[int, ...]) -> QueueLane:
        """The lane of that tenant, class and pools; made on first use."""
        key = (tenant, rank, shift_s, pools)
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = QueueLane(len(self.lanes), tenant, rank, shift_s, pools, self._live)
            self.lanes.append(lane)
        return lane

    def add(self, lane: QueueLane, entry: Entry, demand: Demand, assumed: Assumed) -> None:
        """Queue a live entry."""
        lane.order.add(entry)
        within_s = assumed.within_s
        bound_s = assumed.limit_s if assumed.limit_s < math.inf else within_s
        magnitude = int(bound_s).bit_length() if bound_s < math.inf else -1
        found = lane.job_class(demand, magnitude)
        if found is None:
            group = self.groups.get((lane.pools, demand))
            if group is None:
                group = self.groups[lane.pools, demand] = Group(lane.pools, demand, self._live)
                self.groups_in_order.append(group)
            found = JobClass(self._live, lane, group)
            lane.add_class(demand, magnitude, found)
            group.classes.append(found)
        found.add(entry)
        found.group.bounds.add(entry, found)
        if within_s < found.shortest_s:
            found.shortest_s = within_s

    def slots(self) -> list[int]:
        """The waiting slots without a reservation, by class and order."""
        entries = [(lane.rank, entry) for lane in self.lanes for entry in lane.order.alive()]
        return [entry[2] for _, entry in sorted(entries)]
