"""How a run ends: completed, stopped early, cancelled, failed or at its limit; and the limit that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from analyzers.types import Outcome
from schedmate.workload.memory import needed_mib
from schedmate.workload.params import parameters, profile_named
from schedmate.workload.physics import Run
from schedmate.workload.project import Hyper, Person, Project
from schedmate.workload.rng import Hand, lognormal, loguniform, stream
from schedmate.workload.types import Kind, WorkloadSpec

_SHORTEST_S = 15.0
#: A batch that is this many times too large is not tried by anyone.
_MOST_TIMES_LARGER = 256


@dataclass(frozen=True, slots=True)
class End:
    """How and after how many steps a run ends."""

    outcome: Outcome
    failure: str | None
    steps: int
    duration_s: float
    stopped_early: bool = False


class Fates:
    """Deals outcomes and causes such that over all jobs their shares are the published ones."""

    def __init__(self, spec: WorkloadSpec) -> None:
        rng = stream(spec.seed, "fates")
        self._outcomes: Hand[Outcome] = Hand(rng, profile_named(spec.profile).outcomes)
        self._causes: Hand[str] = Hand(rng, parameters()["failures"])

    def outcome(self, kind: Kind, *, can_time_out: bool) -> Outcome:
        """How a job of this kind ends."""
        weights: dict[Outcome, float] = dict(parameters()["end_tilt"][kind])
        if not can_time_out:
            weights["timeout"] = 0.0
        return self._outcomes.draw(weights)

    def cause(self, *, possible: Mapping[str, bool]) -> str:
        """Why a failed job fails."""
        return self._causes.draw({cause: 0.0 for cause, can in possible.items() if not can})


def possible_causes(project: Project, kind: Kind, larger_batch: int | None) -> dict[str, bool]:
    """Failure causes that make sense for a run."""
    table = parameters()
    causes = dict.fromkeys(table["failures"], True)
    causes["cuda_oom"] = larger_batch is not None and kind != "evaluation"
    for cause in table["needs_several_nodes"]:
        causes[cause] = project.nodes > 1
    return causes


def too_large_batch(project: Project, hyper: Hyper, memory_mib: float) -> int | None:
    """The first doubling of the batch that does not fit on the GPU; None where no one could give one."""
    if "batch" not in project.style.options:
        return None
    batch = hyper.batch
    while batch < _MOST_TIMES_LARGER * hyper.batch:
        batch *= 2
        # well beyond: what is a little too large may run, with the allocator's luck
        if needed_mib(project, replace(hyper, batch=batch)) > 1.15 * memory_mib:
            return batch
    return None


def end_of(
    rng: np.random.Generator, project: Project, hyper: Hyper, run: Run, outcome: Outcome, failure: str | None
) -> End:
    """When a run that ends in this way does so. A timeout is cut by the limit later."""
    table = parameters()
    if outcome == "cancelled":
        share = loguniform(rng, *table["cancel_at"])
        steps = int(share * run.steps)
        return End("cancelled", None, steps, max(_SHORTEST_S, run.seconds(steps)))
    if outcome == "failed":
        assert failure is not None
        low, high = table["failure_at"][failure]
        if high == 0:
            return End("failed", failure, 0, max(_SHORTEST_S, run.startup_s * float(rng.uniform(0.2, 0.6))))
        steps = int(loguniform(rng, low, high) * run.steps)
        return End("failed", failure, steps, max(_SHORTEST_S, run.seconds(steps)))
    if outcome == "completed" and (steps := _early_stop(rng, project, hyper, run)):
        return End("completed", None, steps, run.seconds(steps), stopped_early=True)
    return End(outcome, None, run.steps, run.duration_s)


def _early_stop(rng: np.random.Generator, project: Project, hyper: Hyper, run: Run) -> int:
    """Steps after which a program with early stopping ends by itself; 0 when it does not."""
    row = parameters()["early_stop"]
    if "early_stopping" not in project.quirks or not run.steps_per_epoch or hyper.max_steps is not None:
        return 0
    epochs = run.steps // run.steps_per_epoch
    stop = round(epochs * float(rng.uniform(*row["at"])))
    if rng.random() >= row["share"] or not row["least_epochs"] <= stop < epochs:
        return 0
    return stop * run.steps_per_epoch


def limit_below(duration_s: float, startup_s: float) -> float | None:
    """The largest limit on offer that cuts a run short while it trains; None when there is none."""
    fitting = [m for m in parameters()["limits"]["minutes"] if 1.2 * startup_s < m * 60 < duration_s]
    return max(fitting) * 60.0 if fitting else None


def limit_above(rng: np.random.Generator, person: Person, duration_s: float) -> float:
    """The limit a user asks for: the next round value above their usual overestimate, or simply the largest."""
    row = parameters()["limits"]
    offered = row["minutes"]
    wanted = duration_s / 60 * max(1.02, person.limit_factor * lognormal(rng, 1.0, row["factor_sigma"]))
    if person.asks_maximum or wanted > offered[-1]:
        return float(max(offered[-1], 1440 * -(-duration_s * 1.02 // 86_400))) * 60.0
    return float(next(minutes for minutes in offered if minutes >= wanted)) * 60.0
