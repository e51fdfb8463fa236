"""True peak memory: weights, gradients, optimizer state (sharded where the style shards) and activations."""

from __future__ import annotations

import numpy as np

from schedmate.workload.params import physics
from schedmate.workload.project import Hyper, Project
from schedmate.workload.rng import lognormal
from schedmate.workload.types import ClusterSpec

_MIB = 2**20
#: A project's own batch leaves this much room, as a user would before keeping it.
ROOM = 0.88


def needed_mib(project: Project, hyper: Hyper) -> float:
    """What one GPU needs in MiB, by formula: it may be more than there is."""
    table, style, params = physics(), project.style, project.model.params
    kind = "half" if style.shards_state else "fp32" if project.precision == "fp32" else "mixed"
    state = params * (table["state_bytes"][kind] + table["optimizer_bytes"][project.optimizer]) / _MIB
    if style.shards_state:
        # sharded over all ranks; about two layers' gathered weights at a time remain (a sixteenth of the model)
        state = state / project.gpus + 2 * params / 16 / _MIB
    activations = hyper.batch * project.model.activation_mib * (2 if project.precision == "fp32" else 1)
    if style.recomputes:
        activations *= table["recomputed"]
    fixed = table["context_mib"] + table["workspace_mib"] + (table["communicator_mib"] if project.gpus > 1 else 0)
    return float(fixed + state + activations)


def evaluation_mib(project: Project, hyper: Hyper) -> float:
    """What one GPU needs to evaluate: weights, and the activations of a layer or two."""
    table = physics()
    fixed = float(table["context_mib"] + table["workspace_mib"])
    return fixed + project.model.params * 4 / _MIB + hyper.batch * project.model.activation_mib * 0.15


def fits(project: Project, hyper: Hyper, cluster: ClusterSpec) -> bool:
    """Whether a careful user would run this on these GPUs."""
    return needed_mib(project, hyper) <= ROOM * cluster.gpu_memory_mib


def peak_mib(rng: np.random.Generator, needed: float, cluster: ClusterSpec) -> float:
    """The measured peak: with the allocator's fragmentation, and never more than the GPU has."""
    noisy = needed * lognormal(rng, 1.0, physics()["allocator_sigma"])
    return float(round(min(noisy, cluster.gpu_memory_mib * 0.985)))


def host_mib(rng: np.random.Generator, project: Project) -> float:
    """Peak host memory of the whole job, over all its nodes."""
    row = physics()["host_mib"]
    per_gpu = row["process"] + project.workers * row["worker"]
    return float(round(project.gpus * per_gpu * lognormal(rng, 1.0, row["sigma"])))
