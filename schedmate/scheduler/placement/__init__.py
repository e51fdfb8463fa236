"""Where a gang goes. A rule has one signature: what is free, what is asked for, hints -> shares, or None.

It runs on the cluster as it is, with reserved capacity withheld, and as it is expected to be at some later time. Hints
lead the choice and never decide whether there is one, so a verdict holds for all jobs of equal demand.
"""

from __future__ import annotations

from typing import Protocol

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import NO_LEANING, Demand, Leaning
from schedmate.scheduler.free_index import FreeIndex, RestrictedView
from schedmate.scheduler.placement.detail import place_in_detail
from schedmate.scheduler.placement.plain import pack
from schedmate.scheduler.placement.reasons import why_not
from schedmate.scheduler.pool_index import PoolIndex

View = FreeIndex | RestrictedView | PoolIndex


class PlacementRule(Protocol):
    """A way to place a demand on one pool."""

    def __call__(self, view: View, demand: Demand, leaning: Leaning = NO_LEANING, /) -> Shares | None:
        """Shares for the whole gang, or None; changes nothing."""
        ...


def place(view: View, demand: Demand, leaning: Leaning = NO_LEANING, /) -> Shares | None:
    """E-Binpack: see `pack` for plain pools, `place_in_detail` for the others."""
    if isinstance(view, PoolIndex):
        return place_in_detail(view, demand, leaning)
    return pack(view, demand) if demand.is_plain else None


__all__ = ["PlacementRule", "View", "pack", "place", "place_in_detail", "why_not"]
