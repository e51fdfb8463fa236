"""Measures of a node that look further ahead than FGD's: what will be left of it when later pods have filled it.

FGD counts what the *next* pod could not use. At saturation what counts is the end: a node keeps taking pods until none
fits any more. Two tables, solved backwards over the target workload, give the expected end:

* stranding: a node with so much CPU and so much GPU left (devices taken together) will end with how much GPU
  that no CPU is left for. Pods with much CPU per GPU are drawn to nodes rich in CPU, pods with little to the poor ones.
* remnants: a device with so much left will end with how much too small for anyone. Shares are combined
  that fill a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.baselines.fgd import Descent, Floats, Measure, States, TypicalPods
from benchmarks.baselines.gpu_share import WHOLE_GPU_MILLI, ClusterArrays, Placement, Pod, Policy
from benchmarks.baselines.packing import best_fit

CPU_STEP_MILLI = 500
GPU_STEP_MILLI = 50
DEVICE_STEP_MILLI = 10
MAX_CPU_MILLI = 128_000
MAX_GPU_MILLI = 8_000

HAZARD = 0.005
"""Chance, per arriving pod, that nothing arrives any more: pods rarer than this are not waited for."""

PULL = 0.2 / 8
"""Milli of expected waste that a free milli-GPU on the node weighs: enough to fill opened nodes before free ones."""

SCARCITY = 0.5
"""Milli of expected waste per milli-GPU on a model wanted by the target workload as much as there is of it."""


def stranding_table(typical: TypicalPods, accepted: Floats, hazard: float = HAZARD) -> Floats:
    """Expected GPU milli left when no pod fits any more; shape (CPU steps, GPU steps).

    The end of a state is the mean of the ends after each pod that fits, weighted by how often it comes, and, with the
    weight of the hazard, the state itself. Pods without GPU are left out: they belong where no GPU waits for their CPU.
    """
    table = np.zeros((MAX_CPU_MILLI // CPU_STEP_MILLI + 1, MAX_GPU_MILLI // GPU_STEP_MILLI + 1))
    cpu = -(-typical.cpu // CPU_STEP_MILLI)
    asked_milli = typical.num_gpu * typical.levels[typical.level]
    gpu = np.maximum(1, np.round(asked_milli / GPU_STEP_MILLI)).astype(int)
    kinds = np.flatnonzero((typical.num_gpu > 0) & (accepted > 0) & (cpu < len(table)))
    for left in range(1, table.shape[1]):
        value = np.full(len(table), hazard * left * GPU_STEP_MILLI)
        weight = np.full(len(table), hazard)
        for kind in kinds[gpu[kinds] <= left]:
            need, chance = cpu[kind], accepted[kind]
            value[need:] += chance * table[: len(table) - need, left - gpu[kind]]
            weight[need:] += chance
        table[:, left] = value / weight
    return table


def remnant_table(typical: TypicalPods, accepted: Floats, hazard: float = HAZARD) -> Floats:
    """Expected milli left of one device when no pod fits it any more; shape (device steps,)."""
    table = np.zeros(WHOLE_GPU_MILLI // DEVICE_STEP_MILLI + 1)
    asked = typical.levels[typical.level]
    kinds = np.flatnonzero((typical.num_gpu == 1) & (accepted > 0))
    for step in range(1, len(table)):
        left_milli = step * DEVICE_STEP_MILLI
        value, weight = hazard * left_milli, hazard
        for kind in kinds[asked[kinds] <= left_milli]:
            value += accepted[kind] * table[(left_milli - asked[kind]) // DEVICE_STEP_MILLI]
            weight += accepted[kind]
        table[step] = value / weight
    return table


def waste(typical: TypicalPods, node_weight: float = 1.0, device_weight: float = 1.0) -> Measure:
    """Expected GPU milli that a node will strand plus what its devices will have as remnants."""
    rows, which = np.unique(typical.accepts, axis=1, return_inverse=True)
    accepted = [typical.frequency * rows[:, i] for i in range(rows.shape[1])]
    nodes = np.stack([stranding_table(typical, each) for each in accepted])
    devices = np.stack([remnant_table(typical, each) for each in accepted])

    def measure(states: States) -> Floats:
        kind = which.reshape(-1)[states.model]
        cpu = np.clip(states.cpu // CPU_STEP_MILLI, 0, nodes.shape[1] - 1)
        exact = np.minimum(states.gpu.sum(axis=1) / GPU_STEP_MILLI, nodes.shape[2] - 1)
        low = np.floor(exact).astype(int)
        high = np.minimum(low + 1, nodes.shape[2] - 1)
        part = exact - low
        stranded = nodes[kind, cpu, low] * (1 - part) + nodes[kind, cpu, high] * part
        remnants = devices[kind[:, None], states.gpu // DEVICE_STEP_MILLI].sum(axis=1)
        total: Floats = node_weight * stranded + device_weight * remnants
        return total

    return measure


def pressure(typical: TypicalPods, model_gpus: Floats) -> Floats:
    """How wanted each model is: 1 when the demand that must or may use it, spread evenly, equals what there is of it.

    The workload's demand is scaled to the cluster's size and each request's is spread over all GPUs it accepts, so
    requests that accept everything press on all models alike and constrained ones only where they must go.
    """
    demand = typical.frequency * typical.num_gpu * typical.levels[typical.level]
    demand = demand / demand.sum() * model_gpus.sum()
    accepts = typical.accepts.astype(float)
    reachable = np.maximum(accepts @ model_gpus, 1e-9)
    pressed: Floats = (accepts * (demand / reachable)[:, None]).sum(axis=0)
    return pressed


def scarcity(typical: TypicalPods, weight: float = SCARCITY) -> Callable[[ClusterArrays, Pod], Floats]:
    """A surcharge that keeps pods that may go anywhere off the models that others must have."""

    def surcharge(cluster: ClusterArrays, pod: Pod) -> Floats:
        gpus = cluster.gpu_cap.sum(axis=1) / WHOLE_GPU_MILLI
        model_gpus = np.bincount(cluster.model, weights=gpus, minlength=len(cluster.model_names))
        cost: Floats = weight * pod.total_gpu_milli * pressure(typical, model_gpus.astype(float))[cluster.model]
        return cost

    return surcharge


def expected_waste(
    history: Iterable[Pod],
    model_names: tuple[str, ...],
    node_weight: float = 1.0,
    device_weight: float = 1.0,
    pull: float = PULL,
    scarcity_weight: float = SCARCITY,
) -> Policy:
    """Put each pod where the expected waste grows least, leaning to nodes in use, off models others need."""
    typical = TypicalPods.of((pod for pod in history if pod.num_gpu), model_names, share=0.99)
    return Descent(waste(typical, node_weight, device_weight), pull=pull, surcharge=scarcity(typical, scarcity_weight))


@dataclass
class Learner:
    """A policy that knows no history: it learns the workload from the pods it has been shown, placed or not.

    Best-fit until `first` pods have been seen, then `make` on all seen so far, made anew each time they have doubled.
    """

    make: Callable[[list[Pod]], Policy]
    first: int = 100
    seen: list[Pod] = field(default_factory=list)
    current: Policy = best_fit

    def __call__(self, cluster: ClusterArrays, pod: Pod) -> Placement | None:
        self.seen.append(pod)
        if len(self.seen) == self.first:
            self.current, self.first = self.make(self.seen), 2 * self.first
        return self.current(cluster, pod)
