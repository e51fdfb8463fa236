"""Running elastic gangs give up replicas so that a blocked job starts: as few as will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.elastic import counts
from schedmate.scheduler.placement.elastic import shrunk
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Found, Trial

#: The replicas by role that a gang keeps at least.
Least = Callable[[int], tuple[int, ...]]


def surplus(state: State, slot: int, least: Least) -> int:
    """Replicas that a running gang has beyond its least."""
    have = counts(state.table.demands[slot], state.table.shares[slot] or ())
    return sum(max(0, n - kept) for n, kept in zip(have, least(slot), strict=True))


def smaller(state: State, slot: int, replicas: int, least: Least) -> Shares:
    """The shares of a running gang with so many replicas fewer; those that grow last shrink first."""
    table = state.table
    index, demand, shares = state.cluster.pools[table.pools[slot]], table.demands[slot], table.shares[slot]
    if not isinstance(index, PoolIndex) or shares is None:
        raise ValueError(f"slot {slot} runs no elastic job")
    keep, kept = list(counts(demand, shares)), least(slot)
    for role in reversed(range(len(keep))):
        fewer = min(replicas, max(0, keep[role] - kept[role]))
        keep[role] -= fewer
        replicas -= fewer
    return shrunk(index, demand, shares, keep)


class Shrinking:
    """One blocked job, and gangs that could give up replicas for it down to their ``least``."""

    def __init__(self, state: State, tx: Transaction, slot: int, now: float, least: Least) -> None:
        self._state, self._tx, self._slot, self._now, self._least = state, tx, slot, now, least

    def start(self, most: Mapping[int, int], reason: str) -> bool:
        """Start the job by as few replicas of each gang as will do, the first gangs giving least; False, and nothing
        changed, if ``most`` of all are too few."""
        given = dict(most)
        if not self._suffices(given):
            return False
        for other in most:
            low, high = -1, given[other]  # `high` suffices
            while high - low > 1:
                middle = (low + high) // 2
                if self._suffices({**given, other: middle}):
                    high = middle
                else:
                    low = middle
            given[other] = high
        found = self._find(given)
        if found is None:
            raise RuntimeError("what was found to suffice does not")
        Trial(self._state, self._tx, self._now).start(self._slot, found, reason)
        return True

    def _suffices(self, given: Mapping[int, int]) -> bool:
        point = self._tx.savepoint()
        found = self._find(given)
        self._tx.back_to(point)
        return found is not None

    def _find(self, given: Mapping[int, int]) -> Found | None:
        """A start of the job when so many replicas are given up by each; these are."""
        for other, replicas in given.items():
            if replicas:
                self._tx.resize(other, smaller(self._state, other, replicas, self._least), self._now)
        return Trial(self._state, self._tx, self._now).find(self._slot)
