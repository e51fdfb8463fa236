"""Classical packing policies on shareable GPUs: best-fit, dot product, least-allocated, random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.gpu_share import ClusterArrays, Placement, Pod, Policy, fits, tightest_devices

Floats = NDArray[np.float64]


def _best(cluster: ClusterArrays, pod: Pod, score: Floats) -> Placement | None:
    """The fitting node with the least score, the lowest index among equals, and its tightest devices."""
    score = np.where(fits(cluster, pod), score, np.inf)
    node = int(score.argmin())
    if score[node] == np.inf:
        return None
    return node, tightest_devices(cluster.gpu_free[node], pod)


def best_fit(cluster: ClusterArrays, pod: Pod) -> Placement | None:
    """Least left over: CPU and GPU, each against the largest node's capacity, in equal parts (as FGD's authors do)."""
    cpu_left = (cluster.cpu_free - pod.cpu_milli) / cluster.cpu_cap.max()
    gpu_left = (cluster.gpu_free.sum(axis=1) - pod.total_gpu_milli) / cluster.gpu_cap.sum(axis=1).max()
    return _best(cluster, pod, cpu_left + gpu_left)


def least_allocated(cluster: ClusterArrays, pod: Pod) -> Placement | None:
    """Worst fit: the node with most free, as shares of its own capacity (Kubernetes' default spreading score)."""
    cpu = (cluster.cpu_free - pod.cpu_milli) / cluster.cpu_cap
    gpu = (cluster.gpu_free.sum(axis=1) - pod.total_gpu_milli) / cluster.gpu_cap.sum(axis=1)
    node = _best(cluster, pod, -(cpu + gpu))
    if node is None or not pod.num_gpu:
        return node
    free = cluster.gpu_free[node[0]]
    order = np.argsort(-free, kind="stable")
    return node[0], tuple(int(i) for i in order[: pod.num_gpu])


def dot_product(cluster: ClusterArrays, pod: Pod) -> Placement | None:
    """Vector alignment as FGD's authors measured it: the smaller the product of demand and free, the better.

    (Tetris, SIGCOMM'14, maximises it to choose a task for a machine; for a machine given the task its authors and FGD's
    use the product to prefer nodes with little left in what the task wants.)
    """
    cpu = (cluster.cpu_free / cluster.cpu_cap.max()) * (pod.cpu_milli / cluster.cpu_cap.max())
    capacity = cluster.gpu_cap.sum(axis=1).max()
    gpu = (cluster.gpu_free.sum(axis=1) / capacity) * (pod.total_gpu_milli / capacity)
    return _best(cluster, pod, cpu + gpu)


def tetris(cluster: ClusterArrays, pod: Pod) -> Placement | None:
    """Vector alignment as Tetris states it: the larger the product of demand and free (as shares), the better."""
    total = cluster.gpu_cap.sum(axis=1)
    cpu = (cluster.cpu_free / cluster.cpu_cap) * (pod.cpu_milli / cluster.cpu_cap)
    memory = (cluster.memory_free / cluster.memory_cap) * (pod.memory_mib / cluster.memory_cap)
    gpu = (cluster.gpu_free.sum(axis=1) / total) * (pod.total_gpu_milli / total)
    return _best(cluster, pod, -(cpu + memory + gpu))


def random_fit(seed: int) -> Policy:
    """Any fitting node and any fitting devices with equal chance."""
    rng = np.random.default_rng(seed)

    def place(cluster: ClusterArrays, pod: Pod) -> Placement | None:
        nodes = np.flatnonzero(fits(cluster, pod))
        if not len(nodes):
            return None
        node = int(rng.choice(nodes))
        free = np.flatnonzero(cluster.gpu_free[node] >= max(pod.gpu_milli, 1))
        return node, tuple(int(i) for i in rng.choice(free, pod.num_gpu, replace=False)) if pod.num_gpu else ()

    return place
