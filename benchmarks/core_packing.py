"""The scheduler core as a policy of `benchmarks.openb`: its own index of the cluster, its own choices."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.gpu_share import WHOLE_GPU_MILLI, ClusterArrays, Placement, Pod
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec, DeviceShare, NodeShape, PoolSpec
from schedmate.scheduler.demand import Demand, Role
from schedmate.scheduler.placement import place_on_any


class CorePacking:
    """Places pods one by one as the core does: pools in order, the first that has a place."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._nodes: list[list[int]] = []

    def __call__(self, arrays: ClusterArrays, pod: Pod) -> Placement | None:
        """The choice for one pod; it is taken in the core's own index as well, since `fill` always follows it."""
        if self._cluster is None:
            self._cluster, self._nodes = cluster_of(arrays)
        cluster, demand = self._cluster, demand_of(pod)
        if cluster.outlook is not None:
            cluster.outlook.observe(demand)
        pools = [
            pool for pool in cluster.pools_for(demand) if not pod.models or cluster.spec.pools[pool].name in pod.models
        ]
        found = place_on_any([cluster.pools[pool] for pool in pools], demand)
        if found is None:
            return None
        pool, shares = pools[found[0]], found[1]
        cluster.pools[pool].take(shares)
        share = shares[0]
        devices = share.devices if isinstance(share, DeviceShare) else 0
        return self._nodes[pool][share[0]], tuple(d for d in range(devices.bit_length()) if devices >> d & 1)


def cluster_of(arrays: ClusterArrays) -> tuple[Cluster, list[list[int]]]:
    """One pool a GPU model, the most frequent first, nodes in the order of the arrays; and their numbers there."""
    pools, numbers = [], []
    gpus = (arrays.gpu_cap > 0).sum(axis=1)
    per_model = np.bincount(arrays.model, weights=gpus, minlength=len(arrays.model_names))
    for model in np.argsort(-per_model, kind="stable").tolist():
        nodes = np.flatnonzero(arrays.model == model).tolist()
        shapes = tuple(
            (1, NodeShape(int(gpus[n]), cpus_milli=int(arrays.cpu_cap[n]), memory_mib=int(arrays.memory_cap[n])))
            for n in nodes
        )
        pools.append(PoolSpec.detailed(arrays.model_names[model], shapes))
        numbers.append(nodes)
    return Cluster(ClusterSpec(tuple(pools))), numbers


def demand_of(pod: Pod) -> Demand:
    """A pod as a gang of one."""
    shared = pod.num_gpu == 1 and pod.gpu_milli < WHOLE_GPU_MILLI
    role = Role(
        gpus=0 if shared else pod.num_gpu,
        milli_gpu=pod.gpu_milli if shared else 0,
        cpus_milli=pod.cpu_milli,
        memory_mib=pod.memory_mib,
    )
    return Demand.of((role,), gpu_types=pod.models, shareable=shared)
