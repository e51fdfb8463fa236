"""The first time at which a gang may fit a pool described in detail, by its GPUs alone.

Every device is released at a known time, so the time at which a node has room for one more replica is the largest of
as many release times as the replica has GPUs, and that at which a group has room for the gang one of those. No real
placement is earlier; where nothing but GPUs is short there is one at that very time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from schedmate.scheduler.cluster_types import DeviceShare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.device_ends import DeviceEnds, Masks, Times, bits
from schedmate.scheduler.placement.gang import levels_to_try
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Ints, Part
from schedmate.scheduler.types import Reservation


class Openings:
    """One pool along one kind of end. ``stuck`` are slots of which it is not known when they will end, whatever
    ``ends`` says."""

    __slots__ = ("_held", "_index", "_sorted", "_times")

    def __init__(self, index: PoolIndex, ends: DeviceEnds, stuck: Iterable[int]) -> None:
        self._index = index
        self._times = ends.device_s
        self._sorted: Times | None = None
        self._held: dict[int, tuple[Reservation, Ints, Masks]] = {}
        never = [(share.node, share.devices) for slot in stuck for share in ends.shares_of(slot) if not share.milli]
        never += index.bad.items()
        never += [(node, index.layout.devices[node]) for node in index.health]
        if never:
            self._times = self._times.copy()
            for node, devices in never:
                self._times[node, bits([devices], index.capacity)[0]] = math.inf

    def search(self, demand: Demand) -> Opening | None:
        """For one demand; None where it asks for more than whole GPUs in every role, or the pool can not have it."""
        parts = self._index.layout.parts(demand)
        if isinstance(parts, str) or any(not part.gpus for part in parts) or not demand.least_gpus:
            return None
        return Opening(self, self._index, demand, parts)

    def by_device(self) -> Times:
        """Release times, those of each node ascending; not to be changed."""
        if self._sorted is None:
            self._sorted = np.sort(self._times, axis=1)
        return self._sorted

    def without(self, plans: Sequence[Reservation]) -> tuple[Ints, Times]:
        """The nodes of some plans, and their release times, ascending, if all that the plans take never were free."""
        held = [self._held_by(plan) for plan in plans]
        nodes: Ints = np.unique(np.concatenate([each[0] for each in held]))
        times = self._times[nodes]
        for on, taken in held:
            at = np.searchsorted(nodes, on)
            times[at] = np.where(taken, np.inf, times[at])
        times.sort(axis=1)
        return nodes, times

    def _held_by(self, plan: Reservation) -> tuple[Ints, Masks]:
        """The nodes and devices of a plan."""
        found = self._held.get(id(plan))  # the plan is kept as well: an identity is that of one object while it lives
        if found is None:
            masks: dict[int, int] = {}
            for share in plan.shares:
                if isinstance(share, DeviceShare):
                    masks[share.node] = masks.get(share.node, 0) | share.devices
            nodes = np.fromiter(masks, dtype=np.int64, count=len(masks))
            found = self._held[id(plan)] = plan, nodes, bits(list(masks.values()), self._index.capacity)
        return found[1:]


class Opening:
    """When one demand may fit."""

    __slots__ = ("_eligible", "_found", "_groups", "_openings", "_slots", "_smallest")

    def __init__(self, openings: Openings, index: PoolIndex, demand: Demand, parts: tuple[Part, ...]) -> None:
        layout = index.layout
        self._openings = openings
        self._eligible = layout.eligible(demand)
        self._slots = _slots(demand, parts)
        self._smallest = min(part.gpus for part in parts)
        self._found: dict[tuple[int, ...], tuple[float, Times]] = {}
        if demand.required and demand.level in ("node", "island"):
            self._smallest = sum(gpus * count for gpus, count in _least(demand, parts))
            self._slots = [(self._smallest, 1)]
            self._groups: Ints = np.zeros(layout.nodes, dtype=np.int64)
        else:
            starts = layout.groups[levels_to_try(layout, demand)[-1]]
            self._groups = (np.searchsorted(starts, layout.cell_of_node, side="right") - 1).astype(np.int64)

    def first_s(self, beside: Sequence[Reservation]) -> float:
        """Before this it does not fit beside some plans that never let go; infinite if it never does."""
        return self._times(beside)[0]

    def nodes_by(self, at_s: float, beside: Sequence[Reservation]) -> Ints:
        """The nodes that have room for at least one replica by then."""
        nodes: Ints = np.flatnonzero(self._times(beside)[1] <= at_s)
        return nodes

    def _times(self, beside: Sequence[Reservation]) -> tuple[float, Times]:
        key = tuple(map(id, beside))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look(beside)
        return found

    def _look(self, beside: Sequence[Reservation]) -> tuple[float, Times]:
        times = self._openings.by_device()
        if beside:
            nodes, others = self._openings.without(beside)
            times = times.copy()
            times[nodes] = others
        if self._eligible is not None:
            times = np.where(self._eligible[:, None], times, np.inf)
        firsts = [_first_by_group(times[:, gpus - 1 :: gpus], count, self._groups) for gpus, count in self._slots]
        if self._smallest > times.shape[1]:
            return math.inf, np.full(len(times), np.inf)
        return float(np.maximum.reduce(firsts).min()), times[:, self._smallest - 1]


def _first_by_group(times: Times, count: int, groups: Ints) -> Times:
    """By group, the time from which ``count`` of the entries of its nodes are reached; shape (groups,)."""
    each, number = times.shape[1], int(groups[-1]) + 1
    if number == 1:
        flat = times.ravel()
        return np.array([np.partition(flat, count - 1)[count - 1] if count <= flat.size else np.inf])
    flat, of = times.ravel(), np.repeat(groups, each)
    order = np.lexsort((flat, of))
    starts = np.searchsorted(of, np.arange(number + 1))
    at = starts[:-1] + count - 1
    found: Times = np.where(at < starts[1:], flat[order[np.minimum(at, flat.size - 1)]], np.inf)
    return found


def _least(demand: Demand, parts: Sequence[Part]) -> list[tuple[int, int]]:
    """(GPUs, replicas without which the gang does not start) of each part, the largest first."""
    return [
        (part.gpus, demand.roles[part.role].least_replicas if demand.roles else part.replicas)
        for part in sorted(parts, key=lambda part: -part.gpus)
    ]


def _slots(demand: Demand, parts: Sequence[Part]) -> list[tuple[int, int]]:
    """(GPUs, how many times so many on one node): what there must be for each part and all larger ones beside it. A
    larger replica fills at least as many slots of a smaller size as it could be cut into."""
    least = _least(demand, parts)
    return [
        (gpus, sum(count * (larger // gpus) for larger, count in least if larger >= gpus))
        for gpus in sorted({gpus for gpus, count in least if count})
    ]
