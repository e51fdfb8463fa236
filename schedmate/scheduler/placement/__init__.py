"""Where a gang goes. A rule has one signature: what is free, what is asked for, hints -> shares, or None.

It runs on the cluster as it is, with reserved capacity withheld, and as it is expected to be at some later time. Hints
lead the choice and never decide whether there is one, so a verdict holds for all jobs of equal demand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import NO_LEANING, Demand, Leaning
from schedmate.scheduler.free_index import FreeIndex, RestrictedView
from schedmate.scheduler.placement.detail import fits_in_detail, place_in_detail
from schedmate.scheduler.placement.one import cost_of
from schedmate.scheduler.placement.plain import pack
from schedmate.scheduler.placement.reasons import why_not
from schedmate.scheduler.pool_index import PoolIndex

View = FreeIndex | RestrictedView | PoolIndex

T = TypeVar("T")


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


def fits(view: View, demand: Demand) -> bool:
    """Whether there is a placement, by whatever rule: they differ in where a job goes."""
    if isinstance(view, PoolIndex):
        return fits_in_detail(view, demand)
    return place(view, demand) is not None


def place_on_any(views: Sequence[View], demand: Demand, leaning: Leaning = NO_LEANING) -> tuple[int, Shares] | None:
    """The number of the view, and the shares there, see `best_offer`."""
    found = ((number, view, place(view, demand, leaning)) for number, view in enumerate(views))
    offers = (((number, shares), view, shares) for number, view, shares in found if shares is not None)
    return best_offer(offers, demand, in_order=bool(demand.gpu_types) or len(views) == 1)


def best_offer(offers: Iterable[tuple[T, View, Shares]], demand: Demand, in_order: bool) -> T | None:
    """One of several pools that hold a gang, each with its name, its state and the shares there: the first.

    A single replica that asks for more than whole GPUs goes where it costs least, once enough is known of the jobs to
    come (see `outlook`), unless the pools are in order of preference.
    """
    best, least = None, math.inf
    for name, view, shares in offers:
        cost = None if in_order else cost_of(view, demand, shares)
        if cost is None:
            return name if best is None else best
        if cost < least:
            best, least = name, cost
    return best


__all__ = [
    "PlacementRule", "View", "best_offer", "fits", "pack", "place", "place_in_detail", "place_on_any", "why_not",
]  # fmt: skip
