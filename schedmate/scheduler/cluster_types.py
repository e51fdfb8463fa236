"""What a cluster is made of, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from schedmate.scheduler.topology import Topology

#: What is taken on one node: (node number inside the pool, whole GPUs, ...). Plain pools use pairs, pools that are
#: described in detail a `DeviceShare`.
Share = tuple[int, int, *tuple[int, ...]]
Shares = tuple[Share, ...]

#: By node, what a plan leaves unused there. Made, read and reduced by the index of the pool only.
Spare = Mapping[int, Any]

#: A whole GPU.
WHOLE_MILLI = 1000

#: More than any node has: stands for a resource that the description does not limit.
UNLIMITED = 1 << 60


class DeviceShare(NamedTuple):
    """What is taken on one node of a pool described in detail.

    ``devices`` and ``nics`` are bit masks. With ``milli`` 0 the ``gpus`` devices are taken whole; otherwise ``gpus`` is
    0, and ``milli`` and ``device_memory_mib`` are taken of the one device named. ``sliced``: as a hardware slice (1)
    or as a time share (0); ``role`` is the number of the role in the demand, and ``replicas`` of it are meant.
    """

    node: int
    gpus: int
    devices: int
    milli: int = 0
    device_memory_mib: int = 0
    sliced: int = 0
    nics: int = 0
    cpus_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    role: int = 0
    replicas: int = 1


class Health(IntEnum):
    """Of a node. Only a healthy one takes new work; what runs on a cordoned or draining one stays until its end or its
    eviction; a node that is down has lost what ran on it."""

    HEALTHY = 0
    CORDONED = 1
    DRAINING = 2
    DOWN = 3


@dataclass(frozen=True, slots=True)
class Profile:
    """A hardware slice of one GPU (MIG-like): a share of its compute and of its memory."""

    name: str
    milli: int
    memory_mib: int

    def __post_init__(self) -> None:
        if not (0 < self.milli <= WHOLE_MILLI and self.memory_mib >= 0):
            raise ValueError(f"profile {self.name!r} needs 1 to {WHOLE_MILLI} milli and no negative memory")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What one node has. GPUs are numbered; ``islands`` and ``numa`` cut them into that many runs of equal length, and
    the ``nics`` are spread evenly over them. None: not limited, because not described.

    A node in a ``zone`` serves only jobs that name the zone; a ``taint`` keeps off all jobs that do not tolerate it.
    """

    gpus: int = 8
    islands: int = 1
    numa: int = 1
    nics: int = 0
    cpus_milli: int | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None
    labels: frozenset[tuple[str, str]] = frozenset()
    taints: frozenset[str] = frozenset()
    zone: str | None = None

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ValueError(f"a node with {self.gpus} GPUs")
        for name in ("islands", "numa"):
            parts = getattr(self, name)
            if parts < 1 or self.gpus % parts:
                raise ValueError(f"{self.gpus} GPUs can not be cut into {parts} equal {name}")
        if self.nics < 0:
            raise ValueError(f"a node with {self.nics} NICs")


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """``nodes`` nodes of one GPU type; ``ValueError`` for counts below 1 or parts that do not add up.

    Without ``shapes`` the pool is *plain*: equal nodes of ``gpus_per_node`` GPUs about which nothing else is known.
    ``shapes`` describes it in detail: (how many, what each has), in the order of the node numbers; the counts sum to
    ``nodes`` and ``gpus_per_node`` is the most that a node has. ``speed`` is relative to other types.
    """

    name: str
    nodes: int
    gpus_per_node: int
    shapes: tuple[tuple[int, NodeShape], ...] = ()
    topology: Topology = field(default_factory=Topology)
    speed: float = 1.0
    gpu_memory_mib: int | None = None
    profiles: tuple[Profile, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise ValueError(f"pool {self.name!r} needs at least one node and one GPU per node")
        if self.shapes:
            if sum(count for count, _ in self.shapes) != self.nodes or any(count < 1 for count, _ in self.shapes):
                raise ValueError(f"the shapes of pool {self.name!r} do not add up to its {self.nodes} nodes")
            if max(shape.gpus for _, shape in self.shapes) != self.gpus_per_node:
                raise ValueError(f"no node of pool {self.name!r} has {self.gpus_per_node} GPUs, or one has more")
        elif self.topology.levels or self.profiles:
            raise ValueError(f"pool {self.name!r} has a topology or profiles but no shapes")
        for level in self.topology.levels:
            if self.topology.starts(level)[-1] >= self.nodes:
                raise ValueError(f"a {level} group of pool {self.name!r} begins beyond its {self.nodes} nodes")
        if not 0 < self.speed < float("inf"):
            raise ValueError(f"pool {self.name!r} has a speed of {self.speed}")

    @classmethod
    def detailed(
        cls,
        name: str,
        shapes: tuple[tuple[int, NodeShape], ...],
        topology: Topology | None = None,
        speed: float = 1.0,
        gpu_memory_mib: int | None = None,
        profiles: tuple[Profile, ...] = (),
    ) -> PoolSpec:
        """A pool described by its nodes."""
        if not shapes:
            raise ValueError(f"pool {name!r} needs at least one node")
        nodes, most = sum(count for count, _ in shapes), max(shape.gpus for _, shape in shapes)
        return cls(name, nodes, most, shapes, topology or Topology(), speed, gpu_memory_mib, profiles)

    @property
    def is_plain(self) -> bool:
        """Whether nothing but counts is known."""
        return not self.shapes

    @property
    def gpus(self) -> int:
        """GPUs of the whole pool."""
        if not self.shapes:
            return self.nodes * self.gpus_per_node
        return sum(count * shape.gpus for count, shape in self.shapes)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The pools, in the order in which they are tried for a job that accepts any."""

    pools: tuple[PoolSpec, ...]

    def __post_init__(self) -> None:
        if not self.pools:
            raise ValueError("a cluster needs at least one pool")
        names = [pool.name for pool in self.pools]
        if len(set(names)) != len(names):
            raise ValueError("two pools have the same name")

    @classmethod
    def uniform(cls, nodes: int, gpus_per_node: int = 8, name: str = "gpu") -> ClusterSpec:
        """One pool of equal nodes."""
        return cls((PoolSpec(name, nodes, gpus_per_node),))

    def in_detail(self) -> ClusterSpec:
        """The same cluster with every plain pool described in detail, so that jobs may ask for more than whole GPUs."""
        return ClusterSpec(
            tuple(
                PoolSpec.detailed(
                    pool.name,
                    ((pool.nodes, NodeShape(pool.gpus_per_node)),),
                    speed=pool.speed,
                    gpu_memory_mib=pool.gpu_memory_mib,
                )
                if pool.is_plain
                else pool
                for pool in self.pools
            )
        )

    @property
    def gpus(self) -> int:
        """GPUs of the whole cluster."""
        return sum(pool.gpus for pool in self.pools)

    @property
    def nodes(self) -> int:
        """Nodes of the whole cluster."""
        return sum(pool.nodes for pool in self.pools)
