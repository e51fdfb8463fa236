"""The fixed side of a pool described in detail: what its nodes have, its groups, who may use which node.

The tightest groups of the topology are its *cells*; a wider group is a run of cells, as a cell is a run of nodes.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import UNLIMITED, WHOLE_MILLI, NodeShape, PoolSpec
from schedmate.scheduler.demand import Demand

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Part(NamedTuple):
    """One role of a demand as this pool reads it: ``replicas`` times so much, each on one node."""

    role: int
    replicas: int
    gpus: int
    milli: int = 0
    device_memory_mib: int = 0
    sliced: int = 0
    nics: int = 0
    cpus_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0

    @property
    def only_gpus(self) -> bool:
        """Whether whole GPUs are all it asks for."""
        return self.gpus > 0 and not (self.nics or self.cpus_milli or self.memory_mib or self.disk_mib)


class PoolLayout:
    """Derived from a `PoolSpec` once. ``levels`` are those of its topology, the tightest first, then ``pool``;
    ``groups[level]`` the first cell of every group; ``shapes[n]`` what node n has."""

    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        self.nodes = spec.nodes
        self.capacity = spec.gpus_per_node
        self.shapes: list[NodeShape] = [shape for count, shape in spec.shapes for _ in range(count)]
        self.devices = [(1 << shape.gpus) - 1 for shape in self.shapes]
        self.cpus_milli = _amounts([shape.cpus_milli for shape in self.shapes])
        self.memory_mib = _amounts([shape.memory_mib for shape in self.shapes])
        self.disk_mib = _amounts([shape.disk_mib for shape in self.shapes])
        self.device_memory_mib = UNLIMITED if spec.gpu_memory_mib is None else spec.gpu_memory_mib
        self.has_nics = any(shape.nics for shape in self.shapes)
        self._lay_out_groups()
        self._open = all(not shape.taints and shape.zone is None for shape in self.shapes)
        self._eligible: dict[tuple[object, ...], Bools] = {}
        self._parts: WeakKeyDictionary[Demand, tuple[Part, ...] | str] = WeakKeyDictionary()
        self._weights: dict[int, Ints] = {}
        self._rows: dict[int, Ints] = {}

    def _lay_out_groups(self) -> None:
        topology = self.spec.topology
        cells = topology.starts(topology.levels[0]) if topology.levels else (0,)
        self.cells: Ints = np.array(cells, dtype=np.int64)
        self.bounds = list(zip(cells, (*cells[1:], self.nodes), strict=True))
        self.cell_of = [cell for cell, (first, end) in enumerate(self.bounds) for _ in range(first, end)]
        self.cell_of_node: Ints = np.array(self.cell_of, dtype=np.int64)
        self.levels = (*topology.levels, "pool")
        self.groups: dict[str, Ints] = {
            level: np.searchsorted(self.cells, np.array(topology.starts(level), dtype=np.int64))
            for level in topology.levels
        }
        self.groups["pool"] = np.zeros(1, dtype=np.int64)
        gpus = np.array([shape.gpus for shape in self.shapes], dtype=np.int64)
        self.cell_gpus: Ints = np.add.reduceat(gpus, self.cells)

    def eligible(self, demand: Demand) -> Bools | None:
        """The nodes whose labels, taints and zone let the demand in, shape (nodes,); None for all of them."""
        if self._open and demand.anywhere:
            return None
        key = (demand.selector, demand.tolerations, demand.zone)
        found = self._eligible.get(key)
        if found is None:
            found = self._eligible[key] = np.array([_admits(shape, demand) for shape in self.shapes], dtype=np.bool_)
        return found

    def parts(self, demand: Demand) -> tuple[Part, ...] | str:
        """The demand's roles, the largest first; a string says why this pool can not know or never has such a thing."""
        found = self._parts.get(demand)
        if found is None:
            found = self._parts[demand] = self._read(demand)
        return found

    def row_of(self, free: int) -> Ints:
        """Milli-GPU of each device where those of a mask are free and the others are not; shape (devices,). Not to be
        changed."""
        found = self._rows.get(free)
        if found is None:
            row = [WHOLE_MILLI if free >> device & 1 else 0 for device in range(self.capacity)]
            found = self._rows[free] = np.array(row, dtype=np.int64)
        return found

    def weights(self, gpus: int) -> Ints:
        """Replicas of ``gpus`` GPUs that a node holds, by the bucket it is in (see `PoolIndex`)."""
        found = self._weights.get(gpus)
        if found is None:
            free = np.arange(2 * self.capacity + 1, dtype=np.int64)
            free[self.capacity :] -= self.capacity
            found = self._weights[gpus] = free // gpus
        return found

    def _read(self, demand: Demand) -> tuple[Part, ...] | str:
        if demand.gpu_types and self.spec.name not in demand.gpu_types:
            return f"GPUs of type {self.spec.name} are not acceptable"
        if demand.required and demand.level not in ("node", "island", *self.levels):
            return f"pool {self.spec.name} has no {demand.level} groups"
        if not demand.roles:
            whole, rest = divmod(demand.gpus, self.capacity)
            parts = ([Part(0, whole, self.capacity)] if whole else []) + ([Part(0, 1, rest)] if rest else [])
            return tuple(parts)
        profiles = {profile.name: profile for profile in self.spec.profiles}
        found = []
        for number, role in enumerate(demand.roles):
            milli, memory_mib, sliced = (role.milli_gpu if demand.shareable else 0), role.gpu_memory_mib, 0
            if role.profile is not None:
                profile = profiles.get(role.profile)
                if profile is None:
                    return f"pool {self.spec.name} has no slices {role.profile}"
                milli, memory_mib, sliced = profile.milli, max(profile.memory_mib, memory_mib), 1
                if profile.memory_mib < role.gpu_memory_mib:
                    return f"a slice {role.profile} has {profile.memory_mib} MiB, {role.gpu_memory_mib} are asked for"
            if memory_mib > self.device_memory_mib:
                return f"a GPU of pool {self.spec.name} has {self.device_memory_mib} MiB, {memory_mib} are asked for"
            if milli >= WHOLE_MILLI and not sliced:
                milli = 0
            found.append(
                Part(
                    number, role.replicas, demand.whole_gpus(role), milli, memory_mib, sliced, role.nics,
                    role.cpus_milli, role.memory_mib, role.disk_mib,
                )
            )  # fmt: skip
        return tuple(sorted(found, key=lambda part: (-part.gpus, -part.milli, -part.cpus_milli, part.role)))


def _amounts(values: list[int | None]) -> Ints | None:
    """One value a node; None where no node is limited."""
    if all(value is None for value in values):
        return None
    return np.array([UNLIMITED if value is None else value for value in values], dtype=np.int64)


def _admits(shape: NodeShape, demand: Demand) -> bool:
    return shape.zone == demand.zone and demand.selector <= shape.labels and shape.taints <= demand.tolerations
