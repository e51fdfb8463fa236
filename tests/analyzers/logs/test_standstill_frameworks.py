"""Stalls in the logs of frameworks: their evaluations, saves and warm-ups are none, what follows on a record is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from analyzers.logs import read_progress

_GAP_S = 30.0
_PAUSE_S = 400.0
_STEPS = 4000
_EPOCH = 200


def _bar(done: int, of: int, more: str = "") -> str:
    return f"{100 * done // of:3d}%|{'#' * (10 * done // of):10s}| {done}/{of} [01:00<10:00,  1.50it/s{more}]"


def _table(step: int) -> list[str]:
    rows = (("rollout/", ""), ("   ep_rew_mean", "21.3"), ("time/", ""), ("   total_timesteps", str(step)))
    return ["-" * 38, *(f"| {name:22s}| {value:10s}|" for name, value in rows), "-" * 38]


def _batch(step: int) -> tuple[int, int]:
    return (step - 1) // _EPOCH, (step - 1) % _EPOCH + 1


@dataclass(frozen=True)
class _Style:
    """What a framework prints: a record each ten steps, and lines before and after the pause that comes every
    ``every`` steps; with ``is_pause_first`` it comes before the record of its step."""

    record: Callable[[int], list[str]]
    before: Callable[[int], list[str]] = lambda step: []
    after: Callable[[int], list[str]] = lambda step: []
    begin: tuple[str, ...] = ()
    every: int = _EPOCH
    is_pause_first: bool = False


_STYLES = {
    "hf-trainer": _Style(
        lambda step: [_bar(step, _STEPS), f"{{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': {step / _EPOCH:.2f}}}"],
        lambda step: ["***** Running Evaluation *****", "  Num examples = 5000"],
        lambda step: [
            f"{{'eval_loss': 2.2, 'epoch': {step / _EPOCH:.2f}}}", f"Saving model checkpoint to out/checkpoint-{step}"
        ],
        ("***** Running training *****", f"  Total optimization steps = {_STEPS:,}"), every=500,
    ),
    "hf-trainer, silent": _Style(
        lambda step: [_bar(step, _STEPS), f"{{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': {step / _EPOCH:.2f}}}"],
        begin=("TrainingArguments(", "eval_strategy=steps,", "eval_steps=270,", ")"), every=270,
    ),
    "lightning": _Style(
        lambda step: [f"Epoch {_batch(step)[0]}: {_bar(_batch(step)[1], _EPOCH, ', v_num=3, train_loss=2.100')}"],
        lambda step: [f"Validation DataLoader 0: {_bar(1, 40)}"],
    ),
    "nanogpt": _Style(
        lambda step: [f"iter {step}: loss 2.1000, time 1500.00ms, mfu 31.20%"],
        after=lambda step: [f"step {step}: train loss 2.1000, val loss 2.2000", "saving checkpoint to out"],
        begin=(f"Overriding: max_iters = {_STEPS}", "Overriding: eval_interval = 250", "eval_iters = 200"),
        every=250, is_pause_first=True,
    ),
    "megatron": _Style(
        lambda step: [
            f" iteration {step:8d}/{_STEPS:8d} | consumed samples: {64 * step:12d} | elapsed time per iteration (ms): "
            "3000.0 | learning rate: 1.000E-04 | lm loss: 2.100000E+00 | loss scale: 1.0 |"
        ],
        after=lambda step: [
            f" validation loss at iteration {step} | lm loss value: 2.2 | ",
            f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format",
        ],
        every=500,
    ),
    "tqdm": _Style(
        lambda step: [f"train: {_bar(step, _STEPS, ', loss=2.1')}"], lambda step: [f"eval: {_bar(1, 40)}"], every=300
    ),
    "keras": _Style(
        lambda step: [
            *([f"Epoch {_batch(step)[0] + 1}/20"] if _batch(step)[1] <= 10 else []),
            f"{_batch(step)[1]}/{_EPOCH} [=======>......] - ETA: 3:20 - loss: 2.1000",
        ],
        after=lambda step: [f"{_EPOCH}/{_EPOCH} [==============] - 90s 40ms/step - loss: 2.1 - val_loss: 2.2"],
    ),
    "stable-baselines3": _Style(
        _table, after=lambda step: [f"Eval num_timesteps={step}, episode_reward=20.00 +/- 3.10"], every=500
    ),
}  # fmt: skip


class _Job:
    """Training in one of the styles."""

    def __init__(self, style: _Style, folder: Path) -> None:
        self.style, self.path = style, folder / "train.log"
        self.time, self.step = datetime(2026, 3, 2, 7), 0
        self.lines: list[str] = []
        self.say(style.begin)

    def say(self, texts: tuple[str, ...] | list[str]) -> None:
        self.lines += [f"{self.time:%Y-%m-%dT%H:%M:%S.%f}000Z {text}" for text in texts]

    def train(self, until: int, *, stops_in_pause: bool = False) -> None:
        """Up to a step; the pause that is due there is begun but does not end if it ``stops_in_pause``."""
        while self.step < until:
            self.time += timedelta(seconds=_GAP_S)
            self.step += 10
            if not self.style.is_pause_first:
                self.say(self.style.record(self.step))
            if self.step % self.style.every == 0:
                self.say(self.style.before(self.step))
                if stops_in_pause and self.step == until:
                    return
                self.time += timedelta(seconds=_PAUSE_S)
                self.say(self.style.after(self.step))
            if self.style.is_pause_first:
                self.say(self.style.record(self.step))

    def is_stalled(self, seconds: float) -> bool:
        self.path.write_text("\n".join(self.lines))
        return read_progress(self.path, now=self.time + timedelta(seconds=seconds)).anomaly == "stall"


@pytest.mark.parametrize("name", _STYLES)
def test_a_pause_is_no_stall_and_training_that_stops_is_one(name: str, tmp_path: Path) -> None:
    style = _STYLES[name]
    job = _Job(style, tmp_path)
    job.train(style.every, stops_in_pause=True)
    assert not job.is_stalled(0.95 * _PAUSE_S), "the first pause"
    job = _Job(style, tmp_path)
    job.train(4 * style.every, stops_in_pause=True)
    assert not job.is_stalled(1.3 * _PAUSE_S), "a pause as before"
    assert job.is_stalled(3 * _PAUSE_S), "a pause that does not end"
    job = _Job(style, tmp_path)
    job.train(3 * style.every + 70)
    assert not job.is_stalled(2.5 * _GAP_S), "training"
    assert job.is_stalled(3.2 * _GAP_S), "training that has stopped"


def test_a_pause_that_is_always_announced_is_not_waited_for_without_its_words(tmp_path: Path) -> None:
    style = _STYLES["hf-trainer"]
    job = _Job(style, tmp_path)
    job.train(3 * style.every + style.every - 10)
    job.time += timedelta(seconds=_GAP_S)
    job.step += 10
    job.say(style.record(job.step))
    assert not job.is_stalled(2.5 * _GAP_S)
    assert job.is_stalled(3.2 * _GAP_S)


def test_a_compiler_may_work_long_before_the_first_steps(tmp_path: Path) -> None:
    job = _Job(_STYLES["nanogpt"], tmp_path)
    job.say(["compiling the model... (takes a ~minute)"])
    assert not job.is_stalled(1500)
    job.time += timedelta(seconds=1500)
    job.train(20)
    job.say(["Compiling again: a graph has changed"])
    assert not job.is_stalled(1500)
    job.train(830)
    assert job.is_stalled(3.2 * _GAP_S)


@pytest.mark.parametrize("begun", [1300, 2600])
def test_a_run_that_goes_on_keeps_its_steps(begun: int, tmp_path: Path) -> None:
    """Steps of pauses are multiples of one distance, wherever the log begins; in one log they may fall back."""
    style = _STYLES["stable-baselines3"]
    job = _Job(style, tmp_path)
    job.step = begun
    job.train(begun // 500 * 500 + 1000)
    job.step -= 200
    job.train(job.step + 700, stops_in_pause=True)
    assert not job.is_stalled(1.3 * _PAUSE_S)
    job = _Job(style, tmp_path)
    job.step = begun
    job.train(begun // 500 * 500 + 1000 + 80)
    assert job.is_stalled(3.2 * _GAP_S)


def test_uneven_gaps_are_allowed_for_and_even_ones_are_not(tmp_path: Path) -> None:
    for factors, limit in (((1.0,), 3.2), ((0.4, 1.0, 2.6, 0.7, 1.0, 1.9, 0.5, 1.4), 4.0)):
        job = _Job(_STYLES["stable-baselines3"], tmp_path)
        for at in range(83):
            job.time += timedelta(seconds=_GAP_S * (factors[at % len(factors)] - 1))
            job.train(job.step + 10)
        assert job.is_stalled(limit * _GAP_S) == (len(factors) == 1)
        assert job.is_stalled(15 * _GAP_S)
