"""Users and their projects: who trains what, in which style, on how many GPUs, for how long they plan."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from schedmate.demo import params
from schedmate.demo.catalog import Style, dataset_samples, models, styles
from schedmate.demo.jobs import Hyper, Project
from schedmate.demo.params import ClusterSpec, WorkloadSpec
from schedmate.demo.physics import gpu_memory_mib, step_seconds
from schedmate.demo.rng import lognormal, pick, stream

#: Per-user and per-project scatter of the fraction of peak reached (choice: a factor of two either way at two sigma).
USER_SIGMA = 0.22
PROJECT_SIGMA = 0.25
#: Median cost of reading and decoding one sample on the host, spread over a process's loader workers (choice).
DECODE_S = {"vision": 0.006, "text": 0.0002, "audio": 0.02}

_FIRST = ("alina", "bo", "chen", "dario", "emeka", "fatima", "goran", "hana", "ivan", "jun", "kavya", "lena")
_LAST = ("k", "m", "r", "s", "t", "w")
_NOUNS = ("baseline", "pilot", "ablation", "rerun", "longer", "small", "distill", "aug", "clean", "multi", "frozen")
_RATES = {"SGD": ("0.1", "0.2", "0.05"), "AdamW": ("1e-4", "3e-4", "5e-5", "2e-5"), "Adam": ("1e-3", "3e-4", "1.5e-4")}
_NICE = (*range(1, 7), 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 90, 100, 120, 150, 200, 250, 300, 400, 500, 600, 800)


def users(spec: WorkloadSpec) -> dict[str, tuple[str, float, float]]:
    """User name -> (tenant, activity weight, efficiency factor)."""
    rng = stream(spec.seed, "users")
    names = [f"{first}.{last}" for first in _FIRST for last in _LAST]
    chosen = [names[int(i)] for i in rng.permutation(len(names))[: spec.users]]
    found = {}
    for rank, name in enumerate(chosen):
        weight = 1.0 / (rank + 1) ** params.USER_ZIPF
        found[name] = (params.TENANTS[rank % len(params.TENANTS)], weight, lognormal(rng, 1.0, USER_SIGMA))
    return found


def make_projects(spec: WorkloadSpec) -> dict[str, list[Project]]:
    """All projects by user.

    Sizes and planned times are drawn by strata (one draw per equal slice of the distribution, in random order), so that
    a workload of a few hundred jobs looks like the distribution for every seed and not only on average.
    """
    rng = stream(spec.seed, "projects")
    people = users(spec)
    count = len(people) * params.PROJECTS_PER_USER
    size_at, time_at = ((rng.permutation(count) + rng.random(count)) / count for _ in range(2))
    found: dict[str, list[Project]] = {}
    for index in range(count):
        user, number = list(people)[index % len(people)], index // len(people)
        tenant, _, factor = people[user]
        project = _make_project(spec, user, tenant, factor, number, float(size_at[index]), float(time_at[index]))
        found.setdefault(user, []).append(project)
    return found


def _make_project(
    spec: WorkloadSpec, user: str, tenant: str, factor: float, number: int, size_at: float, time_at: float
) -> Project:
    rng = stream(spec.seed, "project", user, number)
    gpus = min(_size(size_at), spec.cluster.gpus // 2)
    style = pick(rng, [style for style in styles().values() if gpus in style.gpus])
    model = models()[pick(rng, style.models)]
    dataset = pick(rng, model.datasets)
    project = Project(
        name=f"{dataset.replace('_', '-')}-{pick(rng, _NOUNS)}{number}",
        user=user,
        tenant=tenant,
        style=style,
        model=model,
        dataset=dataset,
        samples=dataset_samples()[dataset],
        gpus=gpus,
        nodes=max(1, math.ceil(gpus / spec.cluster.gpus_per_node)),
        hyper=Hyper(1, None, pick(rng, style.batches), 1, "0.1", 0, False, 1, 0),
        version=1,
        workers=pick(rng, (4, 6, 8, 12)),
        words={key: pick(rng, choices) for key, choices in style.words.items()},
        efficiency=factor * lognormal(rng, 1.0, PROJECT_SIGMA),
        input_s_per_sample=0.0,
    )
    project = replace(project, input_s_per_sample=_input_cost(rng, project))
    hyper = _fit_batch(_habits(rng, project.hyper, style), project, spec.cluster)
    return replace(project, hyper=_plan(rng, project, hyper, spec.cluster, time_at))


def _size(at: float) -> int:
    """GPUs at a quantile of the published shares."""
    edges = np.cumsum(list(params.GPUS_SHARE.values()))
    return list(params.GPUS_SHARE)[min(int(np.searchsorted(edges, at)), len(edges) - 1)]


def _input_cost(rng: np.random.Generator, project: Project) -> float:
    kind = "vision" if project.model.image_size else "text" if project.model.seq_len else "audio"
    return lognormal(rng, DECODE_S[kind], 0.4) / project.workers


def _habits(rng: np.random.Generator, hyper: Hyper, style: Style) -> Hyper:
    accumulates = style.log in ("hf", "deepspeed", "megatron", "lightning")
    return replace(
        hyper,
        lr=pick(rng, _RATES[style.optimizer]),
        seed=pick(rng, (0, 1, 42, 1234, 2025)),
        accum=pick(rng, (1, 1, 2, 4)) if accumulates else 1,
        early_stopping=style.log in ("hf", "lightning", "keras") and bool(rng.random() < 0.4),
    )


def _fit_batch(hyper: Hyper, project: Project, cluster: ClusterSpec) -> Hyper:
    """Halve the batch until it fits: what a user does before a project is worth keeping."""
    while hyper.batch > 1 and gpu_memory_mib(project, hyper, cluster) > 0.9 * cluster.gpu_memory_mib:
        hyper = replace(hyper, batch=hyper.batch // 2)
    return hyper


def _plan(rng: np.random.Generator, project: Project, hyper: Hyper, cluster: ClusterSpec, at: float) -> Hyper:
    """Choose epochs or steps, in round numbers, for about the time the user has in mind."""
    median_s = params.PLANNED_MEDIAN_S * project.gpus**params.PLANNED_GROWTH_PER_GPU
    wanted_s = median_s * math.exp(params.PLANNED_SIGMA * NormalDist().inv_cdf(at))
    planned_s = min(max(wanted_s, params.PLANNED_RANGE_S[0]), params.PLANNED_RANGE_S[1])
    step_s, _ = step_seconds(project, hyper, cluster)
    steps = max(50.0, planned_s / step_s)
    if project.style.iterations == "epochs":
        per_epoch = max(1, project.samples // (hyper.batch * hyper.accum * project.gpus))
        epochs = min(_NICE, key=lambda n: abs(math.log(n * per_epoch / steps)))
        return replace(hyper, epochs=epochs, max_steps=None)
    digits = 10 ** math.floor(math.log10(steps))
    rounded = max(50, round(2 * steps / digits) * digits // 2)
    every = max(10, rounded // pick(rng, (10, 20, 40)))
    return replace(hyper, epochs=None, max_steps=rounded, checkpoint_every=every, warmup=max(10, rounded // 50))
