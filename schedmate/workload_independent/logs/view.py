"""What a log shows of a run: the steps that are printed, when, and with which loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

from schedmate.workload.types import Generated, moment
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.settings import Draft, Project, Setting

#: Logs are thinned to about so many records.
_RECORDS = 70


@dataclass(frozen=True, slots=True)
class View:
    """A run as its log tells it. ``records`` are steps, counted from 1, in order."""

    project: Project
    run: Setting
    start_s: float
    first_s: float
    step_s: float
    steps: int
    per_epoch: int
    records: tuple[int, ...]
    ended_well: bool
    stopped_early: bool
    draw: Draw
    floor: float
    height: float

    def at(self, step: int) -> datetime:
        """When a step was done."""
        return moment(self.start_s + self.first_s + step * self.step_s)

    def loss(self, step: int) -> float:
        """The loss after a step, with the noise of one batch."""
        return (self.floor + self.height * math.exp(-4.0 * step / self.steps)) * self.draw.between(0.94, 1.06)

    def epoch(self, step: int) -> int:
        """The epoch that a step is in, from 0."""
        return (step - 1) // self.per_epoch

    def within(self, step: int) -> int:
        """The step's number in its epoch, from 1."""
        return (step - 1) % self.per_epoch + 1

    @property
    def epochs(self) -> int:
        """Epochs that are planned."""
        return max(1, -(-self.steps // self.per_epoch))


def view_of(job: Generated[Draft], start_s: float, draw: Draw) -> View:
    """The view of one job. The pace is that of the wall clock, pauses and stalls in it."""
    truth, recipe = job.truth, job.recipe
    per_epoch = truth.steps_per_epoch or truth.steps_planned
    pace_s = (truth.duration_s - truth.startup_s) / truth.steps_done if truth.steps_done else truth.step_s
    every = _interval(truth.steps_planned)
    records = set(range(every, truth.steps_done + 1, every))
    ends = range(per_epoch, truth.steps_done + 1, per_epoch)
    records |= set(ends[:: max(1, len(ends) // _RECORDS)])
    return View(
        project=recipe.project,
        run=recipe.run,
        start_s=start_s,
        first_s=min(truth.startup_s, truth.duration_s),
        step_s=max(pace_s, 1e-4),
        steps=truth.steps_planned,
        per_epoch=per_epoch,
        records=tuple(sorted(records)),
        ended_well=truth.outcome == "completed",
        stopped_early=truth.stopped_early,
        draw=draw,
        floor=draw.between(0.02, 1.4),
        height=draw.between(1.0, 6.0),
    )


def _interval(steps: int) -> int:
    """A round number of steps between records."""
    wanted = max(1, steps // _RECORDS)
    size = 10 ** (len(str(wanted)) - 1)
    factor = next(factor for factor in (1, 2, 5, 10) if size * factor >= wanted)
    return int(size * factor)
