"""Jobs that wait, in order. Nothing is searched: heads are at hand, and removal is a mark left for later.

An entry is ``(key, sequence, slot)``; it lives while ``live[slot]`` is that very tuple. A *lane* holds the jobs
that accept the same pools, because only those wait for each other.
"""

from __future__ import annotations

from bisect import bisect_left

from schedmate.scheduler.demand import Demand

Entry = tuple[float, int, int]
_COMPACT_AFTER = 256


class OrderedEntries:
    """Entries in order, with lazy removal. ``live`` is shared with everyone who holds the same slots."""

    __slots__ = ("_head", "_items", "_live")

    def __init__(self, live: list[Entry | None]) -> None:
        self._items: list[Entry] = []
        self._head = 0
        self._live = live

    def add(self, entry: Entry) -> None:
        """Insert a live entry; putting back one whose removal is still a mark changes nothing."""
        items = self._items
        if len(items) == self._head or entry > items[-1]:
            items.append(entry)
            return
        at = bisect_left(items, entry, self._head)
        if items[at] is not entry:
            items.insert(at, entry)

    def first(self) -> Entry | None:
        """The first live entry."""
        items, live, head = self._items, self._live, self._head
        end = len(items)
        while head < end:
            entry = items[head]
            if live[entry[2]] is entry:
                if head > _COMPACT_AFTER and head * 2 > end:
                    del items[:head]
                    head = 0
                self._head = head
                return entry
            head += 1
        items.clear()
        self._head = 0
        return None

    def alive(self) -> list[Entry]:
        """All live entries in order; forgets the removed ones."""
        live = self._live
        self._items = [entry for entry in self._items[self._head :] if live[entry[2]] is entry]
        self._head = 0
        return self._items


class SizeClass(OrderedEntries):
    """The waiting jobs of one lane and one demand: for them "does it fit" has one answer.

    ``shortest_s`` is at most the smallest runtime within which one of the live entries is taken to end.
    """

    __slots__ = ("shortest_s",)

    def __init__(self, live: list[Entry | None]) -> None:
        super().__init__(live)
        self.shortest_s = float("inf")


class Lane:
    """The waiting jobs that accept exactly ``pools``, in order; by demand too where ``by_size`` is not None."""

    __slots__ = ("by_size", "order", "pool_bits", "pools")

    def __init__(self, pools: tuple[int, ...], live: list[Entry | None], sized: bool) -> None:
        self.pools = pools
        self.pool_bits = sum(1 << pool for pool in pools)
        self.order = OrderedEntries(live)
        self.by_size: dict[Demand, SizeClass] | None = {} if sized else None


class PendingQueue:
    """All lanes. ``sized`` keeps the jobs of each lane by demand as well, which backfilling needs."""

    __slots__ = ("_by_pools", "_live", "_sized", "lanes")

    def __init__(self, live: list[Entry | None], sized: bool) -> None:
        self._live = live
        self._sized = sized
        self._by_pools: dict[tuple[int, ...], Lane] = {}
        self.lanes: list[Lane] = []

    def lane(self, pools: tuple[int, ...]) -> Lane:
        """The lane of jobs that accept ``pools``; made on first use."""
        lane = self._by_pools.get(pools)
        if lane is None:
            lane = self._by_pools[pools] = Lane(pools, self._live, self._sized)
            self.lanes.append(lane)
        return lane

    def add(self, lane: Lane, entry: Entry, demand: Demand, within_s: float) -> None:
        """Queue a live entry."""
        lane.order.add(entry)
        if lane.by_size is not None:
            sized = lane.by_size.get(demand)
            if sized is None:
                sized = lane.by_size[demand] = SizeClass(self._live)
            sized.add(entry)
            if within_s < sized.shortest_s:
                sized.shortest_s = within_s

    def slots(self) -> list[int]:
        """The waiting slots in order, over all lanes."""
        return [entry[2] for entry in sorted(entry for lane in self.lanes for entry in lane.order.alive())]
