"""The cluster as it is: one `FreeIndex` per pool and the counters that metrics read. Changed by transactions only."""

from __future__ import annotations

from collections.abc import Iterable

from schedmate.scheduler.cluster_types import ClusterSpec, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex


class Cluster:
    """Free and allocated GPUs of all pools. ``pools[i]`` belongs to ``spec.pools[i]``."""

    __slots__ = ("allocated_gpus", "by_name", "pools", "spec")

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.pools = [FreeIndex(pool.nodes, pool.gpus_per_node) for pool in spec.pools]
        self.by_name = {pool.name: i for i, pool in enumerate(spec.pools)}
        self.allocated_gpus = 0

    @classmethod
    def rebuilt(cls, spec: ClusterSpec, running: Iterable[tuple[int, Shares]]) -> Cluster:
        """The same cluster made anew from what runs on it: pairs of (pool number, shares)."""
        cluster = cls(spec)
        for pool, shares in running:
            cluster.pools[pool].take(shares)
            cluster.allocated_gpus += sum(share[1] for share in shares)
        return cluster

    def fragmented_nodes(self) -> int:
        """Nodes with some but not all GPUs allocated."""
        return sum(pool.fragmented_nodes() for pool in self.pools)

    def pools_for(self, demand: Demand, gpu_type: str | None) -> tuple[int, ...]:
        """Numbers of the pools that could ever hold such a gang, in order; empty if none could."""
        return tuple(
            i
            for i, pool in enumerate(self.spec.pools)
            if demand.gpus <= pool.gpus and (gpu_type is None or gpu_type == pool.name)
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Cluster)
            and self.spec == other.spec
            and self.pools == other.pools
            and self.allocated_gpus == other.allocated_gpus
        )

    __hash__ = None  # type: ignore[assignment]
