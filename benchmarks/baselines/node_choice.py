"""Where a small job (less than a node) goes: reference placements for `gang_cluster`."""

from __future__ import annotations

import random

from benchmarks.baselines.gang_cluster import Allowed, Cluster, Job, Place


def best_fit(seed: int) -> Place:
    """The fullest node that fits, any of several (a bin-packing score alone, as in Kubernetes' MostAllocated)."""
    rng = random.Random(seed)

    def place(cluster: Cluster, job: Job, now_s: float, allowed: Allowed) -> int | None:
        for free in range(job.gpus, cluster.gpus_per_node + 1):
            nodes = sorted(node for node in cluster.by_free[free] if allowed(node))
            if nodes:
                return rng.choice(nodes)
        return None

    return place


def tight_best_fit(cluster: Cluster, job: Job, now_s: float, allowed: Allowed) -> int | None:
    """The fullest node that fits; among equals the one in the LeafGroup with least free, then the lowest index."""
    for free in range(job.gpus, cluster.gpus_per_node + 1):
        nodes = [node for node in cluster.by_free[free] if allowed(node)]
        if len(nodes) > 1:
            used = {leaf: _leaf_free(cluster, leaf) for leaf in {node // cluster.nodes_per_leaf for node in nodes}}
            return min(nodes, key=lambda node: (used[node // cluster.nodes_per_leaf], node))
        if nodes:
            return nodes[0]
    return None


def least_allocated(cluster: Cluster, job: Job, now_s: float, allowed: Allowed) -> int | None:
    """The emptiest node that fits, lowest index first (Kubernetes' default)."""
    for free in range(cluster.gpus_per_node, job.gpus - 1, -1):
        nodes = [node for node in cluster.by_free[free] if allowed(node)]
        if nodes:
            return min(nodes)
    return None


def _leaf_free(cluster: Cluster, leaf: int) -> int:
    first = leaf * cluster.nodes_per_leaf
    return sum(cluster.free[first : first + cluster.nodes_per_leaf])
