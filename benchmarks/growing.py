"""Runs that never ran, as the logs they would have written: line by line with the time of each.

A run has a pace with noise (of some, with heavy tails), a compilation or slow first steps, evaluations and checkpoints
(announced, told of afterwards or silent; by steps, by epochs or by the clock; of uneven length), some with a long
evaluation at epoch ends beside a short one, data loaders that start anew with each epoch, now and then a slow stretch,
a drift or a hiccup of the file system; some go on from a checkpoint. It may stop dead in training, where a pause is
due, or in a pause. Everything is drawn from a seed; nothing here knows how logs are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from math import exp
from random import Random
from typing import Literal, NamedTuple

from benchmarks.growing_forms import FORMS, Shown

START = datetime(2026, 3, 2, 7, 30)

#: Where a run stops dead: in training, at a step at which a pause is due (before anything is said of it), in a pause.
Stop = Literal["training", "due", "pause"]
_STOPS: tuple[Stop, ...] = ("training", "training", "training", "due", "pause")
_PARTS = 20
#: No run stops dead before so many records: until then nothing tells the usual gap.
_FEWEST = 8


class Line(NamedTuple):
    """``at`` in seconds since the start; ``is_step``: a record of training."""

    at: float
    text: str
    is_step: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """What interrupts training every so many steps or seconds (else at the end of each epoch), for about ``seconds``
    that scatter by ``spread`` (of their logarithm)."""

    kind: Literal["eval", "save"]
    shown: Shown
    seconds: float
    every_steps: int = 0
    every_s: float = 0.0
    spread: float = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: ``pace`` seconds per step, a record each ``stride`` steps; ``first_s`` before the first steps end.

    ``noise`` is a step's, as a share; ``tail`` a record's, of its logarithm. ``epoch_s`` is what each new epoch takes
    to begin. ``slow`` are stretches (from, to, times) in shares of the steps; ``drift`` is the pace's whole change from
    begin to end; ``stops_at`` the share of the steps to do from which on it stops dead, where ``stop`` says. ``begun``
    steps were done before the log begins.
    """

    form: str
    steps: int
    stride: int
    pace: float
    noise: float
    tail: float
    first_s: float
    compile_shown: bool
    config_shown: bool
    epoch_steps: int
    epoch_s: float = 0.0
    begun: int = 0
    pauses: tuple[Pause, ...] = ()
    slow: tuple[tuple[float, float, float], ...] = ()
    drift: float = 0.0
    hiccups: float = 0.0
    stops_at: float | None = None
    stop: Stop = "training"
    heartbeat_s: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Run:
    """What a plan wrote. ``end`` is when it was done, ``stopped`` when it stopped dead, ``hiccups`` when the file
    system was away for a while, in seconds since the start; ``due_s`` how long the pauses usually last at which it
    stopped."""

    plan: Plan
    lines: list[Line] = field(default_factory=list)
    end: float = 0.0
    stopped: float | None = None
    due_s: float = 0.0
    hiccups: list[float] = field(default_factory=list)


def plans(count: int, seed: int, *, stopping: bool) -> Iterator[Plan]:
    """So many runs of all forms in turn."""
    random = Random(seed)
    forms = sorted(FORMS)
    for index in range(count):
        yield _plan(forms[index % len(forms)], random, stopping=stopping, seed=seed * 100_003 + index)


def _plan(form: str, random: Random, *, stopping: bool, seed: int) -> Plan:
    stride = random.choice([1, 5, 10, 10, 20, 50, 100])
    gap_s = 10 ** random.uniform(0.9, 2.2)  # 8 to 160 s from record to record
    records = random.randrange(120, 900)
    steps = stride * records
    pauses = []
    if random.random() < 0.85:
        pauses.append(_pause("eval", form, random, stride, steps, gap_s * 10 ** random.uniform(0.2, 1.5)))
    if random.random() < 0.8:
        pauses.append(_pause("save", form, random, stride, steps, gap_s * 10 ** random.uniform(-0.5, 1.0)))
    epochs = FORMS[form].epochs
    if epochs == "too" and pauses and pauses[0].kind == "eval" and pauses[0].every_steps and random.random() < 0.15:
        pauses.append(Pause("eval", pauses[0].shown, pauses[0].seconds * random.uniform(2, 5)))
    slow = []
    if random.random() < 0.25:
        begin = random.uniform(0.05, 0.9)
        slow.append((begin, begin + random.uniform(0.03, 0.3), random.uniform(1.2, 2.5)))
    epoch_steps = max(2 * stride, steps // random.choice([3, 5, 8, 12, 30]))
    return Plan(
        form, steps, stride, gap_s / stride, random.choice([0.02, 0.05, 0.15, 0.3]),
        random.choice([0.0, 0.0, 0.0, 0.2, 0.5]), gap_s * 10 ** random.uniform(-0.5, 1.5), random.random() < 0.5,
        random.random() < 0.5, epoch_steps,
        gap_s * random.choice([0.0, 0.0, 0.0, random.uniform(0.5, 6)]) * (epochs != "never"),
        stride * int(records * random.uniform(0.1, 0.6)) if random.random() < 0.12 else 0,
        tuple(pauses), tuple(slow), random.choice([0.0, 0.0, 0.0, 0.1, -0.1, 0.25]),
        random.choice([0.0, 0.0, 0.0, 0.003]), random.uniform(0.06, 0.97) if stopping else None,
        random.choice(_STOPS), random.choice([0.0, 0.0, 30.0]), seed,
    )  # fmt: skip


def _pause(kind: Literal["eval", "save"], form: str, random: Random, stride: int, steps: int, seconds: float) -> Pause:
    shown = random.choice(FORMS[form].evals if kind == "eval" else FORMS[form].saves)
    spread = random.choice([0.05, 0.1, 0.1, 0.3])
    epochs = FORMS[form].epochs
    if kind == "save" and epochs != "only" and random.random() < 0.25:
        every_s = max(random.choice([600.0, 1800.0, 3600.0]), 5 * seconds)
        return Pause(kind, shown, seconds, every_s=every_s, spread=spread)
    many = random.choice([8, 15, 30])
    every = next(
        (size for size in (50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10000, 20000) if size * many >= steps), 20000
    )
    at_epoch = epochs == "only" or (epochs == "too" and random.random() < 0.4)
    return Pause(kind, shown, seconds, every_steps=0 if at_epoch else max(every, stride), spread=spread)


class _Writer:
    """Carries a plan out."""

    def __init__(self, plan: Plan) -> None:
        self.random = Random(plan.seed)
        self.run = Run(plan)
        self.form = FORMS[plan.form]
        self.now = 0.0
        self.beat = plan.heartbeat_s
        self.saved = 0.0
        self.recorded = plan.begun
        self.records = 0

    def say(self, text: str, *, is_step: bool = False) -> None:
        stamp = START + timedelta(seconds=self.now)
        self.run.lines.append(Line(self.now, self.form.stamp(stamp) + text, is_step))

    def wait(self, seconds: float) -> None:
        """Let time pass; something that lives on its own may print meanwhile."""
        until = self.now + seconds
        while self.beat and self.beat < until:
            self.now = max(self.now, self.beat)
            self.say(f"monitor: gpu mem {self.random.randrange(60, 80)} GiB, power {self.random.randrange(300, 700)} W")
            self.beat += self.run.plan.heartbeat_s
        self.now = until

    def begin(self) -> None:
        """What comes before the first step."""
        plan = self.run.plan
        for text in [*self.form.begin(plan), *(self.form.config(plan) if plan.config_shown else [])]:
            self.say(text)
        if plan.begun:
            self.say(f"resumed from /ckpt/step_{plan.begun}")
        if plan.compile_shown:
            self.say(self.form.compiles)
        self.wait(plan.first_s)

    def write(self) -> Run:
        plan = self.run.plan
        to_do = plan.steps - plan.begun
        stops = plan.begun + round(plan.stops_at * to_do) if plan.stops_at is not None else None
        self.begin()
        tail = 1.0
        for step in range(plan.begun + 1, plan.steps + 1):
            if plan.tail and (step - 1) % plan.stride == 0:
                tail = exp(self.random.gauss(0, plan.tail))
            self.train(step, tail)
            due = [pause for pause in plan.pauses if self.is_due(pause, step)]
            if not self.form.is_pause_first:
                self.record(step)
            dead = stops is not None and step >= stops and self.records >= _FEWEST
            if dead and plan.stop == "training" and self.is_far_from_pauses(step):
                return self.stop()
            for pause in due:
                if dead and plan.stop != "training":
                    if plan.stop == "pause":
                        self.announce(pause, step)
                    return self.stop(due_s=sum(one.seconds for one in due))
                self.pause(pause, step)
            if self.form.is_pause_first:
                self.record(step)
        self.run.end = self.now
        return self.run

    def train(self, step: int, tail: float) -> None:
        """One step, as long as it takes here; ``tail`` is how many times as long the record's steps take."""
        plan, share = self.run.plan, step / self.run.plan.steps
        times = tail * (1 + plan.drift * share)
        for begin, end, slower in plan.slow:
            times *= slower if begin <= share < end else 1.0
        self.wait(max(0.2, self.random.gauss(1, plan.noise)) * plan.pace * times)
        if step % plan.epoch_steps == 1:
            self.wait(plan.epoch_s * self.random.uniform(0.7, 1.4))
        if self.random.random() < plan.hiccups / plan.stride:
            self.run.hiccups.append(self.now)
            self.wait(plan.pace * plan.stride * self.random.uniform(2, 8))

    def record(self, step: int) -> None:
        plan = self.run.plan
        ends_epoch = self.form.ends_epochs and step % plan.epoch_steps == 0
        if step % plan.stride == 0 or step == plan.steps or ends_epoch:
            lines = self.form.step(plan, step, self.random)
            for text in lines:
                self.say(text, is_step=True)
            if lines:
                self.recorded, self.records = step, self.records + 1

    def stop(self, due_s: float = 0.0) -> Run:
        self.run.stopped, self.run.due_s = self.now, due_s
        steps = [line.at for line in self.run.lines if line.is_step]
        usual = self.run.plan.pace * self.run.plan.stride
        self.wait(max(40 * usual, 7200.0) + 3 * max((b - a for a, b in pairwise(steps)), default=0))
        self.run.end = self.now
        return self.run

    def is_far_from_pauses(self, step: int) -> bool:
        """Whether neither a pause nor a new epoch lies between the last record before this step and the next one."""
        plan = self.run.plan
        spacing = max(plan.stride, plan.steps // 100 + 1) if self.form.is_percent else plan.stride
        for between in range(self.recorded, self.recorded + spacing + 1):
            if between % plan.epoch_steps == 0 and (plan.epoch_s or any(not p.every_steps for p in plan.pauses)):
                return False
            if any(pause.every_steps and between % pause.every_steps == 0 for pause in plan.pauses):
                return False
        margin = 2 * spacing * plan.pace
        return not any(
            pause.every_s and not margin < self.now - self.saved < pause.every_s - margin for pause in plan.pauses
        )

    def is_due(self, pause: Pause, step: int) -> bool:
        if pause.every_s:
            if self.now - self.saved < pause.every_s:
                return False
            self.saved = self.now
            return True
        return step % (pause.every_steps or self.run.plan.epoch_steps) == 0

    def announce(self, pause: Pause, step: int) -> None:
        if pause.shown in ("before", "counted"):
            for text in self.form.before(pause, self.run.plan, step):
                self.say(text)

    def pause(self, pause: Pause, step: int) -> None:
        self.announce(pause, step)
        seconds = pause.seconds * exp(self.random.gauss(0, pause.spread))
        parts = _PARTS if pause.shown == "counted" else 1
        for part in range(1, parts + 1):
            self.wait(seconds / parts)
            if parts > 1:
                self.say(self.form.part(part, parts))
        if pause.shown == "after" or (pause.kind == "eval" and pause.shown != "silent"):
            for text in self.form.after(pause, self.run.plan, step, seconds, self.random):
                self.say(text)


def write(plan: Plan) -> Run:
    """What the plan's run would have written."""
    return _Writer(plan).write()
