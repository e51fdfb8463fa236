"""Where a gang goes. A rule has one signature: what is free, what is asked for, hints -> shares, or None.

It runs on the cluster as it is, with reserved capacity withheld, and as it is expected to be at some later time. Hints
lead the choice and never decide whether there is one, so a verdict holds for all jobs of equal demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import NO_LEANING, Demand, Leaning
from schedmate.scheduler.free_index import FreeIndex, RestrictedView
from schedmate.scheduler.placement.detail import place_in_detail
from schedmate.scheduler.placement.one import cost_of
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


def place_on_any(views: Sequence[View], demand: Demand, leaning: Leaning = NO_LEANING) -> tuple[int, Shares] | None:
    """The number of the view, and the shares there: the first that holds the gang.

    A single replica that asks for more than whole GPUs goes where it costs least, once enough is known of the jobs to
    come (see `outlook`), unless the demand names GPU types: they are in order of preference.
    """
    found: list[tuple[float, int, Shares]] = []
    for number, view in enumerate(views):
        shares = place(view, demand, leaning)
        if shares is None:
            continue
        cost = None if demand.gpu_types or len(views) == 1 else cost_of(view, demand, shares)
        if cost is None:
            return number, shares
        found.append((cost, number, shares))
    return min(found)[1:] if found else None


__all__ = ["PlacementRule", "View", "pack", "place", "place_in_detail", "place_on_any", "why_not"]
