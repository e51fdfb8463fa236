"""The waiting jobs of the full queue layer: by tenant, class and pools in order, and by demand.

A *lane* holds the jobs of one tenant and one priority class that accept the same pools, in order. A *group* holds those
of one demand on one set of pools: whether something of that size fits is one question for all of them.
"""

from __future__ import annotations

from heapq import heappop, heappush
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
    `PlanBound`, and what quota leaves when it begins, shape (tenants,)."""

    settled: Settled
    bounds: tuple[PlanBound, ...]
    then: tuple[NDArray[np.int64], ...]


class Asks:
    """By number of a group, what it asks of one pool: the free GPUs below which no node is of use to it, those that it
    takes in all at least, and what it counts in milli-GPU. Of those alone that somebody has wanted to know."""

    __slots__ = ("_columns", "gpus", "milli", "needs")

    def __init__(self) -> None:
        self.needs: list[int] = []
        self.gpus: list[int] = []
        self.milli: list[int] = []
        self._columns: NDArray[np.int64] = np.zeros((2, 0), dtype=np.int64)

    def add(self, need: int, gpus: int, milli: int) -> None:
        """What the next group asks for."""
        self.needs.append(need)
        self.gpus.append(gpus)
        self.milli.append(milli)

    @property
    def columns(self) -> NDArray[np.int64]:
        """Needs and milli-GPU; shape (2, groups). Not to be changed."""
        if self._columns.shape[1] < len(self.needs):
            self._columns = np.array((self.needs, self.milli), dtype=np.int64)
        return self._columns


class QueueLane:
    """The waiting jobs of one tenant and class that accept exactly ``pools``, in order.

    ``rank`` orders classes, the smaller first; -inf for those that have waited too long, +-0 if classes mix by age.
    ``shift_s`` is taken off the order of its jobs. ``latest``: the largest ``since`` of any that was in it.
    ``looked_at``: an entry that was found not to start, and by pool what that rests on. ``heads``: some of the first
    entries, and of these the slots that differ in their demand. ``ripe`` are the jobs that have waited long enough for
    a tentative plan, ``by_age`` a heap of the same by submission; see `actions.stand_by`.
    """

    __slots__ = (
        "by_age", "heads", "latest", "looked_at", "number", "order", "pool_bits", "pools", "rank", "ripe", "shift_s",
        "tenant",
    )  # fmt: skip

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
        self.ripe = OrderedEntries(live)
        self.by_age: list[tuple[int, Entry]] = []


class ClassQueue:
    """All lanes and groups, and the jobs that have a reservation, which are in no lane. ``alike``: the lanes by rank
    and pools. By pool: ``bounds`` of the jobs that accept it, and how it was when they were last ``looked`` at;
    ``asks`` of the groups. ``young`` is a heap of (when it is ripe, entry, lane), ``ripening`` the lanes in which
    somebody was ripe."""

    __slots__ = (
        "_by_key", "_groups", "_live", "alike", "asks", "bounds", "groups", "lanes", "looked", "reserved", "ripening",
        "young",
    )  # fmt: skip

    def __init__(self, live: list[Entry | None], pools: int) -> None:
        self._live = live
        self._by_key: dict[tuple[int, float, float, tuple[int, ...]], QueueLane] = {}
        self.lanes: list[QueueLane] = []
        self.alike: dict[tuple[float, tuple[int, ...]], list[QueueLane]] = {}
        self._groups: dict[tuple[tuple[int, ...], Demand], Group] = {}
        self.groups: list[Group] = []
        self.bounds = [Bounds(live) for _ in range(pools)]
        self.asks = [Asks() for _ in range(pools)]
        self.looked: list[Looked | None] = [None] * pools
        self.reserved: set[int] = set()
        self.young: list[tuple[float, Entry, int]] = []
        self.ripening: dict[int, QueueLane] = {}

    def lane(self, tenant: int, rank: float, shift_s: float, pools: tuple[int, ...]) -> QueueLane:
        """The lane of that tenant, class and pools; made on first use."""
        key = (tenant, rank, shift_s, pools)
        lane = self._by_key.get(key)
        if lane is None:
            lane = self._by_key[key] = QueueLane(len(self.lanes), tenant, rank, shift_s, pools, self._live)
            self.lanes.append(lane)
            self.alike.setdefault((rank, pools), []).append(lane)
        return lane

    def ripens(self, lane: QueueLane, entry: Entry, at_s: float) -> None:
        """A live entry is among the ripe ones of its lane from a time on."""
        heappush(self.young, (at_s, entry, lane.number))

    def oldest(self, lane: QueueLane) -> Entry | None:
        """Of the ripe ones of a lane, who came first."""
        by_age, live = lane.by_age, self._live
        while by_age and live[by_age[0][1][2]] is not by_age[0][1]:
            heappop(by_age)
        return by_age[0][1] if by_age else None

    def add(self, lane: QueueLane, entry: Entry, demand: Demand) -> None:
        """Queue a live entry."""
        lane.order.add(entry)
        group = self._groups.get((lane.pools, demand))
        if group is None:
            group = self._groups[lane.pools, demand] = Group(len(self.groups), demand)
            self.groups.append(group)
        for pool in lane.pools:
            self.bounds[pool].add(entry, group.number)

    def ripe_lanes(self, now: float) -> list[QueueLane]:
        """Notes who has waited long enough by now; the lanes in which somebody has."""
        young, live = self.young, self._live
        while young and young[0][0] <= now:
            _, entry, number = heappop(young)
            if live[entry[2]] is entry and entry[2] not in self.reserved:
                lane = self.ripening[number] = self.lanes[number]
                lane.ripe.add(entry)
                heappush(lane.by_age, (entry[1], entry))
        found = [lane for lane in self.ripening.values() if lane.ripe.first() is not None]
        if len(found) < len(self.ripening):
            self.ripening = {lane.number: lane for lane in found}
        return found

    def slots(self) -> list[int]:
        """The waiting slots without a reservation, by class and order."""
        entries = [(lane.rank, entry) for lane in self.lanes for entry in lane.order.alive()]
        return [entry[2] for _, entry in sorted(entries)]
