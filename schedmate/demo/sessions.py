"""What users do with their projects in a sitting: a run, debug runs first, a sweep, an evaluation, a retry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analyzers.types import Outcome
from schedmate.demo import params
from schedmate.demo.jobs import Ask, Hyper, Kind, Project, Truth, Workload, tree_name
from schedmate.demo.params import ClusterSpec, WorkloadSpec
from schedmate.demo.physics import gpu_memory_mib, host_memory_mib, run_of
from schedmate.demo.projects import make_projects, users
from schedmate.demo.render import command_of
from schedmate.demo.rng import Deck, lognormal, pick, pick_weighted, stream

Overrides = dict[str, str]
_MAX_RETRIES = 2


@dataclass(frozen=True, slots=True)
class _Draft:
    """A job before its session has a place in time."""

    offset_s: float
    project: Project
    kind: Kind
    overrides: Overrides
    truth: Truth
    limit_s: float


@dataclass(frozen=True, slots=True)
class Dice:
    """What sessions are drawn with."""

    rng: np.random.Generator
    cluster: ClusterSpec
    causes: Deck[str]


def make_workload(spec: WorkloadSpec) -> Workload:
    """Draw the whole workload. The same spec gives the same workload, to the last byte."""
    rng = stream(spec.seed, "sessions")
    dice = Dice(rng, spec.cluster, Deck(rng, params.FAILURE_SHARE))
    people = users(spec)
    weights = {name: weight for name, (_, weight, _) in people.items()}
    current = make_projects(spec)
    placed: list[tuple[float, _Draft]] = []
    while len(placed) < spec.jobs:
        user = pick_weighted(rng, weights)
        number = int(rng.integers(len(current[user])))
        project = current[user][number]
        place = float(rng.random())
        drafts = list(_session(dice, project))
        current[user][number] = replace(project, version=max(draft.project.version for draft in drafts))
        placed.extend((place, draft) for draft in drafts)
    placed = placed[: spec.jobs]

    work = sum(draft.truth.duration_s * draft.project.gpus for _, draft in placed)
    span_s = work / (spec.load * spec.cluster.gpus)
    timed = [(_clock(place, span_s) + draft.offset_s, index, draft) for index, (place, draft) in enumerate(placed)]
    timed.sort(key=lambda item: item[:2])
    asks: list[Ask] = []
    truth: dict[str, Truth] = {}
    trees: dict[str, Project] = {}
    for number, (submit_s, _, draft) in enumerate(timed):
        ask = _ask(f"{10_001 + number}", round(submit_s), draft)
        asks.append(ask)
        truth[ask.job_id] = draft.truth
        trees.setdefault(tree_name(draft.project), draft.project)
    return Workload(tuple(asks), truth, span_s, trees)


def _clock(place: float, span_s: float) -> float:
    """Second at which a session starts: uniform in submissions, so that they follow the hours of the day."""
    hours = np.arange(0, math.ceil(span_s / 3600) + 1)
    rate = np.array([params.HOURLY[int(hour) % 24] for hour in hours[:-1]], dtype=float)
    rate[-1] *= (span_s / 3600) - (len(rate) - 1)
    total = np.concatenate([[0.0], np.cumsum(rate)])
    edges = np.minimum(hours * 3600.0, span_s)
    return float(np.interp(place * total[-1], total, edges))


def _session(dice: Dice, project: Project) -> Iterator[_Draft]:
    rng = dice.rng
    kind = pick_weighted(rng, params.SESSION_SHARE)
    if kind == "evaluation" and project.style.evaluation_launch:
        yield _evaluation(dice, project)
        return
    offset_s = 0.0
    if kind == "debug_then_run":
        for _ in range(int(rng.integers(params.DEBUG_RUNS[0], params.DEBUG_RUNS[1] + 1))):
            draft = _train(dice, project, "debug", {"max_steps": str(_nice_steps(rng))}, offset_s)
            yield draft
            offset_s += draft.truth.duration_s + float(rng.uniform(60, 1200))
            project = replace(project, version=project.version + 1)
    if kind == "sweep":
        yield from _sweep(dice, project)
        return
    yield from _with_retries(dice, project, "single", _usual_overrides(rng, project), offset_s)


def _sweep(dice: Dice, project: Project) -> Iterator[_Draft]:
    """The same code with other learning rates or seeds, minutes apart."""
    rng = dice.rng
    by_seed = bool(rng.random() < 0.4)
    for index in range(int(rng.integers(params.SWEEP_JOBS[0], params.SWEEP_JOBS[1] + 1))):
        scale = 10 ** float(rng.uniform(-1, 0.7))
        value = str(index) if by_seed else f"{float(project.hyper.lr) * scale:.2g}"
        overrides = {"seed" if by_seed else "lr": value}
        yield _train(dice, project, "sweep", overrides, index * float(rng.uniform(5, 90)))


def _with_retries(dice: Dice, project: Project, kind: Kind, overrides: Overrides, offset_s: float) -> Iterator[_Draft]:
    """A run, and after a failure the next try: with a smaller batch after a CUDA OOM, with changed code otherwise."""
    rng = dice.rng
    for _ in range(1 + _MAX_RETRIES):
        draft = _train(dice, project, kind, overrides, offset_s)
        yield draft
        if draft.truth.outcome != "failed" or rng.random() < 0.25:
            return
        offset_s += draft.truth.duration_s + lognormal(rng, 1500, 0.8)
        if draft.truth.failure == "cuda_oom" and "batch" in project.style.overrides:
            overrides = {**overrides, "batch": str(max(1, draft.truth.hyper.batch // 2))}
        elif draft.truth.failure in ("exception", "config", "bad_sample"):
            project = replace(project, version=project.version + 1)


def _train(dice: Dice, project: Project, kind: Kind, overrides: Overrides, offset_s: float) -> _Draft:
    rng, cluster = dice.rng, dice.cluster
    hyper = _effective(project.hyper, overrides)
    run = run_of(rng, project, hyper, cluster)
    end = pick_weighted(rng, params.END_SHARE[kind])
    limit_s = _limit(rng, run.duration_s)
    fraction, failure = 1.0, None
    outcome: Outcome = "completed"
    if end == "failed":
        failure = dice.causes.deal(_possible(project))
        low, high = params.FAILURE_AT[failure]
        fraction = float(np.exp(rng.uniform(np.log(low), np.log(high)))) if high else 0.0
        outcome = "failed"
    elif end == "cancelled":
        fraction, outcome = float(rng.uniform(0.02, 0.9)), "cancelled"
    elif hyper.early_stopping and hyper.epochs and rng.random() < 0.6:
        fraction = float(rng.uniform(0.35, 0.95))
    running_s = (run.duration_s - run.startup_s) * fraction
    duration_s = run.startup_s * (0.4 if fraction == 0 else 1) + running_s
    if duration_s > limit_s:
        duration_s, outcome, failure = limit_s, "timeout", None
        fraction = (limit_s - run.startup_s) / (run.duration_s - run.startup_s)
    truth = Truth(
        duration_s=round(max(duration_s, 15.0), 1),
        outcome=outcome,
        hyper=hyper,
        steps_planned=run.steps,
        steps_per_epoch=run.steps_per_epoch,
        steps_done=max(0, min(run.steps, int(run.steps * fraction))),
        step_s=run.step_s,
        startup_s=run.startup_s,
        failure=failure,
        peak_gpu_memory_mib=round(gpu_memory_mib(project, hyper, cluster) * lognormal(rng, 1.0, 0.03)),
        mean_gpu_utilization=round(min(0.99, run.compute_share * lognormal(rng, 0.92, 0.05)), 3),
        peak_host_memory_mib=round(host_memory_mib(project) * lognormal(rng, 1.0, 0.15)),
    )
    return _Draft(offset_s, project, kind, overrides, truth, limit_s)


def _evaluation(dice: Dice, project: Project) -> _Draft:
    """One GPU for some minutes (Acme: evaluation is most of the jobs and little of the GPU time)."""
    rng = dice.rng
    project = replace(project, gpus=1, nodes=1)
    hyper = replace(project.hyper, epochs=None, max_steps=max(20, project.samples // 50 // project.hyper.batch))
    end = pick_weighted(rng, params.END_SHARE["evaluation"])
    duration_s = lognormal(rng, params.EVALUATION_MEDIAN_S, params.EVALUATION_SIGMA)
    outcome: Outcome = "completed" if end == "completed" else "cancelled" if end == "cancelled" else "failed"
    truth = Truth(
        duration_s=round(duration_s if outcome == "completed" else duration_s * float(rng.uniform(0.1, 0.6)), 1),
        outcome=outcome,
        hyper=hyper,
        steps_planned=hyper.max_steps or 1,
        steps_per_epoch=None,
        steps_done=hyper.max_steps or 1,
        step_s=duration_s / (hyper.max_steps or 1),
        startup_s=40.0,
        failure=pick(rng, ("exception", "config", "bad_sample")) if outcome == "failed" else None,
        peak_gpu_memory_mib=round(1400 + project.model.params * 4 / 2**20 + 8 * project.model.activation_mib),
        mean_gpu_utilization=round(float(rng.uniform(0.25, 0.7)), 3),
        peak_host_memory_mib=round(host_memory_mib(project)),
    )
    return _Draft(0.0, project, "evaluation", {}, truth, _limit(rng, duration_s))


def _possible(project: Project) -> frozenset[str]:
    """Failure causes that make sense for a project."""
    causes = frozenset(params.FAILURE_SHARE)
    return causes if project.nodes > 1 else causes - params.NEEDS_SEVERAL_NODES


def _limit(rng: np.random.Generator, duration_s: float) -> float:
    """The limit a user asks for: the next round value above an overestimate, or simply the largest."""
    if rng.random() < params.LIMIT_IS_MAXIMUM_SHARE:
        return params.LIMIT_HOURS[-1] * 3600.0
    wanted_h = duration_s / 3600 * lognormal(rng, params.LIMIT_FACTOR_MEDIAN, params.LIMIT_FACTOR_SIGMA)
    return next((hours for hours in params.LIMIT_HOURS if hours >= wanted_h), params.LIMIT_HOURS[-1]) * 3600.0


def _nice_steps(rng: np.random.Generator) -> int:
    return int(pick(rng, [n for n in (20, 50, 100, 200) if params.DEBUG_STEPS[0] <= n <= params.DEBUG_STEPS[1]]))


def _usual_overrides(rng: np.random.Generator, project: Project) -> Overrides:
    """Some runs are launched as the file says, some with a value or two changed."""
    overrides: Overrides = {}
    if rng.random() < 0.35:
        overrides["lr"] = f"{float(project.hyper.lr) * pick(rng, (0.5, 2.0, 0.1)):.2g}"
    length = "epochs" if project.hyper.epochs else "max_steps"
    planned = project.hyper.epochs or project.hyper.max_steps or 1
    if planned > 3 and rng.random() < 0.3:
        overrides[length] = str(max(1, planned // 2))
    return overrides


def _effective(hyper: Hyper, overrides: Overrides) -> Hyper:
    """The hyperparameters that a run with these overrides really has."""
    changed = replace(hyper, lr=overrides.get("lr", hyper.lr), seed=int(overrides.get("seed", hyper.seed)))
    changed = replace(changed, batch=int(overrides.get("batch", changed.batch)))
    if "epochs" in overrides:
        changed = replace(changed, epochs=int(overrides["epochs"]))
    if "max_steps" in overrides:
        changed = replace(changed, max_steps=int(overrides["max_steps"]))
    return changed


def _ask(job_id: str, submit_s: float, draft: _Draft) -> Ask:
    project = draft.project
    sweep = "-" + "-".join(draft.overrides.values())
    suffix = {"debug": "-debug", "evaluation": "-eval", "sweep": sweep}.get(draft.kind, "")
    return Ask(
        job_id=job_id,
        submit_s=float(submit_s),
        project=project,
        kind=draft.kind,
        name=f"{project.name}{suffix}",
        command=command_of(project, draft.overrides, evaluation=draft.kind == "evaluation"),
        gpus=project.gpus,
        nodes=project.nodes,
        limit_s=draft.limit_s,
        overrides=draft.overrides,
    )
