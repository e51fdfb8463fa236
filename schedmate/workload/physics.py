"""The true duration of a run: steps times step time, plus start-up, validation, checkpoints and stalls.

Step time = overlap(compute, input) + launch overhead + exposed communication. Compute is FLOPs over a true fraction of
peak that scatters by cluster, user, project and model (``data/physics.yaml``); what reads programs knows none of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from schedmate.workload.catalog import dataset_samples
from schedmate.workload.params import physics
from schedmate.workload.project import Hyper, Project
from schedmate.workload.rng import lognormal, loguniform, stream
from schedmate.workload.types import ClusterSpec

_HALF_BYTES = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step: seconds, and the shares in which the GPU computes and in which it waits for others."""

    seconds: float
    compute_share: float
    communication_share: float


@dataclass(frozen=True, slots=True)
class Run:
    """The true shape of one run if nothing stops it. ``pauses_s`` is spread evenly over its steps."""

    steps: int
    steps_per_epoch: int | None
    step: Step
    startup_s: float
    pauses_s: float

    def seconds(self, steps: int) -> float:
        """Wall time until ``steps`` are done."""
        return self.startup_s + steps * self.step.seconds + self.pauses_s * steps / self.steps

    @property
    def duration_s(self) -> float:
        """Wall time of the whole run."""
        return self.seconds(self.steps)


def cluster_factor(seed: int) -> float:
    """How well this cluster does against the medians: one draw per workload."""
    return lognormal(stream(seed, "cluster"), 1.0, physics()["scatter"]["cluster"])


def model_factor(seed: int, model: str) -> float:
    """How well this cluster does with one model: one draw per workload and model."""
    return lognormal(stream(seed, "model", model), 1.0, physics()["scatter"]["model"])


def steps_of(project: Project, hyper: Hyper) -> tuple[int, int | None]:
    """(optimizer steps of the whole run, optimizer steps of an epoch or None where the program counts none)."""
    samples, _ = dataset_samples(project.dataset)
    if project.style.counting == "trainer":  # the last, smaller batch counts; an incomplete accumulation does not
        per_epoch = max(1, math.ceil(samples / (hyper.batch * project.gpus)) // hyper.accum)
    else:
        per_epoch = max(1, samples // (hyper.batch * hyper.accum * project.gpus))
    if hyper.max_steps is None:
        assert hyper.epochs is not None
        return per_epoch * hyper.epochs, per_epoch
    if project.style.iterations == "steps":
        return hyper.max_steps, None
    if project.style.step_limit == "wins":
        return hyper.max_steps, per_epoch
    epochs = 1 if project.style.step_limit == "first_epoch" else hyper.epochs or 1
    return min(hyper.max_steps, epochs * per_epoch), per_epoch


def fraction_of_peak(project: Project, batch: int) -> float:
    """The true share of the GPU's peak that a step with this batch reaches."""
    row = physics()["models"][project.model.name]
    reached = row["median"] * project.efficiency * batch / (batch + row["half_batch"])
    if project.precision == "fp32":
        reached /= 2  # TF32 at half the rate of bf16
    if "compile" in project.quirks:
        reached *= physics()["compile"]["gain"]
    return float(min(physics()["ceiling"], reached))


def step_of(project: Project, hyper: Hyper, cluster: ClusterSpec) -> Step:
    """A step without the scatter from run to run."""
    table, style = physics(), project.style
    samples = hyper.batch * hyper.accum
    flops = project.model.train_flops * (4 / 3 if style.recomputes else 1)
    compute_s = samples * flops / (cluster.peak_flops * fraction_of_peak(project, hyper.batch))
    input_s = samples * project.input_s_per_sample
    power = table["overlap_power"]
    work_s = (compute_s**power + input_s**power) ** (1 / power) + table["frame_s"][style.framework] * hyper.accum
    waits_s = 0.0
    if project.gpus > 1:
        link = cluster.intra_node_bytes_s if project.nodes == 1 else cluster.inter_node_bytes_s
        rounds = 3 * hyper.accum if style.shards_state else 2
        volume = rounds * (project.gpus - 1) / project.gpus * _HALF_BYTES * project.model.params
        waits_s = table["exposed_communication"] * volume / link + 2e-5 * math.log2(project.gpus)
    seconds = work_s + waits_s
    return Step(seconds, compute_s / seconds, waits_s / seconds)


def run_of(rng: np.random.Generator, project: Project, hyper: Hyper, cluster: ClusterSpec) -> Run:
    """Draw the true shape of one run."""
    table = physics()
    steps, per_epoch = steps_of(project, hyper)
    ideal = step_of(project, hyper, cluster)
    pace = lognormal(rng, 1.0, table["scatter"]["run"])
    if rng.random() < table["slow"]["share"]:
        pace *= loguniform(rng, *table["slow"]["factor"])
    step = Step(ideal.seconds * pace, ideal.compute_share / pace, ideal.communication_share)
    pauses_s = _pauses(rng, project, hyper, steps, per_epoch, step, cluster)
    return Run(steps, per_epoch, step, _startup(rng, project), pauses_s)


def evaluation_run(rng: np.random.Generator, project: Project, hyper: Hyper, cluster: ClusterSpec) -> Run:
    """One pass over the validation set: a third of the arithmetic of training, no gradient exchange."""
    _, samples = dataset_samples(project.dataset)
    steps = math.ceil(samples / hyper.batch)
    seconds = validation_seconds(project, hyper.batch, cluster) * lognormal(rng, 1.0, physics()["scatter"]["run"])
    compute_s = samples * project.model.train_flops / 3 / (cluster.peak_flops * fraction_of_peak(project, hyper.batch))
    return Run(steps, None, Step(seconds / steps, min(1.0, compute_s / seconds), 0.0), _startup(rng, project), 0.0)


def validation_seconds(project: Project, batch: int, cluster: ClusterSpec) -> float:
    """One GPU's time for the whole validation set."""
    _, samples = dataset_samples(project.dataset)
    table = physics()
    compute_s = project.model.train_flops / 3 / (cluster.peak_flops * fraction_of_peak(project, batch))
    frame_s = table["frame_s"][project.style.framework] / batch
    return float(samples * (max(compute_s, project.input_s_per_sample) + frame_s))


def _startup(rng: np.random.Generator, project: Project) -> float:
    table = physics()
    seconds = lognormal(rng, table["startup_s"][project.style.framework], table["startup_sigma"])
    seconds += _HALF_BYTES * project.model.params / table["load_bytes_s"] + table["nccl_s_per_node"] * project.nodes
    if "compile" in project.quirks:
        seconds += lognormal(rng, table["compile"]["median_s"], 0.4)
    return float(seconds)


def _pauses(
    rng: np.random.Generator,
    project: Project,
    hyper: Hyper,
    steps: int,
    per_epoch: int | None,
    step: Step,
    cluster: ClusterSpec,
) -> float:
    """Validation, checkpoints and stalls of the whole run."""
    table, style = physics(), project.style
    epochs = steps // per_epoch if per_epoch else 0
    validation_s = 0.0
    if style.validates != "none" and epochs:
        validation_s = epochs * validation_seconds(project, hyper.batch, cluster)
        validation_s /= project.gpus if style.validates == "shared" else 1
    saves = epochs if per_epoch else steps // max(1, hyper.checkpoint_every)
    saved = project.model.params * (4 + table["optimizer_bytes"][project.optimizer])
    writers = min(project.gpus, 16) if style.shards_state else 1
    save_s = saved / writers / table["checkpoint_bytes_s"] * lognormal(rng, 1.0, 0.5)
    hours = steps * step.seconds / 3600
    count = int(rng.poisson(table["stalls"]["per_hour"] * hours))
    stalls_s = sum(lognormal(rng, table["stalls"]["median_s"], table["stalls"]["sigma"]) for _ in range(count))
    return float(validation_s + saves * save_s + stalls_s)
