"""What users do with their projects in a sitting: a run, debug runs first, a sweep, an evaluation, a retry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from schedmate.workload.ends import (
    End,
    Fates,
    end_of,
    limit_above,
    limit_below,
    possible_causes,
    too_large_batch,
)
from schedmate.workload.memory import ROOM, evaluation_mib, host_mib, needed_mib, peak_mib
from schedmate.workload.params import parameters
from schedmate.workload.people import Portfolio, edited
from schedmate.workload.physics import Run, evaluation_run, run_of
from schedmate.workload.project import Hyper, Project
from schedmate.workload.rng import lognormal, pick, pick_weighted, stream
from schedmate.workload.types import ClusterSpec, Kind, WorkloadSpec

Overrides = dict[str, str]


@dataclass(frozen=True, slots=True)
class Draft:
    """A job before its session has a place in time: what is launched, and how it goes.

    ``hyper`` is what the run really has, with its ``overrides``. Memory in MiB, peaks.
    """

    offset_s: float
    project: Project
    kind: Kind
    overrides: Overrides
    hyper: Hyper
    run: Run
    end: End
    limit_s: float
    gpu_mib: float
    host_mib: float
    utilization: float


@dataclass(frozen=True, slots=True)
class _Table:
    """What sessions are drawn with."""

    rng: np.random.Generator
    cluster: ClusterSpec
    fates: Fates


def sessions(spec: WorkloadSpec) -> Iterator[list[Draft]]:
    """Sessions in the order in which they begin, without end. The same spec gives the same sessions."""
    portfolio, fates = Portfolio(spec), Fates(spec)
    index = 0
    while True:
        rng = stream(spec.seed, "session", index)
        project = portfolio.choose(rng)
        drafts = list(_session(_Table(rng, spec.cluster, fates), project))
        newest = max((draft.project for draft in drafts), key=lambda p: p.version)
        portfolio.keep(replace(newest, gpus=project.gpus, nodes=project.nodes))
        yield drafts
        index += 1


def _session(table: _Table, project: Project) -> Iterator[Draft]:
    rng, row = table.rng, parameters()
    kind = pick_weighted(rng, row["sessions"])
    if kind == "evaluation" and project.style.evaluation:
        yield _evaluation(table, project)
        return
    if kind == "sweep":
        yield from _sweep(table, project)
        return
    offset_s = 0.0
    if kind == "debug_then_run":
        low, high = row["debug_runs"]
        for _ in range(int(rng.integers(low, high + 1))):
            draft = _train(table, project, "debug", {"max_steps": str(pick(rng, row["debug_steps"]))}, offset_s)
            yield draft
            offset_s += draft.end.duration_s + float(rng.uniform(60, 1200))
            project = edited(rng, project)
    yield from _with_retries(table, project, "single", _usual_overrides(rng, project), offset_s)


def _sweep(table: _Table, project: Project) -> Iterator[Draft]:
    """The same code with other learning rates or seeds, moments apart."""
    rng = table.rng
    low, high = parameters()["sweep_jobs"]
    by_seed, offset_s = bool(rng.random() < 0.4), 0.0
    for index in range(int(rng.integers(low, high + 1))):
        value = str(index) if by_seed else f"{float(project.hyper.lr) * 10 ** float(rng.uniform(-1, 0.7)):.2g}"
        yield _train(table, project, "sweep", {"seed" if by_seed else "lr": value}, offset_s)
        offset_s += float(rng.uniform(2, 90))


def _with_retries(
    table: _Table, project: Project, kind: Kind, overrides: Overrides, offset_s: float
) -> Iterator[Draft]:
    """A run, and after a failure the next try: with a batch that fits after a CUDA OOM, with changed code otherwise."""
    rng, row = table.rng, parameters()
    for _ in range(1 + row["most_retries"]):
        draft = _train(table, project, kind, overrides, offset_s)
        yield draft
        if draft.end.outcome != "failed" or rng.random() < row["give_up_after_failure"]:
            return
        offset_s += draft.end.duration_s + lognormal(rng, 1500, 0.8)
        if draft.end.failure == "cuda_oom":
            overrides = {**overrides, "batch": str(_batch_that_fits(table, draft))}
        elif draft.end.failure not in row["hardware"]:
            project = edited(rng, project)


def _batch_that_fits(table: _Table, draft: Draft) -> int:
    batch = draft.hyper.batch
    while batch > 1:
        batch //= 2
        if needed_mib(draft.project, replace(draft.hyper, batch=batch)) < ROOM * table.cluster.gpu_memory_mib:
            break
    return batch


def _train(table: _Table, project: Project, kind: Kind, overrides: Overrides, offset_s: float) -> Draft:
    rng, cluster = table.rng, table.cluster
    hyper = effective(project.hyper, overrides)
    run = run_of(rng, project, hyper, cluster)
    cut_s = limit_below(run.duration_s, run.startup_s)
    outcome = table.fates.outcome(kind, can_time_out=cut_s is not None)
    failure = None
    if outcome == "failed":
        larger = too_large_batch(project, hyper, cluster.gpu_memory_mib)
        failure = table.fates.cause(possible=possible_causes(project, kind, larger))
        if failure == "cuda_oom":
            overrides = {**overrides, "batch": str(larger)}
            hyper = effective(project.hyper, overrides)
            run = run_of(rng, project, hyper, cluster)
    end = end_of(rng, project, hyper, run, outcome, failure)
    if outcome == "timeout":
        assert cut_s is not None
        steps = int((cut_s - run.startup_s) / (run.duration_s - run.startup_s) * run.steps)
        end = replace(end, steps=max(0, min(run.steps - 1, steps)), duration_s=cut_s)
    return _draft(table, project, kind, overrides, hyper, run, end, offset_s, cut_s if outcome == "timeout" else None)


def _evaluation(table: _Table, project: Project) -> Draft:
    """A pass over the validation set on one GPU (Acme: most of the jobs and little of the GPU time)."""
    rng = table.rng
    project = replace(project, gpus=1, nodes=1)
    run = evaluation_run(rng, project, project.hyper, table.cluster)
    outcome = table.fates.outcome("evaluation", can_time_out=False)
    failure = None
    if outcome == "failed":
        failure = table.fates.cause(possible=possible_causes(project, "evaluation", None))
    end = end_of(rng, project, replace(project.hyper, epochs=None, max_steps=run.steps), run, outcome, failure)
    return _draft(table, project, "evaluation", {}, project.hyper, run, end, 0.0, None)


def _draft(
    table: _Table,
    project: Project,
    kind: Kind,
    overrides: Overrides,
    hyper: Hyper,
    run: Run,
    end: End,
    offset_s: float,
    limit_s: float | None,
) -> Draft:
    rng = table.rng
    needed = evaluation_mib(project, hyper) if kind == "evaluation" else needed_mib(project, hyper)
    if end.failure == "config":
        needed = 0.0  # it died before anything was on the GPU
    return Draft(
        offset_s=offset_s,
        project=project,
        kind=kind,
        overrides=overrides,
        hyper=hyper,
        run=run,
        end=replace(end, duration_s=round(end.duration_s, 1)),
        limit_s=limit_s or limit_above(rng, project.user, max(run.duration_s, end.duration_s)),
        gpu_mib=peak_mib(rng, needed, table.cluster),
        host_mib=host_mib(rng, project),
        utilization=round(min(0.99, run.step.compute_share * lognormal(rng, 0.92, 0.05)), 3) if end.steps else 0.0,
    )


def _usual_overrides(rng: np.random.Generator, project: Project) -> Overrides:
    """Some runs are launched as the files say, some with a value or two changed."""
    overrides: Overrides = {}
    if rng.random() < 0.35 and "lr" in project.style.options:
        overrides["lr"] = f"{float(project.hyper.lr) * pick(rng, (0.5, 2.0, 0.1)):.2g}"
    length = "epochs" if project.hyper.epochs else "max_steps"
    planned = project.hyper.epochs or project.hyper.max_steps or 1
    if planned > 3 and rng.random() < 0.3:
        overrides[length] = str(max(1, planned // 2))
    return overrides


def effective(hyper: Hyper, overrides: Overrides) -> Hyper:
    """The hyperparameters that a run with these overrides really has."""
    changed = replace(
        hyper,
        lr=overrides.get("lr", hyper.lr),
        seed=int(overrides.get("seed", hyper.seed)),
        batch=int(overrides.get("batch", hyper.batch)),
    )
    if "epochs" in overrides:
        changed = replace(changed, epochs=int(overrides["epochs"]))
    if "max_steps" in overrides:
        changed = replace(changed, max_steps=int(overrides["max_steps"]))
    return changed
