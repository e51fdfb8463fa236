"""One replica: on the fullest node that fits, in the most broken group; whole nodes only when nothing else fits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import WHOLE_MILLI, DeviceShare, Shares
from schedmate.scheduler.demand import Demand, Leaning
from schedmate.scheduler.free_index import FreeIndex, RestrictedView
from schedmate.scheduler.placement.fit import by_node, holds
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Bools, Ints, Part

#: Nodes are alike if a job delays their emptying by less than this, and from there on in octaves. On a synthetic mix of
#: jobs with hints off by a factor of two either way, taking the node that is delayed least, then the fullest, left
#: 2.5 % of the nodes fragmented, the fullest and then the one delayed least 2.9 %, the fullest alone 4.5 %.
NEGLIGIBLE_S = 600.0

_NEVER = 1 << 62


def place_one(view: PoolIndex, part: Part, eligible: Bools | None, leaning: Leaning) -> Shares | None:
    """One replica of ``part``, whatever its ``replicas``."""
    aligned = leaning.end_s is not None and view.exits.known
    if part.only_gpus and eligible is None and not aligned:
        node = _by_bucket(view, part.gpus)
        return None if node is None else view.share(node, part, 1)
    found = _by_score(view, part, holds(view, part, eligible), leaning.end_s if aligned else None)
    return None if found is None else view.share(found[0], part, 1, found[1])


def cost_of(view: FreeIndex | RestrictedView | PoolIndex, demand: Demand, shares: Shares) -> float | None:
    """Expected waste that a placement of a single replica costs, in milli-GPU; None where there is no saying."""
    if not isinstance(view, PoolIndex) or view.waste is None or not view.waste.ready():
        return None
    parts = view.layout.parts(demand)
    if isinstance(parts, str) or len(parts) != 1 or parts[0].replicas != 1 or parts[0].only_gpus:
        return None
    node = shares[0][0]
    cpus_milli = None if view.cpus_milli is None else int(view.cpus_milli[node])
    return view.waste.cost_on(parts[0], cpus_milli, tuple(view.device_left()[node].tolist()))


def spread(view: PoolIndex, parts: tuple[Part, ...], eligible: Bools | None) -> Shares | None:
    """Every replica on the emptiest node that none of the others is on, as far as there are such nodes."""
    ahead = view.copy()
    shares: list[DeviceShare] = []
    for part in parts:
        for _ in range(part.replicas):
            fits = by_node(ahead, part, eligible) > 0
            others = fits.copy()
            others[[share.node for share in shares]] = False
            nodes = np.flatnonzero(others if others.any() else fits)
            if not nodes.size:
                return None
            cells = ahead.layout.cell_of_node[nodes]
            emptiest = np.lexsort((nodes, -ahead.cell_free[cells], -ahead.count[nodes]))[0]
            taken = ahead.share(int(nodes[emptiest]), part, 1)
            ahead.take(taken)
            shares.extend(taken)
    return tuple(shares)


def fullest_first(view: PoolIndex, room: Ints) -> Iterator[int]:
    """The nodes with room, from the fullest to those free as a whole."""
    nodes = np.flatnonzero(room > 0)
    yield from nodes[np.lexsort((nodes, view.bucket[nodes]))].tolist()


def _by_bucket(view: PoolIndex, gpus: int) -> int | None:
    totals, capacity = view.totals, view.layout.capacity
    for bucket in (*range(gpus, capacity), *range(capacity + gpus, 2 * capacity + 1)):
        if totals[bucket]:
            cell = int(np.where(view.buckets[bucket], view.cell_free, _NEVER).argmin())
            first, end = view.layout.bounds[cell]
            return first + int((view.bucket[first:end] == bucket).argmax())
    return None


def _by_score(view: PoolIndex, part: Part, fits: Bools, end_s: float | None) -> tuple[int, int] | None:
    """The node, and as a mask the devices among which to choose there: the best by one key after the other, each looked
    at only for those that are equal by all before it."""
    nodes: Ints = np.flatnonzero(fits)
    if not nodes.size:
        return None
    if end_s is not None:
        nodes = _least(nodes, view.bucket[nodes] >= view.layout.capacity)
        longer_s = np.maximum(0.0, end_s - view.exits.exit_s[nodes])
        nodes = _least(nodes, np.floor(np.log2(1.0 + np.minimum(longer_s, 1e12) / NEGLIGIBLE_S)))
    device = -1
    if view.waste is not None and not part.only_gpus and not _alike(view, part, nodes) and view.waste.ready():
        cpus_milli = None if view.cpus_milli is None else view.cpus_milli[nodes]
        cost, devices = view.waste.cost(part, cpus_milli, view.device_left()[nodes])
        kept = cost == cost.min()
        nodes, devices = nodes[kept], devices[kept]
        best = _fullest(view, nodes)
        device = int(devices[best]) if part.milli else -1
    else:
        nodes = _least(nodes, _remnant(view, part, nodes)) if part.milli else nodes
        best = _fullest(view, nodes)
    return int(nodes[best]), -1 if device < 0 else 1 << device


def _alike(view: PoolIndex, part: Part, nodes: Ints) -> bool:
    """Whether it is plain that whole GPUs cost the same on all the nodes: none of their GPUs is in use, and as many
    CPUs are free."""
    if part.milli or len(nodes) == 1:
        return not part.milli
    if view.bucket[nodes].min() < 2 * view.layout.capacity:
        return False
    return view.cpus_milli is None or bool(np.ptp(view.cpus_milli[nodes]) == 0)


def _least(nodes: Ints, key: NDArray[np.generic]) -> Ints:
    """The nodes with the least key."""
    return nodes if len(nodes) == 1 else nodes[key == key.min()]


def _fullest(view: PoolIndex, nodes: Ints) -> int:
    """Which of the nodes, in ascending order, is the fullest one, in the most broken group; the first of equals."""
    if len(nodes) == 1:
        return 0
    bucket = view.bucket[nodes]
    free = view.cell_free[view.layout.cell_of_node[nodes]]
    return int(np.where(bucket == bucket.min(), free, _NEVER).argmin())


def _remnant(view: PoolIndex, part: Part, nodes: Ints) -> Ints:
    """Milli that would be left of the tightest device of each node."""
    left = view.device_left()[nodes] - part.milli
    remnant: Ints = np.where(left < 0, WHOLE_MILLI, left).min(axis=1)
    return remnant
