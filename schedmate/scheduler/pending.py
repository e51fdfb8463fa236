"""Jobs that wait, in order. Nothing is searched: heads are at hand, and removal is a mark left for later.

An entry is ``(key, sequence, slot)``; it lives while ``live[slot]`` is that very tuple. A *lane* holds the jobs
that accept the same pools, because only those wait for each other.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice

from schedmate.scheduler.assumptions import Assumed
from schedmate.scheduler.columns import MOST_RESERVATIONS, Columns
from schedmate.scheduler.demand import Demand

Entry = tuple[float, int, int]
_COMPACT_AFTER = 256

_WITHIN = Assumed._fields.index("within_s")

#: From so many jobs of one kind on they are compared by columns; fewer are walked through.
_MANY = 64


class OrderedEntries:
    """Entries in order, with lazy removal. ``live`` is shared with everyone who holds the same slots."""

    __slots__ = ("_few", "_head", "_items", "_live")

    def __init__(self, live: list[Entry | None]) -> None:
        self._items: list[Entry] = []
        self._few: tuple[int, tuple[Entry, ...]] | None = None
        self._head = 0
        self._live = live

    def add(self, entry: Entry) -> None:
        """Insert a live entry; putting back one whose removal is still a mark changes nothing."""
        items = self._items
        self._few = None
        if len(items) == self._head or entry > items[-1]:
            items.append(entry)
            return
        at = bisect_left(items, entry, self._head)
        while at < len(items) and items[at] == entry:  # a removed one may be equal
            if items[at] is entry:
                return
            at += 1
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

    @property
    def most(self) -> int:
        """How many live entries there are at most: some may be removed ones."""
        return len(self._items) - self._head

    def in_order(self) -> Iterator[Entry]:
        """The live entries, by and by; nothing is to be added meanwhile."""
        live = self._live
        return (entry for entry in islice(self._items, self._head, None) if live[entry[2]] is entry)

    def few(self, most: int) -> tuple[Entry, ...]:
        """The first live entries, so many at most; the same object while they are the same."""
        live, known = self._live, self._few
        if known is None or known[0] != most or not all(live[entry[2]] is entry for entry in known[1]):
            known = self._few = most, tuple(islice(self.in_order(), most))
        return known[1]

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

    __slots__ = ("_columns", "shortest_s")

    def __init__(self, live: list[Entry | None]) -> None:
        super().__init__(live)
        self.shortest_s = math.inf
        self._columns: Columns | None = None

    def add_assuming(self, entry: Entry, assumed: Assumed) -> None:
        """Insert a live entry of which so much is assumed."""
        self.add(entry)
        if self._columns is not None:
            self._columns.add(entry, assumed)
            if len(self._columns) > 2 * len(self._items) + _MANY:
                self._columns = None  # mostly jobs that are gone; made anew when it is wanted
        if assumed.within_s < self.shortest_s:
            self.shortest_s = assumed.within_s

    def first_admitted(
        self,
        assumed: Sequence[Assumed],
        starts_s: Sequence[tuple[int, float]],
        now: float,
        admitted: Callable[[int], bool],
    ) -> tuple[Entry, int] | None:
        """The first live entry that is ``admitted`` beside the reservations beyond which it runs; and these, as bits.

        ``assumed`` is indexed by slot; ``starts_s`` says for each reservation which field counts against it, and its
        start. Refusal beside some reservations means refusal beside these and more.
        """
        columns = self._columns
        if columns is None or len(starts_s) > MOST_RESERVATIONS:
            waiting = self.alive()
            if len(waiting) < _MANY or len(starts_s) > MOST_RESERVATIONS:
                return self._walk(waiting, assumed, starts_s, now, admitted)
            rows = [assumed[entry[2]] for entry in waiting]
            columns = self._columns = Columns(waiting, rows, len(Assumed._fields), self._live)
        found = columns.first(starts_s, now, admitted)
        if found is None:
            self.shortest_s = columns.least(_WITHIN)
        return found

    def _walk(
        self,
        waiting: list[Entry],
        assumed: Sequence[Assumed],
        starts_s: Sequence[tuple[int, float]],
        now: float,
        admitted: Callable[[int], bool],
    ) -> tuple[Entry, int] | None:
        shortest_s, refused = math.inf, set[int]()
        for entry in waiting:
            own, late = assumed[entry[2]], 0
            for bit, (field, start_s) in enumerate(starts_s):
                if now + own[field] > start_s:
                    late |= 1 << bit
            if late not in refused:
                if admitted(late):
                    return entry, late
                refused.add(late)
            if own.within_s < shortest_s:
                shortest_s = own.within_s
        self.shortest_s = shortest_s
        return None


class Lane:
    """The waiting jobs that accept exactly ``pools``, in order; by demand too where ``by_size`` is not None, there in
    the order in which they pass a blocked one."""

    __slots__ = ("by_size", "order", "pool_bits", "pools")

    def __init__(self, pools: tuple[int, ...], live: list[Entry | None], sized: bool) -> None:
        self.pools = pools
        self.pool_bits = sum(1 << pool for pool in pools)
        self.order = OrderedEntries(live)
        self.by_size: dict[Demand, SizeClass] | None = {} if sized else None

    def forget(self) -> None:
        """Forget the entries of those who wait elsewhere or no more."""
        for entries in (self.order, *(self.by_size or {}).values()):
            entries.alive()


class Backlog:
    """What the waiting jobs are expected to take, in GPU milliseconds: whole ones, so that it does not matter in which
    order they came and went."""

    __slots__ = ("_of", "total_ms")

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self.total_ms = 0

    def add(self, slot: int, gpu_s: float) -> None:
        """The job in ``slot`` waits; in place of what was said of it before."""
        self.drop(slot)
        self._of[slot] = ms = round(gpu_s * 1000)
        self.total_ms += ms

    def drop(self, slot: int) -> None:
        """It does not wait any more."""
        self.total_ms -= self._of.pop(slot, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backlog) and self._of == other._of and self.total_ms == other.total_ms

    __hash__ = None  # type: ignore[assignment]


class PendingQueue:
    """All lanes. ``sized`` keeps the jobs of each lane by demand as well, which backfilling needs, by their entries in
    ``passing``; ``patient`` what policies with `Patience` need: the ``backlog``, and who has waited long enough."""

    __slots__ = ("_by_pools", "_live", "_oldest", "_passing", "_ripe", "_sized", "_young", "backlog", "lanes")

    def __init__(
        self,
        live: list[Entry | None],
        sized: bool,
        patient: bool = False,
        passing: list[Entry | None] | None = None,
    ) -> None:
        self._live = live
        self._passing = live if passing is None else passing
        self._sized = sized
        self._by_pools: dict[tuple[int, ...], Lane] = {}
        self._young: list[tuple[float, Entry]] = []
        self._ripe = OrderedEntries(live)
        self._oldest: list[tuple[float, Entry]] = []
        self.backlog = Backlog() if patient else None
        self.lanes: list[Lane] = []

    def lane(self, pools: tuple[int, ...]) -> Lane:
        """The lane of jobs that accept ``pools``; made on first use."""
        lane = self._by_pools.get(pools)
        if lane is None:
            lane = self._by_pools[pools] = Lane(pools, self._live, self._sized)
            self.lanes.append(lane)
        return lane

    def add(self, lane: Lane, entry: Entry, demand: Demand, assumed: Assumed, passing: Entry) -> None:
        """Queue a live entry of which so much is assumed; ``passing`` says where it stands among those who pass."""
        lane.order.add(entry)
        if lane.by_size is not None:
            sized = lane.by_size.get(demand)
            if sized is None:
                sized = lane.by_size[demand] = SizeClass(self._passing)
            sized.add_assuming(passing, assumed)

    def ripens(self, entry: Entry, at_s: float) -> None:
        """A live entry is among the `ripe` from a time on."""
        heappush(self._young, (at_s, entry))

    def ripe(self, now: float) -> list[Entry]:
        """The waiting jobs that were ripe at a time up to the latest one asked about, in order."""
        young, live = self._young, self._live
        while young and young[0][0] <= now:
            ripe = heappop(young)
            if live[ripe[1][2]] is ripe[1]:
                self._ripe.add(ripe[1])
                heappush(self._oldest, ripe)
        return self._ripe.alive()

    def oldest(self, but: Collection[int]) -> Entry | None:
        """Of those that `ripe` returned, who has been ripe for longest; the slots ``but`` are not asked about again."""
        oldest, live = self._oldest, self._live
        while oldest and (live[oldest[0][1][2]] is not oldest[0][1] or oldest[0][1][2] in but):
            heappop(oldest)
        return oldest[0][1] if oldest else None

    def slots(self) -> list[int]:
        """The waiting slots in order, over all lanes."""
        return [entry[2] for entry in sorted(entry for lane in self.lanes for entry in lane.order.alive())]
