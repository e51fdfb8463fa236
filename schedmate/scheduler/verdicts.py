"""What is known not to fit, and until when: verdicts by pool and demand, outdated by what was freed and nothing else.

Capacity only shrinks between two releases, so what did not fit does not fit before the next one. A release matters to a
demand only if it leaves a node with enough free GPUs for one of its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import Shares, Spare
from schedmate.scheduler.demand import Demand


class Counted(Protocol):
    """What is looked at of a pool."""

    free_gpus: int

    @property
    def capacity(self) -> int:
        """GPUs of the largest node."""
        ...


class Verdicts:
    """Verdicts about one pool. A *beside* is the identity of what is withheld: the spares of the plans beside which
    something would run, None for nothing."""

    __slots__ = ("_clock", "_freed_at", "_needs", "_no", "_smallest")

    def __init__(self, capacity: int, smallest: int) -> None:
        """For nodes of at most ``capacity`` GPUs, and ``smallest`` at least."""
        self._smallest = smallest
        self._clock = 0
        self._freed_at = [0] * (capacity + 1)
        self._needs: dict[Demand, int] = {}
        self._no: dict[tuple[Demand, tuple[int, ...]], tuple[int, tuple[Spare, ...]]] = {}

    def freed(self, free: Sequence[int] | NDArray[np.int64], shares: Shares) -> None:
        """``shares`` were given back; ``free`` are the free GPUs of each node after that."""
        self._clock += 1
        at, clock = self._freed_at, self._clock
        for share in shares:
            at[free[share[0]]] = clock

    def freed_somewhere(self) -> None:
        """Something else changed that may let anything fit: a node came back, for example."""
        self._clock += 1
        self._freed_at[-1] = self._clock

    @property
    def clock(self) -> int:
        """Counts what was freed."""
        return self._clock

    def gained(self, index: Counted, demand: Demand, since: int) -> bool:
        """Whether anything that matters to a demand was freed after the clock stood so."""
        return max(self._freed_at[self.need(index.capacity, demand) :]) > since

    def is_no(self, index: Counted, demand: Demand, beside: tuple[Spare, ...]) -> bool:
        """Whether the demand is known not to fit now."""
        if index.free_gpus < demand.least_gpus:
            return True
        found = self._no.get((demand, tuple(map(id, beside))))
        if found is None or any(a is not b for a, b in zip(found[1], beside, strict=True)):
            return False
        return max(self._freed_at[self.need(index.capacity, demand) :]) <= found[0]

    def note_no(self, demand: Demand, beside: tuple[Spare, ...]) -> None:
        """It was found not to fit."""
        if len(self._no) > 4096:
            self._no.clear()
        self._no[demand, tuple(map(id, beside))] = self._clock, beside

    def need(self, capacity: int, demand: Demand) -> int:
        """Free GPUs on a node below which it is of no use for any replica of the demand."""
        need = self._needs.get(demand)
        if need is None:
            if len(self._needs) > 4096:
                self._needs.clear()
            if demand.roles:
                need = min(demand.whole_gpus(role) for role in demand.roles)
            else:
                need = demand.gpus if demand.gpus <= capacity else demand.gpus % capacity or capacity
                need = min(need, self._smallest)
            self._needs[demand] = need
        return need
