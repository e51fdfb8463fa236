"""Where a gang goes. A rule has one signature: what is free, what is asked for -> shares, or None.

A rule only looks at masks (see `free_index`), so it runs on the cluster as it is, on the cluster with reserved
capacity withheld, and on the cluster as it is expected to be at some later time.
"""

from __future__ import annotations

from collections.abc import Callable

from schedmate.scheduler.cluster_types import PoolSpec, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex, FreeView

PlacementRule = Callable[[FreeView, Demand], Shares | None]


def pack(view: FreeView, demand: Demand) -> Shares | None:
    """Best-fit packing.

    A gang that fits one node goes to the fullest node that holds it. A larger one takes whole free nodes, and the
    remainder the emptiest other node that holds it. Lowest node index first in every case.
    """
    gpus, capacity = demand.gpus, view.capacity
    if gpus <= capacity:
        fitting = view.levels >> gpus
        if not fitting:
            return None
        mask = view.masks[gpus + (fitting & -fitting).bit_length() - 1]
        return (((mask & -mask).bit_length() - 1, gpus),)
    whole, rest = divmod(gpus, capacity)
    empty = view.masks[capacity]
    if empty.bit_count() < whole:
        return None
    shares: list[tuple[int, int]] = []
    for _ in range(whole):
        low = empty & -empty
        shares.append((low.bit_length() - 1, capacity))
        empty ^= low
    if rest:
        if not empty:
            emptiest = (view.levels & ((1 << capacity) - 1)).bit_length() - 1
            if emptiest < rest:
                return None
            empty = view.masks[emptiest]
        shares.append(((empty & -empty).bit_length() - 1, rest))
    return tuple(shares)


def why_not(pool: PoolSpec, index: FreeIndex, demand: Demand) -> str:
    """Why a gang that asks for ``demand`` can not start on this pool now, in words."""
    gpus = demand.gpus
    if gpus > pool.gpus:
        return f"asks for {gpus} GPUs, pool {pool.name} has {pool.gpus}"
    if gpus > index.free_gpus:
        return f"needs {gpus} GPUs, {index.free_gpus} of pool {pool.name} are free"
    largest = index.levels.bit_length() - 1
    if gpus <= pool.gpus_per_node:
        return (
            f"needs {gpus} GPUs on one node; pool {pool.name} has {index.free_gpus} free, at most {largest} on a node"
        )
    whole, rest = divmod(gpus, pool.gpus_per_node)
    needs = f"{whole} whole free nodes" + (f" and {rest} GPUs on another" if rest else "")
    return (
        f"needs {needs}; {index.free_gpus} GPUs of pool {pool.name} are free, "
        f"{index.masks[pool.gpus_per_node].bit_count()} nodes are free as a whole"
    )
