"""Users and their projects: who trains what, in which style, on how many GPUs, for how long they plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from schedmate.workload.catalog import Model, Style, models, styles
from schedmate.workload.memory import fits
from schedmate.workload.params import parameters, physics, profile_named
from schedmate.workload.physics import cluster_factor, model_factor, step_of, steps_of
from schedmate.workload.project import DeadOption, Hyper, Person, Project
from schedmate.workload.rng import lognormal, pick, pick_weighted, spread_pair, stream
from schedmate.workload.types import ClusterSpec, WorkloadSpec

_FIRST = ("alina", "bo", "chen", "dario", "emeka", "fatima", "goran", "hana", "ivan", "jun", "kavya", "lena", "mei")
_LAST = ("k", "m", "r", "s", "t", "w", "z")
_NOUNS = ("baseline", "pilot", "ablation", "rerun", "longer", "small", "distill", "aug", "clean", "multi", "frozen")
_RATES = {
    "sgd": ("0.1", "0.2", "0.05", "0.4"),
    "adamw": ("1e-4", "3e-4", "5e-5", "2e-5"),
    "adam": ("1e-3", "3e-4", "1.5e-4"),
    "adafactor": ("1e-3", "5e-4"),
}
_NICE = (*range(1, 7), 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 90, 100, 120, 150, 200, 250, 300, 400, 500, 600, 800)
_DEAD = (
    DeadOption("--mixup-alpha", "float", "0.2"),
    DeadOption("--max-epochs-stage2", "int", "30"),
    DeadOption("--patience", "int", "5"),
    DeadOption("--ema-decay", "float", "0.9999"),
    DeadOption("--eval-batch-size", "int", "256"),
    DeadOption("--warmup-steps", "int", "1000"),
    DeadOption("--total-steps", "int", "500000"),
    DeadOption("--num-classes-old", "int", "21"),
    DeadOption("--run-tag", "str", '"v2"'),
)
#: Helpers in ``templates/common/dead.j2`` that nothing calls.
DEAD_HELPERS = 6
LAUNCH_VARIANTS = 3
#: How often a hyperparameter is set by the launcher and not left to the program's default (choice).
_PINNED_SHARE = 0.45
#: Programs that a user thinks of before one does an epoch in the longest time that anyone plans.
_TRIES = 100
#: How far a program's own default lies from what is run (choice): users raise and lower what they copied.
_STALE = (0.25, 0.5, 2.0, 3.0)


def people_of(spec: WorkloadSpec) -> dict[str, Person]:
    """All users by name, the most active first."""
    rng, table = stream(spec.seed, "users"), parameters()
    names = [f"{first}.{last}" for first in _FIRST for last in _LAST]
    names += [f"{name}{number}" for number in range(2, 2 + spec.users // len(names)) for name in names]
    chosen = [names[int(i)] for i in rng.permutation(len(names))[: spec.users]]
    limits, tenants = table["limits"], table["tenants"]
    return {
        name: Person(
            name=name,
            tenant=tenants[rank % len(tenants)],
            activity=1.0 / (rank + 1) ** table["users"]["zipf"],
            efficiency=lognormal(rng, 1.0, physics()["scatter"]["user"]),
            asks_maximum=bool(rng.random() < limits["maximum_share"]),
            limit_factor=lognormal(rng, limits["factor_median"], limits["user_sigma"]),
        )
        for rank, name in enumerate(chosen)
    }


class Portfolio:
    """The projects that users have at the moment; they start new ones and drop the oldest."""

    def __init__(self, spec: WorkloadSpec) -> None:
        self._spec = spec
        self._people = people_of(spec)
        self._activity = {name: person.activity for name, person in self._people.items()}
        self._projects: dict[str, list[Project]] = {}
        self._begun: dict[str, int] = dict.fromkeys(self._people, 0)
        self._count = 0
        self._cluster_factor = cluster_factor(spec.seed)

    def choose(self, rng: np.random.Generator) -> Project:
        """A user by activity, and one of their projects, perhaps a new one."""
        habits = parameters()["users"]
        person = self._people[pick_weighted(rng, self._activity)]
        own = self._projects.setdefault(person.name, [])
        if len(own) < habits["projects"] or rng.random() < habits["new_project"]:
            del own[: max(0, len(own) + 1 - habits["projects"])]
            own.append(self._begin(person))
            return own[-1]
        return pick(rng, own)

    def keep(self, project: Project) -> None:
        """The project as it is after a session."""
        own = self._projects[project.user.name]
        own[:] = [project if other.name == project.name else other for other in own]

    def _begin(self, person: Person) -> Project:
        number = self._begun[person.name]
        self._begun[person.name] += 1
        size_at, time_at = spread_pair(self._spec.seed, self._count)
        self._count += 1
        rng = stream(self._spec.seed, "project", person.name, number)
        return make_project(rng, self._spec, person, number, (size_at, time_at), self._cluster_factor)


def make_project(
    rng: np.random.Generator,
    spec: WorkloadSpec,
    person: Person,
    number: int,
    at: tuple[float, float],
    cluster_efficiency: float,
) -> Project:
    """Draw a project; ``at`` are the quantiles of its size and of its planned run."""
    drawn = (_draw(rng, spec, person, number, at, cluster_efficiency) for _ in range(_TRIES))
    project = next((each for each in drawn if _epoch_seconds(each, spec.cluster) <= _longest_s()), None)
    if project is None:
        raise AssertionError(f"{_TRIES} programs drawn and not one does an epoch in {_longest_s():.0f} s")
    return _pin(rng, replace(project, hyper=_plan(rng, project, spec.cluster, at[1])))


def _draw(
    rng: np.random.Generator,
    spec: WorkloadSpec,
    person: Person,
    number: int,
    at: tuple[float, float],
    cluster_efficiency: float,
) -> Project:
    """A program with a batch that fits, but without a plan for how long it runs."""
    gpus = _size(profile_named(spec.profile).gpus, at[0], spec.cluster.gpus // 2)
    style = pick(rng, [style for style in styles().values() if gpus in style.gpus])
    model = models()[pick(rng, style.models)]
    dataset = pick(rng, model.datasets)
    optimizer = pick(rng, style.optimizers)
    hyper = Hyper(
        epochs=1,
        max_steps=None,
        batch=pick(rng, style.batches),
        accum=pick(rng, (1, 1, 2, 4)) if style.accumulates else 1,
        lr=pick(rng, _RATES[optimizer]),
        seed=pick(rng, (0, 1, 42, 1234, 2025)),
    )
    workers = pick(rng, (4, 6, 8, 12))
    efficiency = person.efficiency * cluster_efficiency * model_factor(spec.seed, model.name)
    project = Project(
        name=f"{dataset.replace('_', '-')}-{pick(rng, _NOUNS)}{number}",
        user=person,
        style=style,
        model=model,
        dataset=dataset,
        gpus=gpus,
        nodes=max(1, math.ceil(gpus / spec.cluster.gpus_per_node)),
        hyper=hyper,
        written=hyper,
        pinned=(),
        launcher=_launcher(rng, style, gpus, spec.cluster),
        launch_variant=int(rng.integers(LAUNCH_VARIANTS)),
        precision=pick(rng, style.precisions),
        optimizer=optimizer,
        version=1,
        workers=workers,
        words={key: pick(rng, choices) for key, choices in style.words.items()},
        quirks=frozenset(name for name, share in style.quirks.items() if rng.random() < share),
        dead=tuple(int(i) for i in rng.permutation(DEAD_HELPERS)[: int(rng.integers(0, 3))]),
        dead_options=_dead_options(rng) if style.takes_dead_options else (),
        efficiency=efficiency * lognormal(rng, 1.0, physics()["scatter"]["project"]),
        input_s_per_sample=_input_cost(rng, model, workers),
    )
    return replace(project, hyper=_fit_batch(project, spec.cluster))


def _longest_s() -> float:
    return float(parameters()["planned"]["longest_s"])


def _epoch_seconds(project: Project, cluster: ClusterSpec) -> float:
    """The shortest training that the program can do in full."""
    _, per_epoch = steps_of(project, project.hyper)
    counted = project.style.iterations == "epochs"
    return step_of(project, project.hyper, cluster).seconds * (per_epoch or 1) if counted else 0.0


def edited(rng: np.random.Generator, project: Project) -> Project:
    """The program after an edit: a new version, perhaps with another unused helper."""
    dead = tuple(sorted({*project.dead, int(rng.integers(DEAD_HELPERS))})[-3:])
    return replace(project, version=project.version + 1, dead=dead if rng.random() < 0.5 else project.dead)


def _size(shares: Mapping[int, float], at: float, most: int) -> int:
    """GPUs at a quantile of the published shares; what is too large for half of the cluster is the largest below."""
    edges = np.cumsum(list(shares.values()))
    wanted = list(shares)[min(int(np.searchsorted(edges, at * edges[-1], side="right")), len(edges) - 1)]
    return max((size for size in shares if size <= min(wanted, most)), default=1)


def _launcher(rng: np.random.Generator, style: Style, gpus: int, cluster: ClusterSpec) -> str:
    """How it is started; a shell script on one machine only."""
    several = gpus > cluster.gpus_per_node
    possible = {name: share for name, share in style.launchers.items() if not several or name != "script"}
    return pick_weighted(rng, possible)


def _dead_options(rng: np.random.Generator) -> tuple[DeadOption, ...]:
    return tuple(_DEAD[int(i)] for i in rng.permutation(len(_DEAD))[: int(rng.integers(0, 4))])


def _input_cost(rng: np.random.Generator, model: Model, workers: int) -> float:
    table = physics()
    return lognormal(rng, table["input_s"][model.input_kind], table["input_sigma"]) / workers


def _fit_batch(project: Project, cluster: ClusterSpec) -> Hyper:
    """Halve the batch until it fits: what a user does before a project is worth keeping."""
    hyper = project.hyper
    while hyper.batch > 1 and not fits(project, hyper, cluster):
        hyper = replace(hyper, batch=hyper.batch // 2)
    return hyper


def _plan(rng: np.random.Generator, project: Project, cluster: ClusterSpec, at: float) -> Hyper:
    """Choose epochs or steps, in round numbers, for about the time the user has in mind."""
    planned = parameters()["planned"]
    median_s = planned["median_s"] * project.gpus ** planned["growth_per_gpu"]
    wanted_s = median_s * math.exp(planned["sigma"] * NormalDist().inv_cdf(min(max(at, 1e-4), 1 - 1e-4)))
    planned_s = min(max(wanted_s, planned["shortest_s"]), planned["longest_s"])
    hyper = project.hyper
    steps = max(50.0, planned_s / step_of(project, hyper, cluster).seconds)
    if project.style.iterations == "epochs":
        _, per_epoch = steps_of(project, hyper)
        epochs = min(_NICE, key=lambda n: abs(math.log(n * (per_epoch or 1) / steps)))
        return replace(hyper, epochs=epochs)
    rounded = _round(steps)
    every = max(10, rounded // pick(rng, (10, 20, 40)))
    return replace(hyper, epochs=None, max_steps=rounded, checkpoint_every=every, warmup=max(10, rounded // 50))


def _round(steps: float) -> int:
    """One and a half digits, as people write numbers of steps."""
    digits = 10 ** math.floor(math.log10(steps))
    return max(50, int(round(2 * steps / digits) * digits) // 2)


def _pin(rng: np.random.Generator, project: Project) -> Project:
    """Let the launcher set some values; the program's own defaults for these are stale."""
    if project.style.pins == "none":
        return replace(project, written=project.hyper)
    length = "epochs" if project.hyper.epochs else "max_steps"
    chosen = [key for key in (length, "batch", "lr") if key in project.style.options and rng.random() < _PINNED_SHARE]
    written = project.hyper
    for key in chosen:
        written = _stale(rng, written, key)
    return replace(project, written=written, pinned=tuple(chosen))


def _stale(rng: np.random.Generator, hyper: Hyper, key: str) -> Hyper:
    factor = pick(rng, _STALE)
    if key == "lr":
        return replace(hyper, lr=f"{float(hyper.lr) * factor:.3g}")
    if key == "batch":
        return replace(hyper, batch=_other(hyper.batch, (8, 16, 32, 64, 128)))
    if key == "epochs":
        return replace(hyper, epochs=max(1, round((hyper.epochs or 1) * factor)) + 1)
    return replace(hyper, max_steps=max(10, round((hyper.max_steps or 1) * factor)))


def _other(value: int, choices: Sequence[int]) -> int:
    return next(choice for choice in choices if choice > value) if value < choices[-1] else choices[0]
