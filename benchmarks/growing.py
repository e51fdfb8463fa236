"""Runs that never ran, as the logs they would have written: line by line with the time of each.

A run has a pace with noise, a compilation or slow first steps, evaluations and checkpoints (announced, told of
afterwards or silent; by steps, by epochs or by the clock), now and then a slow stretch, a drift or a hiccup of the file
system, and it may stop dead somewhere. Everything is drawn from a seed; nothing here knows how logs are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Literal, NamedTuple

START = datetime(2026, 3, 2, 7, 30)

#: How a pause shows in the log: nothing, words before it, words after it, or a count of its own work.
Shown = Literal["silent", "before", "after", "counted"]


class Line(NamedTuple):
    """``at`` in seconds since the start; ``is_step``: a record of training."""

    at: float
    text: str
    is_step: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """What interrupts training every so many steps or seconds, for about ``seconds``."""

    kind: Literal["eval", "save"]
    shown: Shown
    seconds: float
    every_steps: int = 0
    every_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: ``pace`` seconds per step, a record each ``stride`` steps; ``first_s`` before the first steps end.

    ``slow`` are stretches (from, to, times) in shares of the steps; ``drift`` is the pace's whole change from begin to
    end; ``stops_at`` the share of the steps at which it stops dead, in a pause if ``stops_in_pause``.
    """

    form: str
    steps: int
    stride: int
    pace: float
    noise: float
    first_s: float
    compile_shown: bool
    epoch_steps: int
    pauses: tuple[Pause, ...] = ()
    slow: tuple[tuple[float, float, float], ...] = ()
    drift: float = 0.0
    hiccups: float = 0.0
    stops_at: float | None = None
    stops_in_pause: bool = False
    heartbeat_s: float = 0.0
    seed: int = 0


@dataclass(slots=True)
class Run:
    """What a plan wrote. ``end`` is when it was done, ``stopped`` when it stopped dead, ``hiccups`` when the file
    system was away for a while, in seconds since the start."""

    plan: Plan
    lines: list[Line] = field(default_factory=list)
    end: float = 0.0
    stopped: float | None = None
    in_pause: bool = False
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
        pauses.append(_pause("eval", random, stride, steps, gap_s * 10 ** random.uniform(0.2, 1.5)))
    if random.random() < 0.8:
        pauses.append(_pause("save", random, stride, steps, gap_s * 10 ** random.uniform(-0.5, 1.0)))
    slow = []
    if random.random() < 0.25:
        begin = random.uniform(0.05, 0.9)
        slow.append((begin, begin + random.uniform(0.03, 0.3), random.uniform(1.2, 2.5)))
    return Plan(
        form, steps, stride, gap_s / stride, random.choice([0.02, 0.05, 0.15, 0.3]),
        gap_s * 10 ** random.uniform(-0.5, 1.5), random.random() < 0.5, steps // random.choice([3, 5, 8, 12, 30]),
        tuple(pauses), tuple(slow), random.choice([0.0, 0.0, 0.0, 0.1, -0.1, 0.25]),
        random.choice([0.0, 0.0, 0.0, 0.003]), random.uniform(0.06, 0.97) if stopping else None,
        stopping and random.random() < 0.15, random.choice([0.0, 0.0, 30.0]), seed,
    )  # fmt: skip


def _pause(kind: Literal["eval", "save"], random: Random, stride: int, steps: int, seconds: float) -> Pause:
    shown: Shown = random.choice(["silent", "before", "before", "after", "counted" if kind == "eval" else "before"])
    if kind == "save" and random.random() < 0.25:
        return Pause(kind, shown, seconds, every_s=max(random.choice([600.0, 1800.0, 3600.0]), 5 * seconds))
    many = random.choice([8, 15, 30])
    every = next(
        (size for size in (50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10000, 20000) if size * many >= steps), 20000
    )
    at_epoch = random.random() < 0.4
    return Pause(kind, shown, seconds, every_steps=0 if at_epoch else max(every, stride))


class _Writer:
    """Carries a plan out."""

    def __init__(self, plan: Plan) -> None:
        self.random = Random(plan.seed)
        self.run = Run(plan)
        self.form = FORMS[plan.form]
        self.now = 0.0
        self.beat = plan.heartbeat_s
        self.saved = 0.0

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

    def write(self) -> Run:
        plan, random = self.run.plan, self.random
        stops = round(plan.stops_at * plan.steps) if plan.stops_at is not None else None
        for text in self.form.begin(plan):
            self.say(text)
        if plan.compile_shown:
            self.say("compiling the model, the first steps take longer")
        self.wait(plan.first_s)
        for step in range(1, plan.steps + 1):
            share = step / plan.steps
            times = 1 + plan.drift * share
            for begin, end, slower in plan.slow:
                times *= slower if begin <= share < end else 1.0
            self.wait(max(0.2, random.gauss(1, plan.noise)) * plan.pace * times)
            if random.random() < plan.hiccups / plan.stride:
                self.run.hiccups.append(self.now)
                self.wait(plan.pace * plan.stride * random.uniform(2, 8))
            if step % plan.stride == 0 or step == plan.steps:
                for text in self.form.step(plan, step, random):
                    self.say(text, is_step=True)
            due = [pause for pause in plan.pauses if self.is_due(pause, step)]
            dead = stops is not None and step >= stops
            if dead and not (plan.stops_in_pause and plan.pauses):
                return self.stop(in_pause=False)
            for pause in due:
                if dead:
                    self.announce(pause, step)
                    return self.stop(in_pause=True)
                self.pause(pause, step)
        self.run.end = self.now
        return self.run

    def stop(self, *, in_pause: bool) -> Run:
        self.run.stopped, self.run.in_pause = self.now, in_pause
        steps = [line.at for line in self.run.lines if line.is_step]
        usual = self.run.plan.pace * self.run.plan.stride
        self.wait(max(40 * usual, 7200.0) + 3 * max((b - a for a, b in pairwise(steps)), default=0))
        self.run.end = self.now
        return self.run

    def is_due(self, pause: Pause, step: int) -> bool:
        if pause.every_s:
            if self.now - self.saved < pause.every_s:
                return False
            self.saved = self.now
            return True
        return step % (pause.every_steps or self.run.plan.epoch_steps) == 0

    def announce(self, pause: Pause, step: int) -> None:
        if pause.shown in ("before", "counted"):
            self.say("Running validation" if pause.kind == "eval" else f"Saving checkpoint to /ckpt/step_{step}")

    def pause(self, pause: Pause, step: int) -> None:
        self.announce(pause, step)
        seconds = pause.seconds * max(0.3, self.random.gauss(1, 0.1))
        parts = 20 if pause.shown == "counted" else 1
        for part in range(parts):
            self.wait(seconds / parts)
            if parts > 1:
                self.say(f"validating batch {part + 1}/{parts}")
        if pause.kind == "eval" and pause.shown != "silent":
            self.say(f"validation loss {2 + self.random.random():.4f}")
        elif pause.shown == "after":
            self.say(f"checkpoint saved to /ckpt/step_{step} in {seconds:.1f} s")


class Form(NamedTuple):
    """How a format writes time stamps, its beginning, and one record."""

    stamp: Callable[[datetime], str]
    begin: Callable[[Plan], list[str]]
    step: Callable[[Plan, int, Random], list[str]]


def _loss(plan: Plan, step: int, random: Random) -> float:
    return 2 + 6 / (1 + 20 * step / plan.steps) + random.gauss(0, 0.02)


def _iso(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} "


def _megatron(plan: Plan, step: int, random: Random) -> list[str]:
    ms = 1000 * plan.pace * random.uniform(0.97, 1.03)
    return [
        f"iteration {step:8d}/{plan.steps:8d} | consumed samples: {64 * step:12d} | elapsed time per iteration (ms): "
        f"{ms:.1f} | learning rate: 1.000E-04 | lm loss: {_loss(plan, step, random):.6E} | loss scale: 1.0 |"
    ]


def _epochs(plan: Plan, step: int, random: Random) -> list[str]:
    epoch, batch = divmod(step - 1, plan.epoch_steps)
    last = -(-plan.steps // plan.epoch_steps)
    return [f"Epoch [{epoch + 1}/{last}] Step [{batch + 1}/{plan.epoch_steps}] Loss: {_loss(plan, step, random):.4f}"]


def _json(plan: Plan, step: int, random: Random) -> list[str]:
    loss = _loss(plan, step, random)
    return [f'{{"step": {step}, "max_steps": {plan.steps}, "train_loss": {loss:.4f}, "lr": 0.0003}}']


def _percent(plan: Plan, step: int, random: Random) -> list[str]:
    done, before = 100 * step // plan.steps, 100 * (step - plan.stride) // plan.steps
    return [f"fitted {done}% of the grid"] if done > before else []


def _hf(plan: Plan, step: int, random: Random) -> list[str]:
    loss, epoch = _loss(plan, step, random), step / plan.epoch_steps
    rate, percent = 1 / plan.pace, 100 * step // plan.steps
    bar = f"{percent:3d}%|{'#' * (percent // 10):10s}| {step}/{plan.steps} [01:00<10:00, {rate:5.2f}it/s]"
    return [bar, f"{{'loss': {loss:.4f}, 'learning_rate': 5e-05, 'epoch': {epoch:.2f}}}"]


FORMS: dict[str, Form] = {
    "plain": Form(
        _iso, lambda plan: [f"max_steps = {plan.steps}"],
        lambda plan, step, random: [f"step {step} | loss {_loss(plan, step, random):.4f} | lr 3.0e-04"],
    ),
    "megatron": Form(lambda time: f" [{time:%Y-%m-%d %H:%M:%S}] ", lambda plan: ["training ..."], _megatron),
    "epochs": Form(lambda time: f"[{time:%d/%b/%Y %H:%M:%S}] ", lambda plan: [], _epochs),
    "json": Form(lambda time: f"{time:%Y-%m-%dT%H:%M:%S.%f}Z ", lambda plan: [], _json),
    "hf": Form(lambda time: f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z ", lambda plan: [], _hf),
    "absl": Form(
        lambda time: f"I{time:%m%d %H:%M:%S.%f} 140012 train.py:88] ", lambda plan: [f"num_train_steps: {plan.steps}"],
        lambda plan, step, random: [f"step = {step}, loss = {_loss(plan, step, random)}, steps/s = {1 / plan.pace}"],
    ),
    "percent": Form(
        _iso, lambda plan: ["fitting"],
        _percent,
    ),
    "records": Form(
        _iso, lambda plan: [],
        lambda plan, step, random: [f"{64 * step} of {64 * plan.steps} documents, nll={_loss(plan, step, random):.3f}"],
    ),
}  # fmt: skip


def write(plan: Plan) -> Run:
    """What the plan's run would have written."""
    return _Writer(plan).write()
