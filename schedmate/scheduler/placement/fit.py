"""How many replicas fit where: by node, by cell, by group. Exact for each resource of every part on its own."""

from __future__ import annotations

import numpy as np

from schedmate.scheduler.cluster_types import WHOLE_MILLI
from schedmate.scheduler.pool_index import HIDDEN, PoolIndex
from schedmate.scheduler.pool_layout import Bools, Ints, Part


def by_node(view: PoolIndex, part: Part, eligible: Bools | None, first: int = 0, end: int | None = None) -> Ints:
    """Replicas of ``part`` that each node from ``first`` to before ``end`` can take; shape (nodes,)."""
    span = slice(first, end)
    if part.gpus:
        room: Ints = view.count[span] // part.gpus
    elif part.milli:
        room = _on_shared_devices(view, part, first, view.layout.nodes if end is None else end)
    else:
        room = np.where(view.bucket[span] == HIDDEN, 0, part.replicas)
    if part.cpus_milli and view.cpus_milli is not None:
        room = np.minimum(room, view.cpus_milli[span] // part.cpus_milli)
    if part.memory_mib and view.memory_mib is not None:
        room = np.minimum(room, view.memory_mib[span] // part.memory_mib)
    if part.disk_mib and view.disk_mib is not None:
        room = np.minimum(room, view.disk_mib[span] // part.disk_mib)
    if part.nics:
        room = np.minimum(room, 0 if view.nic_count is None else view.nic_count[span] // part.nics)
    return room if eligible is None else room * eligible[span]


def by_cell(view: PoolIndex, part: Part, eligible: Bools | None) -> Ints:
    """Replicas of ``part`` that each cell can take; shape (cells,)."""
    if part.only_gpus and eligible is None:
        return view.layout.weights(part.gpus) @ view.buckets
    return np.add.reduceat(by_node(view, part, eligible), view.layout.cells)


def _on_shared_devices(view: PoolIndex, part: Part, first: int, end: int) -> Ints:
    room: Ints = (view.device_left()[first:end] // part.milli).sum(axis=1)
    if not part.sliced and not part.device_memory_mib and not view.sliced_devices:
        return room
    per_whole = WHOLE_MILLI // part.milli
    if part.device_memory_mib:
        per_whole = min(per_whole, view.layout.device_memory_mib // part.device_memory_mib)
    room = view.count[first:end] * per_whole
    for node in view.partial:
        if first <= node < end and node not in view.health:
            room[node - first] = _exactly(view, part, node, per_whole)
    return room


def _exactly(view: PoolIndex, part: Part, node: int, per_whole: int) -> int:
    bad, room = view.bad.get(node, 0), view.free[node].bit_count() * per_whole
    for shared in view.partial[node]:
        if shared.sliced == part.sliced and not bad >> shared.device & 1:
            held = shared.milli // part.milli
            room += min(held, shared.memory_mib // part.device_memory_mib) if part.device_memory_mib else held
    return room
