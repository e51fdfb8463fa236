"""Whoever ranks best runs, and whoever ranks worse makes room for it, for policies with a `Ranking`.

One walk through the waiting jobs in the order of their ranks. What fits starts. For what does not, running jobs that
rank worse are evicted, the worst first, until the gang has a placement; then those of them are spared, the best first,
without whose GPUs it has one too. What is evicted waits again by its new rank and is reached later in the same walk.
Those that can not be helped are passed by. Running jobs stay where they are unless they are evicted.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.pending import Entry, Lane, SizeClass
from schedmate.scheduler.ranking import Ranking
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction

FITS = "it fits"
IN_PLACE_OF = "it ranks before {}, which made room for it"


def rerank(state: State, tx: Transaction, now: float) -> None:
    """Leaves in ``state.blocked`` the first of every size that could not start, and in ``state.rank_s`` when a running
    job's rank gets worse."""
    ranking = state.policy.ranking
    if ranking is None:
        return
    state.evicted, state.fresh, state.blocked, state.rank_s = (), [], [], math.inf
    state.gained = state.stale = False
    if any(lane.order.first() is not None for lane in state.queue.lanes):
        _Walk(state, tx, ranking, now).through()


class _Running(NamedTuple):
    """A running job that may be evicted; these sort by rank."""

    rank: float
    sequence: int
    slot: int


class _Victims(NamedTuple):
    """Running jobs in whose place a job can start on ``shares`` of ``pool``."""

    gpus: int
    pool: int
    slots: tuple[int, ...]
    shares: Shares


class _Walk:
    def __init__(self, state: State, tx: Transaction, ranking: Ranking, now: float) -> None:
        self._state, self._tx, self._ranking, self._now = state, tx, ranking, now
        self._running: list[list[_Running]] | None = None
        self._worse_s: dict[int, float] = {}
        self._classes: list[tuple[Lane, SizeClass]] = []
        self._numbers: dict[int, int] = {}  # by identity of the class
        self._blocked: set[int] = set()

    def through(self) -> None:
        """Until every waiting job runs or is blocked."""
        state, heap = self._state, list[tuple[Entry, int]]()
        for lane in state.queue.lanes:
            for sized in (lane.by_size or {}).values():
                number = self._numbers[id(sized)] = len(self._classes)
                self._classes.append((lane, sized))
                first = sized.first()
                if first is not None:
                    heap.append((first, number))
        heapify(heap)
        while heap:
            entry, number = heap[0]
            lane, sized = self._classes[number]
            first = sized.first()
            if first is None or number in self._blocked:
                heappop(heap)
            elif first is not entry:
                heapreplace(heap, (first, number))
            elif not self._start(entry, lane, heap):
                heappop(heap)
                self._blocked.add(number)  # all others of this size rank worse and find less
                state.blocked.append(entry[2])
        if state.blocked:
            self._ranked()
            state.rank_s = min(
                (at_s for slot, at_s in self._worse_s.items() if state.table.shares[slot] is not None),
                default=math.inf,
            )

    def _start(self, entry: Entry, lane: Lane, heap: list[tuple[Entry, int]]) -> bool:
        state, tx, slot = self._state, self._tx, entry[2]
        demand = state.table.demands[slot]
        for pool in lane.pools:
            shares = state.place(state.cluster.pools[pool], demand)
            if shares is not None:
                tx.start(slot, pool, shares, self._now, FITS)
                self._note_end_of_level(slot)
                return True
        found = [each for pool in lane.pools if (each := self._victims(entry, pool)) is not None]
        if not found:
            return False
        best = min(found, key=lambda each: each.gpus)
        for victim in best.slots:
            self._evict(victim, heap)
        tx.start(slot, best.pool, best.shares, self._now, IN_PLACE_OF.format(self._names(best.slots)))
        self._note_end_of_level(slot)
        return True

    def _evict(self, slot: int, heap: list[tuple[Entry, int]]) -> None:
        """The job waits again, and its turn is still to come."""
        table = self._state.table
        self._tx.evict(slot, self._now, table.saved_s(slot, self._now, told=True), for_another=True)
        lane = table.lanes[slot]
        if lane is not None and lane.by_size is not None:
            heappush(heap, (table.entries[slot], self._numbers[id(lane.by_size[table.demands[slot]])]))

    def _victims(self, entry: Entry, pool: int) -> _Victims | None:
        """Whose place the job may take on a pool."""
        state, table, demand = self._state, self._state.table, self._state.table.demands[entry[2]]
        index, worst_first = state.cluster.pools[pool], list[_Running]()
        gpus = index.free_gpus
        for each in self._ranked()[pool]:
            if each.rank <= self._ranking.margin * entry[0]:
                break
            if table.shares[each.slot] is not None and table.starts_s[each.slot] != self._now:
                worst_first.append(each)
                gpus += table.gpus[each.slot]
        if gpus < demand.gpus or not worst_first:
            return None
        ahead, chosen, shares = index.copy(), list[int](), None
        for each in worst_first:
            ahead.give(table.shares[each.slot] or ())
            chosen.append(each.slot)
            if ahead.free_gpus >= demand.gpus:
                shares = state.place(ahead, demand)
                if shares is not None:
                    break
        if shares is None:
            return None
        for slot in chosen[-2::-1]:  # the last one was needed
            own = table.shares[slot] or ()
            ahead.take(own)
            found = state.place(ahead, demand)
            if found is None:
                ahead.give(own)
            else:
                shares = found
                chosen.remove(slot)
        return _Victims(sum(table.gpus[slot] for slot in chosen), pool, tuple(chosen), shares)

    def _ranked(self) -> list[list[_Running]]:
        """By pool, what ran when the walk began and may be evicted, the worst first."""
        if self._running is None:
            state, table = self._state, self._state.table
            self._running = [[] for _ in state.cluster.pools]
            for slot in table.running():
                job = table.jobs[slot]
                if job is not None and table.starts_s[slot] != self._now:
                    rank = self._rank_of(slot)
                    if job.preemptible:
                        self._running[table.pools[slot]].append(_Running(rank, table.entries[slot][1], slot))
            for each in self._running:
                each.sort(reverse=True)
        return self._running

    def _rank_of(self, slot: int) -> float:
        table = self._state.table
        began_s = table.starts_s[slot] + table.still_s(slot)
        rank, worse_s = self._ranking.running(
            table.present(slot), table.done_s[slot], table.served_s[slot], began_s, self._now
        )
        self._worse_s[slot] = worse_s
        return rank

    def _note_end_of_level(self, slot: int) -> None:
        if self._ranking.levels:
            self._rank_of(slot)

    def _names(self, slots: tuple[int, ...]) -> str:
        names = [self._state.table.present(slot).job_id for slot in slots]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")
