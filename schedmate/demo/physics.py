"""The true duration of a run: steps times step time, plus start-up, checkpoints and validation.

Step time = max(compute, input) + exposed communication. Compute is FLOPs over a true fraction of peak that scatters by
model, user and project; the analysers know none of it. Communication is a ring all-reduce of half-precision gradients
(2 (n-1)/n bytes over the slowest link), half of it hidden behind the backward pass (choice).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from schedmate.demo.jobs import Hyper, Project
from schedmate.demo.params import ClusterSpec
from schedmate.demo.rng import lognormal

#: Exposed share of the gradient exchange (choice).
EXPOSED = 0.5
#: Validation and checkpoint writing as a share of the training time (choice).
OVERHEAD_MEDIAN = 0.05
#: Import, data-set index, NCCL set-up, compilation; a large model also loads its weights at about 1 GB/s (choice).
STARTUP_MEDIAN_S = 70.0
LOAD_BYTES_S = 1e9
#: Step-time scatter from one run to the next of the same project: stragglers, placement, shared file system (choice).
RUN_SIGMA = 0.06
CONTEXT_MIB = 1_400
HOST_MIB_PER_PROCESS = 4_500
HOST_MIB_PER_WORKER = 950


@dataclass(frozen=True, slots=True)
class Run:
    """The true shape of one run if nothing stops it."""

    steps: int
    steps_per_epoch: int | None
    step_s: float
    startup_s: float
    duration_s: float
    compute_share: float


def steps_of(project: Project, hyper: Hyper) -> tuple[int, int | None]:
    """(optimizer steps of the whole run, optimizer steps of an epoch or None)."""
    per_epoch = max(1, project.samples // (hyper.batch * hyper.accum * project.gpus))
    if hyper.max_steps is not None:
        return hyper.max_steps, per_epoch if hyper.epochs else None
    assert hyper.epochs is not None
    return per_epoch * hyper.epochs, per_epoch


def step_seconds(project: Project, hyper: Hyper, cluster: ClusterSpec) -> tuple[float, float]:
    """(seconds of one optimizer step, share of it in which the GPU computes), without run-to-run scatter."""
    samples = hyper.batch * hyper.accum
    efficiency = min(0.62, project.model.mfu * project.efficiency)
    compute_s = samples * project.model.train_flops / (cluster.peak_flops * efficiency)
    input_s = samples * project.input_s_per_sample
    communication_s = 0.0
    if project.gpus > 1:
        link = cluster.intra_node_bytes_s if project.nodes == 1 else cluster.inter_node_bytes_s
        rounds = 3 * hyper.accum if project.style.shards_state else 2
        volume = rounds * (project.gpus - 1) / project.gpus * 2 * project.model.params
        communication_s = EXPOSED * volume / link + 2e-5 * math.log2(project.gpus)
    step_s = max(compute_s, input_s) + communication_s
    return step_s, compute_s / step_s


def run_of(rng: np.random.Generator, project: Project, hyper: Hyper, cluster: ClusterSpec) -> Run:
    """Draw the true shape of one run."""
    steps, per_epoch = steps_of(project, hyper)
    step_s, share = step_seconds(project, hyper, cluster)
    step_s *= lognormal(rng, 1.0, RUN_SIGMA)
    startup_s = lognormal(rng, STARTUP_MEDIAN_S, 0.4) + 2 * project.model.params / LOAD_BYTES_S + 1.5 * project.nodes
    overhead = lognormal(rng, OVERHEAD_MEDIAN, 0.5)
    return Run(steps, per_epoch, step_s, startup_s, startup_s + steps * step_s * (1 + overhead), share)


def gpu_memory_mib(project: Project, hyper: Hyper, cluster: ClusterSpec) -> float:
    """Peak memory of one GPU: weights, gradients and optimizer state (sharded where the style shards), activations."""
    state = project.model.params * project.style.optimizer_bytes_per_param / 2**20
    if project.style.shards_state:
        state /= project.gpus
        state += 2 * project.model.params / 2**20 * 0.15
    used = CONTEXT_MIB + state + hyper.batch * project.model.activation_mib
    return min(used, cluster.gpu_memory_mib * 0.985)


def host_memory_mib(project: Project) -> float:
    """Peak host memory of the whole job, over all its nodes."""
    return project.gpus * (HOST_MIB_PER_PROCESS + project.workers * HOST_MIB_PER_WORKER)
