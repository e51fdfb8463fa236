"""Best-fit packing on a plain pool. Looks at masks only (see `free_index`), so it runs on any view of a pool."""

from __future__ import annotations

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeView


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
