"""The waiting jobs of the full queue layer: by tenant, class and pools in order, and by demand.

A *lane* holds the jobs of one tenant and one priority class that accept the same pools, in order. A *group* holds those
of one demand on one set of pools: whether something of that size fits is one question for all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.bounds import Bounds, PlanBound
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pending import Entry, OrderedEntries
from schedmate.scheduler.types import Reservation


class Settled(NamedTuple):
    """What a verdict about a pool rests on: the clock of its `Verdicts`, its plans, what quota leaves to tenants, and
    how often something was undone: plans leave more then than they did."""

    clock: int
    plans: tuple[Reservation, ...]
    rooms: NDArray[np.int64]
    undone: int


class Seen(NamedTuple):
    """What a verdict about one waiting job and a pool rests on: as `Settled`, but for its own tenant only; the ``room``
    is -1 where its queue is barred."""

    clock: int
    plans: tuple[Reservation, ...]
    room: int
    undone: int


#: An entry that nobody has.
_NOBODY: Entry = (0.0, -1, -1)


class Group(NamedTuple):
    """All waiting jobs of one demand on one set of pools."""

    number: int
    demand: Demand


class Looked(NamedTuple):
    """The state of a pool in which none of those that waited for it could start: see `Settled`; and of each plan its
    `PlanBound`, and what quota leaves when it begins, shape (plans, tenants)."""

    settled: Settled
    bounds: tuple[PlanBound, ...]
    then: NDArray[np.int64]


class Asks(NamedTuple):
    """By number of a group, what it asks of one pool: the free GPUs below which no node is of use to it, and what it
    counts in milli-GPU; shape (groups,). Of those alone that somebody has wanted to know."""

    needs: NDArray[np.int64]
    milli: NDArray[np.int64]


class QueueLane:
    """The waiting jobs of one tenant and class that accept exactly ``pools``, in order.

    ``rank`` orders classes, the smaller first; -inf for those that have waited too long, +-0 if classes mix by age.
    ``shift_s`` is taken off the order of its jobs. ``latest``: the largest ``since`` of any that was in it.
    ``looked_at``: an entry that was found not to start, and by pool what that rests on. ``heads``: some of the first
    entries, and of these the slots that differ in their demand.
    """

    __slots__ = ("heads", "latest", "looked_at", "number", "order", "pool_bits", "pools", "rank", "shift_s", "tenant")

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
        self.looked_at: tuple[Entry, dict[int, Seen]] = _NOBODY, {}
        self.heads: tuple[tuple[Entry, ...], tuple[int, ...]] = (), ()
        self.order = OrderedEntries(live)


class ClassQueue:
    """All lanes and groups, and the jobs that have a reservation, which are in no lane. ``alike``: the lanes by rank
    and pools. By pool: ``bounds`` of the jobs that accept it, and how it was when they were last ``looked`` at;
    ``asks`` of the groups."""

    __slots__ = ("_by_key", "_groups", "_live", "alike", "asks", "bounds", "groups", "lanes", "looked", "reserved")

    def __init__(self, live: list[Entry | None], pools: int) -> None:
        self._live = live
        self._by_key: dict[tuple[int, float, float, tuple[int, ...]], QueueLane] = {}
        self.lanes: list[QueueLane] = []
        self.alike: dict[tuple[float, tuple[int, ...]], list[QueueLane]] = {}
        self._groups: dict[tuple[tuple[int, ...], Demand], Group] = {}
        self.groups: list[Group] = []
        self.bounds = [Bounds(live) for _ in range(pools)]
        self.asks = [Asks(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)) for _ in range(pools)]
        self.looked: list[Looked | None] = [None] * pools
        self.reserved: set[int] = set()

    def lane(self, tenant: int, rank: float, shift_s: float, pools: tuple[int, ...]) -> QueueLane:
        """The lane of that tenant, class and pools; made on first use."""
        key = (tenant, rank, shift_s, pools)
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = QueueLane(len(self.lanes), tenant, rank, shift_s, pools, self._live)
            self.lanes.append(lane)
            self.alike.setdefault((rank, pools), []).append(lane)
        return lane

    def add(self, lane: QueueLane, entry: Entry, demand: Demand) -> None:
        """Queue a live entry."""
        lane.order.add(entry)
        group = self._groups.get((lane.pools, demand))
        if group is None:
            group = self._groups[lane.pools, demand] = Group(len(self.groups), demand)
            self.groups.append(group)
        for pool in lane.pools:
            self.bounds[pool].add(entry, group.number)

    def slots(self) -> list[int]:
        """The waiting slots without a reservation, by class and order."""
        entries = [(lane.rank, entry) for lane in self.lanes for entry in lane.order.alive()]
        return [entry[2] for _, entry in sorted(entries)]
