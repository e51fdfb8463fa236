"""What is known not to fit, and where it might by now: verdicts by pool and demand, outdated by what was freed and
nothing else.

Capacity only shrinks between two releases, so what did not fit does not fit before the next one, and after that only
with the help of the nodes on which something was freed. A release matters to a demand only if it leaves a node with
enough free GPUs for one of its replicas. What does not fit beside some plans does not beside these and others either,
nor when they leave less; a plan that is gone frees its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.types import Reservation

Free = Sequence[int] | NDArray[np.int64]

#: Demands and releases that are remembered, and verdicts about one demand.
_MOST_DEMANDS = 4096
_MOST_RELEASES = 1024
_MOST_VERDICTS = 48

#: Where more nodes were freed, all are looked at.
_MOST_NODES = 64

#: So many plans come and go before the numbers that they have here are given out anew.
_MOST_PLANS = 256


class Counted(Protocol):
    """What is looked at of a pool."""

    free_gpus: int

    @property
    def capacity(self) -> int:
        """GPUs of the largest node."""
        ...


class Verdicts:
    """Verdicts about one pool. Before any is asked for or noted, `follow` says which plans there are."""

    __slots__ = (
        "_changed", "_clock", "_freed_at", "_gone", "_known", "_log", "_log_from", "_needs", "_next", "_numbers",
        "_plans", "_since", "_smallest",
    )  # fmt: skip

    def __init__(self, capacity: int, smallest: int) -> None:
        """For nodes of at most ``capacity`` GPUs, and ``smallest`` at least."""
        self._smallest = smallest
        self._clock = 0
        self._freed_at = [0] * (capacity + 1)
        self._needs: dict[Demand, int] = {}
        #: The nodes of every release after the clock stood at `_log_from`; of all since some moments; and those of them
        #: with so many free GPUs.
        self._log: list[tuple[int, ...]] = []
        self._log_from = 0
        self._changed: dict[int, NDArray[np.int64]] = {}
        self._since: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._plans: tuple[Reservation, ...] = ()
        #: By identity of what a plan was when it was made, that and its number; bits of those that are gone.
        self._numbers: dict[int, tuple[Reservation, int]] = {}
        self._next = 0
        self._gone: list[int] = []
        #: By demand, plans beside which it did not fit (bits) and when; how many of `_gone` are out of them.
        self._known: dict[Demand, tuple[dict[int, int], int]] = {}

    def freed(self, free: Free, shares: Shares) -> None:
        """``shares`` were given back; ``free`` are the free GPUs of each node after that."""
        self._release(free, dict.fromkeys(share[0] for share in shares))

    def _release(self, free: Free, nodes: Collection[int]) -> None:
        self._clock += 1
        at, clock = self._freed_at, self._clock
        for node in nodes:
            at[free[node]] = clock
        self._log.append(tuple(nodes))
        self._since.clear()
        self._changed.clear()
        if len(self._log) > _MOST_RELEASES:
            self._log_from += len(self._log) // 2
            del self._log[: len(self._log) // 2]

    def freed_somewhere(self) -> None:
        """Something else changed that may let anything fit: a node came back, for example."""
        self._clock += 1
        self._freed_at[-1] = self._clock
        self._log_from = self._clock
        self._log.clear()
        self._since.clear()
        self._changed.clear()

    def follow(self, free: Free, plans: tuple[Reservation, ...]) -> None:
        """These are the plans of the pool now, ``free`` the free GPUs of each node."""
        if plans is self._plans:
            return
        self._plans = plans
        there = {id(plan.origin) for plan in plans}
        gone = [key for key in self._numbers if key not in there]
        if not gone:
            return
        bits, nodes = 0, dict[int, None]()
        for key in gone:
            origin, number = self._numbers.pop(key)
            bits |= 1 << number
            nodes |= dict.fromkeys(share[0] for share in origin.shares)
        self._gone.append(bits)
        self._release(free, nodes)
        if self._next > _MOST_PLANS:
            self._renumber()

    def _renumber(self) -> None:
        """Give the plans the lowest numbers that there are."""
        old = [(number, key) for key, (_, number) in self._numbers.items()]
        for demand in list(self._known):
            known = self._verdicts(demand)
            moved = {
                sum(1 << new for new, (number, _) in enumerate(old) if bits >> number & 1): at
                for bits, at in known.items()
            }
            self._known[demand] = moved, 0
        self._numbers = {key: (self._numbers[key][0], new) for new, (_, key) in enumerate(old)}
        self._next, self._gone = len(old), []

    @property
    def clock(self) -> int:
        """Counts what was freed."""
        return self._clock

    def gained(self, index: Counted, demand: Demand, since: int) -> bool:
        """Whether anything that matters to a demand was freed after the clock stood so."""
        return max(self._freed_at[self.need(index.capacity, demand) :]) > since

    def most_freed(self, since: int) -> int:
        """The most free GPUs of any node on which something was freed after the clock stood so; -1 if there is none."""
        return max((free for free, at in enumerate(self._freed_at) if at > since), default=-1)

    def freed_since(self, free: Free, since: int) -> tuple[int, ...] | None:
        """The nodes on which something was freed after the clock stood so; None if that is not known any more, or if
        they are many."""
        return self._freed_since(free, since, 0)

    def where(self, index: Counted, free: Free, demand: Demand, beside: int) -> tuple[int, ...] | None:
        """The nodes without the help of which a demand does not fit beside some plans (`bits_of`): nothing else has
        been freed since it did not; ``free`` are the free GPUs of each node. None if any node may do."""
        if index.free_gpus < demand.least_gpus:
            return ()
        known = self._verdicts(demand)
        if not known:
            return None
        last = max((at for bits, at in known.items() if not bits & ~beside), default=-1)
        if last < 0:
            return None
        if not self.gained(index, demand, last):
            return ()
        return self._freed_since(free, last, self.need(index.capacity, demand))

    def note_no(self, demand: Demand, beside: int) -> None:
        """It was found not to fit beside these plans (`bits_of`)."""
        known = self._verdicts(demand)
        if len(self._known) > _MOST_DEMANDS:
            self._known.clear()
        known = {bits: at for bits, at in known.items() if beside & ~bits}
        if len(known) >= _MOST_VERDICTS:
            del known[min(known, key=lambda bits: known[bits])]
        known[beside] = self._clock
        self._known[demand] = known, len(self._gone)

    def bits_of(self, plans: Iterable[Reservation]) -> int:
        """Some of the plans that there are as a set of bits, the same ones until any is gone."""
        found = 0
        for plan in plans:
            origin = plan.origin
            known = self._numbers.get(id(origin))
            if known is None:  # the plan is kept: an identity is that of one object for as long as it lives
                known = self._numbers[id(origin)] = origin, self._next
                self._next += 1
            found |= 1 << known[1]
        return found

    def need(self, capacity: int, demand: Demand) -> int:
        """Free GPUs on a node below which it is of no use for any replica of the demand."""
        need = self._needs.get(demand)
        if need is None:
            if len(self._needs) > _MOST_DEMANDS:
                self._needs.clear()
            if demand.roles:
                need = min(demand.whole_gpus(role) for role in demand.roles)
            else:
                need = demand.gpus if demand.gpus <= capacity else demand.gpus % capacity or capacity
                need = min(need, self._smallest)
            self._needs[demand] = need
        return need

    def _verdicts(self, demand: Demand) -> dict[int, int]:
        """What is known of a demand: plans (bits), and when."""
        found = self._known.get(demand)
        if found is None:
            return {}
        known, seen = found
        if seen < len(self._gone):
            gone = 0
            for bits in self._gone[seen:]:
                gone |= bits
            left: dict[int, int] = {}
            for bits, at in known.items():
                left[bits & ~gone] = max(at, left.get(bits & ~gone, at))
            known = left
            self._known[demand] = known, len(self._gone)
        return known

    def _freed_since(self, free: Free, clock: int, need: int) -> tuple[int, ...] | None:
        """The nodes on which something was freed after the clock stood so, of those with so many free GPUs; None if
        that is not known any more, or if they are many."""
        if clock < self._log_from:
            return None
        key = clock, need
        if key not in self._since:  # what is free on them only shrinks until something is freed
            nodes = self._changed.get(clock)
            if nodes is None:
                some = set().union(*self._log[clock - self._log_from :])
                nodes = self._changed[clock] = np.fromiter(some, dtype=np.int64, count=len(some))
            if isinstance(free, np.ndarray):
                found = nodes[free[nodes] >= need].tolist()
            else:
                found = [node for node in nodes.tolist() if free[node] >= need]
            self._since[key] = None if len(found) > _MOST_NODES else tuple(sorted(found))
        return self._since[key]
