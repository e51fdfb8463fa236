"""How many replicas fit where: by node, by cell, by group. Exact for each resource of every part on its own."""

from __future__ import annotations

import numpy as np

from schedmate.scheduler.pool_index import HIDDEN, PoolIndex
from schedmate.scheduler.pool_layout import Bools, Ints, Part
from schedmate.scheduler.shared_devices import replicas_on


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


def holds(view: PoolIndex, part: Part, eligible: Bools | None) -> Bools:
    """Whether each node can take one replica of ``part``: where `by_node` is not 0; shape (nodes,)."""
    if not part.gpus:
        some: Bools = by_node(view, part, eligible) > 0
        return some
    fits: Bools = view.count >= part.gpus
    for amounts, asked in (
        (view.cpus_milli, part.cpus_milli),
        (view.memory_mib, part.memory_mib),
        (view.disk_mib, part.disk_mib),
    ):
        if asked and amounts is not None:
            fits &= amounts >= asked
    if part.nics:
        fits &= view.nic_count is not None and view.nic_count >= part.nics
    if eligible is not None:
        fits &= eligible
    return fits


def holds_any(view: PoolIndex, part: Part, eligible: Bools | None) -> bool:
    """Whether any node can take one replica of ``part``."""
    if part.only_gpus and eligible is None:
        capacity = view.layout.capacity
        return any(view.totals[part.gpus : capacity]) or any(view.totals[capacity + part.gpus :])
    return bool(holds(view, part, eligible).any())


def by_cell(view: PoolIndex, part: Part, eligible: Bools | None) -> Ints:
    """Replicas of ``part`` that each cell can take; shape (cells,)."""
    if part.only_gpus and eligible is None:
        return view.layout.weights(part.gpus) @ view.buckets
    return np.add.reduceat(by_node(view, part, eligible), view.layout.cells)


def _on_shared_devices(view: PoolIndex, part: Part, first: int, end: int) -> Ints:
    room: Ints = (view.device_left()[first:end] // part.milli).sum(axis=1)
    if not part.sliced and not part.device_memory_mib and not view.sliced_devices:
        return room
    layout = view.layout
    room = view.count[first:end] * replicas_on((), 1, 0, part, layout.device_memory_mib)
    for node, shared in view.partial.items():
        if first <= node < end and node not in view.health:
            bad = view.bad.get(node, 0)
            room[node - first] = replicas_on(shared, view.free[node], bad, part, layout.device_memory_mib)
    return room
