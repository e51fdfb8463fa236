"""Fragmentation gradient descent (FGD, Weng et al., ATC'23), and the machinery to descend any other measure of a node.

A measure tells, for node states, how much GPU is as good as lost. The policy puts each pod where
it grows least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines.gpu_share import ClusterArrays, Ints, Placement, Pod, Policy, fits, tightest_devices

Floats = NDArray[np.float64]

POPULAR_SHARE = 0.95
"""The paper's target workload: the most frequent requests that make up this share of pods."""


@dataclass(frozen=True)
class States:
    """M node states: free milli-CPU (M,), free MiB (M,), free milli per device (M, D), model index (M,)."""

    cpu: Ints
    memory: Ints
    gpu: Ints
    model: Ints


Measure = Callable[[States], Floats]


@dataclass(frozen=True)
class TypicalPods:
    """The target workload: T requests with their frequencies, which sum to 1.

    Memory is left out, as in the paper. `level`: index into `levels`, the distinct milli-GPU values per device.
    `accepts`: (T, models), whether the request accepts the model.
    """

    frequency: Floats
    cpu: Ints
    num_gpu: Ints
    level: Ints
    levels: Ints
    accepts: NDArray[np.bool_]

    @classmethod
    def of(cls, pods: Iterable[Pod], model_names: tuple[str, ...], share: float = POPULAR_SHARE) -> TypicalPods:
        """Count the requests of `pods` and keep the most frequent ones up to `share`."""
        counts = Counter((p.cpu_milli, p.num_gpu, p.gpu_milli, p.models) for p in pods).most_common()
        weight = np.array([n for _, n in counts], dtype=float)
        keep = int(np.searchsorted(np.cumsum(weight), share * weight.sum())) + 1
        kinds, weight = [kind for kind, _ in counts[:keep]], weight[:keep]
        levels = np.unique([kind[2] for kind in kinds])
        return cls(
            frequency=weight / weight.sum(),
            cpu=np.array([kind[0] for kind in kinds]),
            num_gpu=np.array([kind[1] for kind in kinds]),
            level=np.searchsorted(levels, [kind[2] for kind in kinds]),
            levels=levels,
            accepts=np.array([[not kind[3] or name in kind[3] for name in model_names] for kind in kinds]),
        )


def fragmentation(typical: TypicalPods) -> Measure:
    """The paper's measure: GPU milli of a node that a pod of the target workload is expected to be unable to use.

    All that is free when the pod does not fit (or wants no GPU), else the free parts of devices too small for it.
    """

    def measure(states: States) -> Floats:
        free = states.gpu.sum(axis=1)
        enough = states.gpu[:, None, :] >= typical.levels[None, :, None]
        count = enough.sum(axis=2)[:, typical.level]
        scraps = np.where(enough, 0, states.gpu[:, None, :]).sum(axis=2)[:, typical.level]
        usable = (count >= typical.num_gpu) & (states.cpu[:, None] >= typical.cpu) & (typical.num_gpu > 0)
        usable &= typical.accepts.T[states.model]
        lost: Floats = np.where(usable, scraps, free[:, None]) @ typical.frequency
        return lost

    return measure


@dataclass
class _Column:
    """What one kind of pod would cost on each node, valid up to `seen` entries of the cluster's list of changes.

    `surcharge` is the part that does not depend on what is free.
    """

    cost: Floats
    surcharge: Floats | float
    device: Ints
    seen: int


@dataclass
class Descent:
    """Puts a pod where `measure` grows least; on a device of its own choice when the pod shares one.

    `rank` turns growth into what is compared (rounding it, say). `pull` (milli per milli) makes a node that much
    dearer for every free milli-GPU it has: a best-fit leaning. `surcharge` is what a kind of pod costs on each node
    whatever is free there. Ties go to the lowest index. Growth is kept per kind of pod and recomputed only for nodes
    that changed.
    """

    measure: Measure
    rank: Callable[[Floats], Floats] = field(default=lambda growth: growth)
    pull: float = 0.0
    surcharge: Callable[[ClusterArrays, Pod], Floats | float] = field(default=lambda cluster, pod: 0.0)
    columns: dict[Pod, _Column] = field(default_factory=dict)

    def __call__(self, cluster: ClusterArrays, pod: Pod) -> Placement | None:
        column = self._column(cluster, pod)
        cost = column.cost + column.surcharge
        if self.pull:
            cost += self.pull * cluster.gpu_free.sum(axis=1)
        node = int(cost.argmin())
        if cost[node] == np.inf:
            return None
        if pod.num_gpu == 1:
            return node, (int(column.device[node]),)
        return node, tightest_devices(cluster.gpu_free[node], pod)

    def _column(self, cluster: ClusterArrays, pod: Pod) -> _Column:
        column = self.columns.get(pod)
        if column is None:
            nodes = np.arange(len(cluster.cpu_free))
            devices = np.zeros(len(nodes), dtype=np.int64)
            column = _Column(np.empty(len(nodes)), self.surcharge(cluster, pod), devices, len(cluster.changed))
            self.columns[pod] = column
        else:
            nodes = np.unique(np.array(cluster.changed[column.seen :], dtype=np.int64))
            column.seen = len(cluster.changed)
        if len(nodes):
            growths = growth(self.measure, cluster, pod, nodes)
            cost = self.rank(growths)
            column.device[nodes] = cost.argmin(axis=1)
            column.cost[nodes] = cost.min(axis=1)
        return column


def growth(measure: Measure, cluster: ClusterArrays, pod: Pod, nodes: Ints) -> Floats:
    """By how much the measure of each node grows when it takes the pod; inf where it does not fit.

    Shape (M, D) for a pod on one device, a column per device; (M, 1) otherwise.
    """
    width = cluster.gpu_free.shape[1] if pod.num_gpu == 1 else 1
    grown = np.full((len(nodes), width), np.inf)
    fitting = fits(cluster, pod, nodes)
    nodes = nodes[fitting]
    if not len(nodes):
        return grown
    cpu, memory = cluster.cpu_free[nodes], cluster.memory_free[nodes]
    gpu, model = cluster.gpu_free[nodes], cluster.model[nodes]
    before = measure(States(cpu, memory, gpu, model))
    after_gpu = np.repeat(gpu, width, axis=0).reshape(len(nodes), width, -1)
    if pod.num_gpu == 1:
        after_gpu[:, np.arange(width), np.arange(width)] -= pod.gpu_milli
    elif pod.num_gpu > 1:
        whole = gpu >= pod.gpu_milli
        after_gpu[:, 0] -= pod.gpu_milli * (whole & (whole.cumsum(axis=1) <= pod.num_gpu))
    rest = [np.repeat(a, width) for a in (cpu - pod.cpu_milli, memory - pod.memory_mib, model)]
    after = measure(States(rest[0], rest[1], after_gpu.reshape(len(rest[0]), -1), rest[2])).reshape(len(nodes), width)
    if pod.num_gpu == 1:
        after[gpu < pod.gpu_milli] = np.inf
    grown[fitting] = after - before[:, None]
    return grown


def rounded_score(growth: Floats) -> Floats:
    """The score of the authors' simulator, negated: a logistic of the growth in GPUs, cut to whole points of 100.

    The rounding is not cosmetic: it makes most choices ties, which go to the first node and so pack; without it the
    policy spreads pods over many nodes and leaves about twice as much unallocated.
    """
    score: Floats = np.where(
        np.isinf(growth), np.inf, -np.floor(100.0 / (1.0 + np.exp(np.clip(growth / 1000.0, -50, 50))))
    )
    return score


def fgd(history: Iterable[Pod], model_names: tuple[str, ...]) -> Policy:
    """FGD as its authors run it: the target workload is known beforehand from a history of pods, scores are rounded."""
    return Descent(fragmentation(TypicalPods.of(history, model_names)), rank=rounded_score)


def fgd_exact(history: Iterable[Pod], model_names: tuple[str, ...]) -> Policy:
    """FGD by the letter of its formula, unrounded."""
    return Descent(fragmentation(TypicalPods.of(history, model_names)))
