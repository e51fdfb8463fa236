"""A whole gang on one node, or on one NVLink island of it."""

from __future__ import annotations

from schedmate.scheduler.cluster_types import DeviceShare, Shares
from schedmate.scheduler.devices import islands_with
from schedmate.scheduler.placement.fit import by_node
from schedmate.scheduler.placement.one import fullest_first
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Bools, Part


def place_on_node(view: PoolIndex, parts: tuple[Part, ...], eligible: Bools | None, island: bool) -> Shares | None:
    """On the fullest node that holds all ``parts``; with ``island`` all they have of GPUs on one island of it."""
    together = Part(
        0,
        1,
        sum(part.gpus * part.replicas for part in parts),
        0,
        0,
        0,
        *(sum(part[i] * part.replicas for part in parts) for i in range(6, len(Part._fields))),
    )
    ahead = view.copy()
    for node in fullest_first(view, by_node(view, together, eligible)):
        masks = islands_with(view.layout.shapes[node], view.free[node], together.gpus) if island else (-1,)
        for among in masks:
            shares = _on(ahead, node, parts, among)
            if shares is not None:
                return shares
    return None


def _on(ahead: PoolIndex, node: int, parts: tuple[Part, ...], among: int) -> Shares | None:
    """The parts on this node, on devices ``among`` those of the mask, or None; ``ahead`` is left as it was."""
    shares: list[DeviceShare] = []
    try:
        for part in parts:
            if int(by_node(ahead, part, None, node, node + 1)[0]) < part.replicas:
                return None
            taken = ahead.share(node, part, part.replicas, among)
            if any(share.devices & ~among for share in taken):
                return None
            ahead.take(taken)
            shares.extend(taken)
        return tuple(shares)
    finally:
        ahead.give(tuple(shares))
