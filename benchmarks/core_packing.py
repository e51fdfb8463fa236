"""The scheduler core as a policy of `benchmarks.openb`: its own index of the cluster, its own choices."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.gpu_share import WHOLE_GPU_MILLI, ClusterArrays, Placement, Pod
from schedmate.scheduler import POLICIES, Job, Scheduler, Unschedulable
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec, DeviceShare, NodeShape, PoolSpec, Shares
from schedmate.scheduler.demand import Demand, Role
from schedmate.scheduler.placement import place_on_any


class SchedulerPacking:
    """Submits pods to the real scheduler one by one, each followed by a cycle; what does not start at once is taken
    back, as a rejected pod is."""

    def __init__(self) -> None:
        self._scheduler: Scheduler | None = None
        self._nodes: list[list[int]] = []
        self._number = 0

    def __call__(self, arrays: ClusterArrays, pod: Pod) -> Placement | None:
        """The choice for one pod."""
        if self._scheduler is None:
            spec, self._nodes = spec_of(arrays)
            self._scheduler = Scheduler(spec, POLICIES["core"])
        scheduler, demand, now = self._scheduler, demand_of(pod), float(self._number)
        self._number += 1
        try:
            slot = scheduler.submit(Job(f"pod-{self._number}", demand.gpus, now, demand=demand, gpu_types=pod.models))
        except Unschedulable:
            return None
        if slot not in scheduler.cycle(now):
            scheduler.withdraw(slot)
            return None
        placed = scheduler.decision(slot).placement
        if placed is None:
            raise RuntimeError(f"pod {self._number} was started without a placement")
        return _chosen(self._nodes[scheduler.state.cluster.by_name[placed.pool]], placed.shares)


class CorePacking:
    """Places pods one by one as the core does, without queue, plans and quota: its placement alone."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._nodes: list[list[int]] = []

    def __call__(self, arrays: ClusterArrays, pod: Pod) -> Placement | None:
        """The choice for one pod; it is taken in the core's own index as well, since `fill` always follows it."""
        if self._cluster is None:
            spec, self._nodes = spec_of(arrays)
            self._cluster = Cluster(spec)
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
        return _chosen(self._nodes[pool], shares)


def _chosen(nodes: list[int], shares: Shares) -> Placement:
    """The node, by its number in the arrays, and the devices of the single share of a pod."""
    share = shares[0]
    devices = share.devices if isinstance(share, DeviceShare) else 0
    return nodes[share[0]], tuple(d for d in range(devices.bit_length()) if devices >> d & 1)


def spec_of(arrays: ClusterArrays) -> tuple[ClusterSpec, list[list[int]]]:
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
    return ClusterSpec(tuple(pools)), numbers


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
