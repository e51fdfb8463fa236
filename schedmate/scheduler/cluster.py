"""The cluster as it is: one index per pool and the counters that metrics read. Changed by transactions only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedmate.scheduler.cluster_types import ClusterSpec, Health, PoolSpec, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.outlook import Outlook, Waste
from schedmate.scheduler.placement import place, why_not
from schedmate.scheduler.pool_index import Condition, PoolIndex
from schedmate.scheduler.pool_layout import PoolLayout

Index = FreeIndex | PoolIndex


class Cluster:
    """Free and allocated resources of all pools. ``pools[i]`` belongs to ``spec.pools[i]``.

    ``outlook`` is to be told of every demand; None where all pools are plain.
    """

    __slots__ = ("_empty", "allocated_gpus", "by_name", "outlook", "pools", "spec")

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._empty = [_index(pool) for pool in spec.pools]
        self.pools: list[Index] = [index.copy() for index in self._empty]
        detailed = [index for index in self.pools if isinstance(index, PoolIndex)]
        self.outlook = Outlook() if detailed else None
        if self.outlook is not None:
            for index in detailed:
                index.waste = Waste(index.layout, self.outlook)
        self.by_name = {pool.name: i for i, pool in enumerate(spec.pools)}
        self.allocated_gpus = 0

    @classmethod
    def rebuilt(
        cls, spec: ClusterSpec, running: Iterable[tuple[int, Shares]], conditions: Sequence[Condition | None] = ()
    ) -> Cluster:
        """The same cluster made anew from what runs on it, pairs of (pool number, shares), and what is broken."""
        cluster = cls(spec)
        for pool, shares in running:
            cluster.pools[pool].take(shares)
            cluster.allocated_gpus += sum(share[1] for share in shares)
        for index, condition in zip(cluster.pools, conditions, strict=False):
            if condition is not None and isinstance(index, PoolIndex):
                index.set_condition(condition)
        return cluster

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """What is not healthy, by pool; None for plain pools."""
        return tuple(index.condition if isinstance(index, PoolIndex) else None for index in self.pools)

    def number_of(self, name: str, node: int, device: int = 0) -> int:
        """The number of a pool that is described in detail and has such a node, and such a GPU on it. ``ValueError`` if
        there is none."""
        if name not in self.by_name:
            raise ValueError(f"there is no pool {name}; there are {', '.join(self.by_name)}")
        index = self._in_detail(self.by_name[name], node)
        if not 0 <= device < index.layout.shapes[node].gpus:
            raise ValueError(f"node {node} of pool {name} has no GPU {device}")
        return self.by_name[name]

    def set_health(self, pool: int, node: int, health: Health) -> None:
        """Cordon, drain, lose or get back a node; what runs on a lost one is for the caller to end. ``ValueError`` if
        there is no such node, or if the pool is known by counts only."""
        self._in_detail(pool, node).set_health(node, health)

    def set_bad(self, pool: int, node: int, device: int, bad: bool) -> None:
        """A single GPU breaks or is repaired; the job on a broken one is for the caller to end."""
        index = self._in_detail(pool, node)
        known = index.bad.get(node, 0) & ~(1 << device)
        index.set_bad(node, known | bad << device)

    def note_fault(self, pool: int, node: int, weight: float, now: float, half_life_s: float) -> None:
        """Something broke on a node, or points at it."""
        self._in_detail(pool, node).note_fault(node, weight, now, half_life_s)

    def _in_detail(self, pool: int, node: int) -> PoolIndex:
        index, spec = self.pools[pool], self.spec.pools[pool]
        if not isinstance(index, PoolIndex):
            raise ValueError(f"pool {spec.name} is known by counts only; describe it in detail to say what is broken")
        if not 0 <= node < spec.nodes:
            raise ValueError(f"pool {spec.name} has no node {node}")
        return index

    def fragmented_nodes(self) -> int:
        """Nodes with some but not all GPUs allocated."""
        return sum(pool.fragmented_nodes() for pool in self.pools)

    def pools_for(
        self, demand: Demand, gpu_type: str | None = None, gpu_memory_mib: float | None = None
    ) -> tuple[int, ...]:
        """Numbers of the pools that could hold such a gang if nothing else ran and all were healthy; may be empty.

        In the order of the demand's GPU types, else of the cluster. With a hint ``gpu_memory_mib`` of what a GPU will
        be made to hold, types with enough come first, the smallest leading, then those of which nothing is known.
        """
        order = [self.by_name[name] for name in demand.gpu_types if name in self.by_name] or range(len(self.pools))
        found = [
            i
            for i in order
            if (gpu_type is None or gpu_type == self.spec.pools[i].name) and place(self._empty[i], demand) is not None
        ]
        if gpu_memory_mib is not None:
            found.sort(key=lambda i: _memory_order(self.spec.pools[i], gpu_memory_mib))
        return tuple(found)

    def why_never(self, demand: Demand, pool: int) -> str:
        """Why a pool could not hold such a gang even if nothing else ran."""
        return why_not(self.spec.pools[pool], self._empty[pool], demand)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Cluster)
            and self.spec == other.spec
            and self.pools == other.pools
            and self.allocated_gpus == other.allocated_gpus
        )

    __hash__ = None  # type: ignore[assignment]


def _index(pool: PoolSpec) -> Index:
    return FreeIndex(pool.nodes, pool.gpus_per_node) if pool.is_plain else PoolIndex(PoolLayout(pool))


def _memory_order(pool: PoolSpec, needed_mib: float) -> tuple[int, int]:
    if pool.gpu_memory_mib is None:
        return 1, 0
    return (0, pool.gpu_memory_mib) if pool.gpu_memory_mib >= needed_mib else (2, -pool.gpu_memory_mib)
