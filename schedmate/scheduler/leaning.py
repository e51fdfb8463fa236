"""From the hints about a job to what leads its placement; from running jobs to when nodes are expected to be empty."""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import NO_LEANING, Leaning
from schedmate.scheduler.device_ends import DeviceEnds
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.types import Hints

#: A job that will very likely have ended by then is short.
SHORT_S = 600.0

#: From this probability of ending badly on, a job is not counted on to last.
LIKELY = 0.5


def leaning(hints: Hints | None, now: float) -> Leaning:
    """What the hints say about where the job should go if it starts now."""
    if hints is None:
        return NO_LEANING
    fails = hints.failure_probability is not None and hints.failure_probability >= LIKELY
    if hints.expected_s is None or hints.high_s is None:
        return Leaning(None, fails)
    return Leaning(now + hints.expected_s, fails or hints.high_s <= SHORT_S)


def ends_on(index: FreeIndex | PoolIndex, shares: Sequence[Shares | None]) -> ExpectedEnds:
    """Expected ends of the jobs on one pool; ``shares`` are those of the running jobs by slot, as they are at any time.
    On a pool described in detail the ends are kept by device and by node as well."""
    return EndsByNode(index, shares) if isinstance(index, PoolIndex) else ExpectedEnds()


def limits_on(index: FreeIndex | PoolIndex, shares: Sequence[Shares | None]) -> ExpectedEnds:
    """Hard limits of the jobs on one pool, by device as well on one described in detail."""
    return DeviceEnds(index.layout, shares) if isinstance(index, PoolIndex) else ExpectedEnds()


class EndsByNode(DeviceEnds):
    """Tells the nodes when they are expected to be empty, too."""

    __slots__ = ("_exits",)

    def __init__(self, index: PoolIndex, shares: Sequence[Shares | None]) -> None:
        super().__init__(index.layout, shares)
        self._exits = index.exits

    def add(self, slot: int, end_s: float) -> None:
        """A job starts."""
        super().add(slot, end_s)
        self._exits.add(self._shares[slot] or (), end_s)

    def remove(self, slot: int) -> float:
        """A job is gone; returns when it was expected to end."""
        end_s = super().remove(slot)
        self._exits.remove(self._shares[slot] or (), end_s)
        return end_s
