"""How a job's run lies in time: what every log writer writes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from schedmate.workload.project import Hyper, Project
from schedmate.workload.rng import stream
from schedmate.workload.sessions import Draft
from schedmate.workload.types import Ask, Kind, Truth, moment

#: Records in a log: real ones have more, and say no more.
RECORDS = 90
RECORDS_PER_EPOCH = 3
#: A run is a little faster and slower by turns (shared storage, neighbours): this far, this many times.
_WAVES, _WAVE = 3, 0.04


@dataclass(frozen=True, slots=True)
class Trail:
    """A run up to ``steps_done``. ``pace_s`` is mean wall time per optimizer step, pauses included.

    ``last_step`` is where the run ends, now or later.
    """

    project: Project
    kind: Kind
    hyper: Hyper
    start: datetime
    startup_s: float
    pace_s: float
    steps_done: int
    last_step: int
    steps_planned: int
    steps_per_epoch: int | None
    rng: np.random.Generator

    @property
    def per_epoch(self) -> int:
        """Optimizer steps of an epoch; the whole run where there are no epochs."""
        return min(self.steps_per_epoch or self.steps_planned, self.steps_planned)

    @property
    def epochs(self) -> int:
        """Epochs that the program says it will run."""
        if self.hyper.max_steps is not None and self.project.style.step_limit == "caps":
            return self.hyper.epochs or 1
        return math.ceil(self.steps_planned / self.per_epoch)

    def seconds(self, step: int) -> float:
        """Time from the first step to the end of ``step``."""
        wave = 2 * math.pi * _WAVES / max(self.last_step, 1)
        return self.pace_s * (step + _WAVE * math.sin(wave * step) / wave)

    def pace_at(self, step: int) -> float:
        """Wall time of a step at this point, as a program measures it over some steps."""
        wave = 2 * math.pi * _WAVES / max(self.last_step, 1)
        noise = 1 + 0.01 * float(self.rng.standard_normal())
        return self.pace_s * (1 + _WAVE * math.cos(wave * step)) * noise

    def when(self, step: int) -> datetime:
        """Wall time at the end of a step."""
        return self.start + timedelta(seconds=self.startup_s + self.seconds(step) + float(self.rng.uniform(0, 0.4)))

    def loss(self, step: int) -> float:
        """A falling, noisy loss."""
        high = 10.8 if self.project.model.seq_len and self.project.style.log != "hf" else 2.6
        low = high * 0.24
        done = step / max(self.steps_planned, 1)
        return (low + (high - low) * math.exp(-4 * done)) * float(1 + 0.02 * self.rng.standard_normal())

    def rate(self, step: int) -> float:
        """Cosine-decayed learning rate."""
        return float(self.hyper.lr) * 0.5 * (1 + math.cos(math.pi * step / max(self.steps_planned, 1)))

    def steps(self, every: int) -> list[int]:
        """Logged steps: the first, multiples of ``every`` thinned to about `RECORDS`, and the last of a whole run.

        What is thinned depends on where the run ends, not on how far it is: a log only ever grows.
        """
        stride = every * max(1, math.ceil(self.last_step / every / RECORDS))
        logged = {min(every, self.last_step), *range(stride, self.last_step + 1, stride)}
        if self.last_step == self.steps_planned:
            logged.add(self.last_step)
        return sorted(step for step in logged if 0 < step <= self.steps_done)

    def batches(self, every: int) -> list[int]:
        """Logged steps of a loop that counts batches within epochs: the same batches in each, a few and the last."""
        per_epoch = self.per_epoch
        wanted = max(RECORDS_PER_EPOCH, RECORDS // max(1, math.ceil(self.last_step / per_epoch)))
        stride = every * max(1, math.ceil(min(per_epoch, self.last_step) / every / wanted))
        logged = [*range(stride, per_epoch, stride), per_epoch]
        started = -(-self.steps_done // per_epoch)
        steps = (epoch * per_epoch + batch for epoch in range(started) for batch in logged)
        return [step for step in steps if step <= self.steps_done]

    def place(self, step: int) -> tuple[int, int]:
        """(epoch counted from 0, batch in it counted from 1) of a step."""
        epoch, batch = divmod(step - 1, self.per_epoch)
        return epoch, batch + 1


def trail_of(ask: Ask, truth: Truth, draft: Draft, start_s: float, ran_s: float, seed: int) -> Trail:
    """What a job that started at ``start_s`` had done after ``ran_s`` seconds."""
    startup_s = min(truth.startup_s, 0.9 * truth.duration_s)
    pace_s = (truth.duration_s - startup_s) / truth.steps_done if truth.steps_done else truth.step_s
    trail = Trail(
        project=draft.project,
        kind=draft.kind,
        hyper=draft.hyper,
        start=moment(start_s),
        startup_s=startup_s,
        pace_s=pace_s,
        steps_done=truth.steps_done,
        last_step=truth.steps_done,
        steps_planned=truth.steps_planned,
        steps_per_epoch=truth.steps_per_epoch,
        rng=stream(seed, "log", ask.job_id),
    )
    return trail if ran_s >= truth.duration_s else _cut(trail, ran_s - startup_s)


def _cut(trail: Trail, running_s: float) -> Trail:
    """The run as far as it had got."""
    low, high = 0, trail.last_step
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if trail.seconds(middle) <= running_s else (low, middle - 1)
    return replace(trail, steps_done=low)
