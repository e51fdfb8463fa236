"""Ways to place jobs, by the name that a policy gives. They differ in where a job goes, never in whether it fits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import NO_LEANING, Demand, Leaning
from schedmate.scheduler.placement import PlacementRule, View, place
from schedmate.scheduler.placement.fit import by_node
from schedmate.scheduler.pool_index import PoolIndex


def best_fit(view: View, demand: Demand, leaning: Leaning = NO_LEANING, /) -> Shares | None:
    """E-Binpack that does not look at hints."""
    return place(view, demand)


def least_allocated(view: View, demand: Demand, leaning: Leaning = NO_LEANING, /) -> Shares | None:
    """What fits one node goes to the emptiest, as the default of Kubernetes does; gangs go as with E-Binpack."""
    if demand.spread or demand.level is not None:
        return place(view, demand)
    if not isinstance(view, PoolIndex):
        emptiest = view.levels.bit_length() - 1
        if not demand.is_plain or not demand.gpus <= emptiest:
            return place(view, demand)
        mask = view.masks[emptiest]
        return (((mask & -mask).bit_length() - 1, demand.gpus),)
    parts = view.layout.parts(demand)
    if isinstance(parts, str) or len(parts) != 1 or parts[0].replicas != 1:
        return place(view, demand)
    nodes = np.flatnonzero(by_node(view, parts[0], view.layout.eligible(demand)) > 0)
    if not nodes.size:
        return None
    emptiest = int(nodes[np.lexsort((nodes, -view.bucket[nodes]))[0]])
    return view.share(emptiest, parts[0], 1)


#: E-Binpack looks at hints, keeps whole nodes and whole groups whole.
RULES: Mapping[str, PlacementRule] = {"e-binpack": place, "best-fit": best_fit, "least-allocated": least_allocated}


def rule_named(name: str) -> PlacementRule:
    """The rule of that name. ``ValueError`` with the names that there are."""
    if name not in RULES:
        raise ValueError(f"no placement {name!r}; there are {', '.join(RULES)}")
    return RULES[name]
