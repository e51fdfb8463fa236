"""Placement on a pool described in detail: filter nodes, choose groups, then nodes, then devices."""

from __future__ import annotations

import numpy as np

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import NO_LEANING, Demand, Leaning
from schedmate.scheduler.placement.fit import by_cell, holds_any
from schedmate.scheduler.placement.gang import levels_to_try, place_gang
from schedmate.scheduler.placement.node import place_on_node
from schedmate.scheduler.placement.one import place_one, spread
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Bools, Part


def place_in_detail(view: PoolIndex, demand: Demand, leaning: Leaning = NO_LEANING) -> Shares | None:
    """Shares for the gang, or None; of an elastic one as many replicas as fit, roles named first growing first."""
    if demand.least_gpus > view.free_gpus:
        return None
    parts = view.layout.parts(demand)
    if isinstance(parts, str):
        return None
    eligible = view.layout.eligible(demand)
    shares = _place(view, demand, parts, eligible, leaning)
    if shares is not None or not demand.elastic:
        return shares
    low, high = 0, sum(role.replicas - role.least_replicas for role in demand.roles)
    best = _place(view, demand, _with_extra(demand, parts, 0), eligible, leaning)
    while best is not None and high - low > 1:  # `low` extra replicas fit, `high` do not
        middle = (low + high) // 2
        shares = _place(view, demand, _with_extra(demand, parts, middle), eligible, leaning)
        if shares is None:
            high = middle
        else:
            low, best = middle, shares
    return best


def fits_in_detail(view: PoolIndex, demand: Demand) -> bool:
    """Whether there are shares for the gang: of equal replicas on any nodes, told by numbers alone."""
    if demand.least_gpus > view.free_gpus:
        return False
    parts = view.layout.parts(demand)
    if isinstance(parts, str):
        return False
    alike = len(parts) == 1 and not demand.spread and not demand.elastic
    if not alike or (demand.required and demand.level in ("node", "island")):
        return place_in_detail(view, demand) is not None
    part, eligible = parts[0], view.layout.eligible(demand)
    if part.replicas == 1:
        return holds_any(view, part, eligible)
    room = by_cell(view, part, eligible)
    level = levels_to_try(view.layout, demand)[-1]
    return bool(np.add.reduceat(room, view.layout.groups[level]).max() >= part.replicas)


def _place(
    view: PoolIndex, demand: Demand, parts: tuple[Part, ...], eligible: Bools | None, leaning: Leaning
) -> Shares | None:
    if demand.spread:
        return spread(view, parts, eligible)
    if demand.level in ("node", "island"):
        shares = place_on_node(view, parts, eligible, demand.level == "island")
        if shares is not None or demand.required:
            return shares
    if len(parts) == 1 and parts[0].replicas == 1:
        return place_one(view, parts[0], eligible, leaning)
    return place_gang(view, demand, parts, eligible, leaning)


def _with_extra(demand: Demand, parts: tuple[Part, ...], extra: int) -> tuple[Part, ...]:
    """The parts with the least replicas of each role and ``extra`` more."""
    counts = []
    for role in demand.roles:
        more = min(extra, role.replicas - role.least_replicas)
        counts.append(role.least_replicas + more)
        extra -= more
    return tuple(part._replace(replicas=counts[part.role]) for part in parts if counts[part.role])
