"""Nodes with shareable GPUs as plain arrays, and what it means for a pod to fit: shared by all baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WHOLE_GPU_MILLI = 1000

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Pod:
    """A request: `num_gpu` devices with `gpu_milli` each (a share only when one device is asked for).

    `models`: the acceptable GPU models, empty for any.
    """

    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    models: tuple[str, ...] = ()

    @property
    def total_gpu_milli(self) -> int:
        """Milli-GPU over all its devices."""
        return self.num_gpu * self.gpu_milli


@dataclass
class ClusterArrays:
    """N nodes with at most D devices each. A device that a node does not have has 0 free and 0 capacity.

    cpu_free, cpu_cap (milli), memory_free, memory_cap (MiB): shape (N,); gpu_free, gpu_cap (milli): (N, D);
    model: (N,), index into `model_names`; `changed` lists the node of every placement so far, in order.
    """

    cpu_free: Ints
    memory_free: Ints
    gpu_free: Ints
    cpu_cap: Ints
    memory_cap: Ints
    gpu_cap: Ints
    model: Ints
    model_names: tuple[str, ...]
    changed: list[int]

    @classmethod
    def of(cls, nodes: Sequence[tuple[int, int, int, str]]) -> ClusterArrays:
        """Build an empty cluster from rows (cpu milli, memory MiB, GPUs, model)."""
        names = tuple(sorted({row[3] for row in nodes}))
        width = max(row[2] for row in nodes)
        cpu, memory, count = (np.array([row[i] for row in nodes], dtype=np.int64) for i in range(3))
        gpu = np.where(np.arange(width) < count[:, None], WHOLE_GPU_MILLI, 0).astype(np.int64)
        model = np.array([names.index(row[3]) for row in nodes], dtype=np.int64)
        return cls(cpu.copy(), memory.copy(), gpu.copy(), cpu, memory, gpu, model, names, [])

    def place(self, node: int, devices: Sequence[int], pod: Pod) -> None:
        """Take the resources; raises ValueError when they are not there."""
        devices = list(devices)
        take = WHOLE_GPU_MILLI if pod.num_gpu > 1 else pod.gpu_milli
        ok = len(set(devices)) == len(devices) == pod.num_gpu
        ok = ok and bool((self.gpu_free[node, devices] >= take).all())
        ok = ok and self.cpu_free[node] >= pod.cpu_milli and self.memory_free[node] >= pod.memory_mib
        ok = ok and (not pod.models or self.model_names[self.model[node]] in pod.models)
        if not ok:
            raise ValueError(f"{pod} does not fit node {node} on devices {devices}")
        self.cpu_free[node] -= pod.cpu_milli
        self.memory_free[node] -= pod.memory_mib
        self.gpu_free[node, devices] -= take
        self.changed.append(node)


Placement = tuple[int, tuple[int, ...]]
Policy = Callable[[ClusterArrays, Pod], Placement | None]
"""Where to put a pod: (node, devices), or None when it fits nowhere. It must not change the arrays."""


def fits(cluster: ClusterArrays, pod: Pod, nodes: Ints | None = None) -> Bools:
    """Which of `nodes` (of all, when None) can take the pod now."""
    at: slice | Ints = slice(None) if nodes is None else nodes
    ok: Bools = (cluster.cpu_free[at] >= pod.cpu_milli) & (cluster.memory_free[at] >= pod.memory_mib)
    if pod.num_gpu:
        ok &= (cluster.gpu_free[at] >= pod.gpu_milli).sum(axis=1) >= pod.num_gpu
    if pod.models:
        wanted = [i for i, name in enumerate(cluster.model_names) if name in pod.models]
        ok &= np.isin(cluster.model[at], wanted)
    return ok


def tightest_devices(free_milli: Ints, pod: Pod) -> tuple[int, ...]:
    """The pod's devices on one node: those with least free that suffices, lowest index first among equals."""
    order = np.argsort(free_milli, kind="stable")
    return tuple(int(i) for i in order if free_milli[i] >= pod.gpu_milli)[: pod.num_gpu]
