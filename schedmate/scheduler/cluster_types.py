"""What a cluster is made of, as data."""

from __future__ import annotations

from dataclasses import dataclass

#: GPUs taken on nodes of one pool: pairs of (node index inside the pool, GPUs).
Shares = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """``nodes`` equal nodes of one GPU type with ``gpus_per_node`` GPUs each; ``ValueError`` if either is < 1."""

    name: str
    nodes: int
    gpus_per_node: int

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise ValueError(f"pool {self.name!r} needs at least one node and one GPU per node")

    @property
    def gpus(self) -> int:
        """GPUs of the whole pool."""
        return self.nodes * self.gpus_per_node


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

    @property
    def gpus(self) -> int:
        """GPUs of the whole cluster."""
        return sum(pool.gpus for pool in self.pools)

    @property
    def nodes(self) -> int:
        """Nodes of the whole cluster."""
        return sum(pool.nodes for pool in self.pools)
