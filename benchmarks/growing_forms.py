"""How the formats of the generated logs look: time stamps, beginnings, records, and what they say of pauses.

Half of them follow a framework's own conventions (what is announced, told of afterwards or silent, and whether a pause
lies before or after the record of its step), half are loops that somebody wrote. Nothing here knows how logs are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from benchmarks.growing import Pause, Plan

#: How a pause shows in the log: nothing, words before it, words after it, or a count of its own work.
Shown = Literal["silent", "before", "after", "counted"]
_ANY: tuple[Shown, ...] = ("silent", "before", "before", "after")


def _before(pause: Pause, plan: Plan, step: int) -> list[str]:
    return ["Running validation" if pause.kind == "eval" else f"Saving checkpoint to /ckpt/step_{step}"]


def _part(part: int, parts: int) -> str:
    return f"validating batch {part}/{parts}"


def _after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    if pause.kind == "eval":
        return [f"validation loss {2 + random.random():.4f}"]
    return [f"checkpoint saved to /ckpt/step_{step} in {seconds:.1f} s"]


def _nothing(*_: object) -> list[str]:
    return []


@dataclass(frozen=True, slots=True)
class Form:
    """One format: ``stamp`` writes a time, ``begin`` the first lines, ``step`` a record's lines.

    ``config`` are the lines that name the intervals of pauses; ``evals`` and ``saves`` how those may show, ``before``,
    ``part`` and ``after`` what they say. ``is_pause_first``: a pause comes before the record of its step, not after it.
    ``ends_epochs``: the last step of each epoch has a record. ``epochs``: whether pauses come at the end of epochs too,
    only there, or never. ``is_percent``: a record comes with each hundredth of the steps.
    """

    stamp: Callable[[datetime], str]
    begin: Callable[[Plan], list[str]]
    step: Callable[[Plan, int, Random], list[str]]
    config: Callable[[Plan], list[str]] = _nothing
    evals: tuple[Shown, ...] = (*_ANY, "counted")
    saves: tuple[Shown, ...] = (*_ANY, "before")
    before: Callable[[Pause, Plan, int], list[str]] = _before
    part: Callable[[int, int], str] = _part
    after: Callable[[Pause, Plan, int, float, Random], list[str]] = _after
    compiles: str = "compiling the model, the first steps take longer"
    is_pause_first: bool = False
    ends_epochs: bool = False
    epochs: Literal["too", "only", "never"] = "too"
    is_percent: bool = False


def _every(plan: Plan, kind: str) -> int | None:
    """Steps from one pause of a kind to the next, where it comes by steps."""
    return next((pause.every_steps for pause in plan.pauses if pause.kind == kind and pause.every_steps), None)


def _named(text: str) -> Callable[[Plan], list[str]]:
    """Configuration lines, one for each kind of pause: ``text`` with its name and interval."""

    def lines(plan: Plan) -> list[str]:
        return [text.format(kind, every) for kind in ("eval", "save") if (every := _every(plan, kind)) is not None]

    return lines


def _loss(plan: Plan, step: int, random: Random) -> float:
    return 2 + 6 / (1 + 20 * step / plan.steps) + random.gauss(0, 0.02)


def _iso(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} "


def _collected(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z "


def _bar(step: int, total: int, pace: float, more: str = "") -> str:
    percent = 100 * step // total
    return f"{percent:3d}%|{'#' * (percent // 10):10s}| {step}/{total} [01:00<10:00, {1 / pace:5.2f}it/s{more}]"


def _megatron(plan: Plan, step: int, random: Random) -> list[str]:
    ms = 1000 * plan.pace * random.uniform(0.97, 1.03)
    return [
        f"iteration {step:8d}/{plan.steps:8d} | consumed samples: {64 * step:12d} | elapsed time per iteration (ms): "
        f"{ms:.1f} | learning rate: 1.000E-04 | lm loss: {_loss(plan, step, random):.6E} | loss scale: 1.0 |"
    ]


def _megatron_before(pause: Pause, plan: Plan, step: int) -> list[str]:
    if pause.kind == "eval":
        return ["Evaluating on 6400 samples", "Evaluating iter 1/100"]
    return [f"saving checkpoint at iteration {step:7d} to /ckpt in torch_dist format"]


def _megatron_after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    if pause.kind == "save":
        return [f"  successfully saved checkpoint from iteration {step:7d} to /ckpt [ t 1/8, p 1/4 ]"]
    loss = 2 + random.random()
    said = f" validation loss at iteration {step} | lm loss value: {loss:.6E} | lm loss PPL: {loss:.6E} | "
    return ["-" * len(said), said, "-" * len(said)]


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
    return [
        _bar(step, plan.steps, plan.pace),
        f"{{'loss': {loss:.4f}, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': {epoch:.2f}}}",
    ]


def _hf_before(pause: Pause, plan: Plan, step: int) -> list[str]:
    if pause.kind == "save":
        return [f"Saving model checkpoint to out/checkpoint-{step}"]
    return ["***** Running Evaluation *****", "  Num examples = 5000", "  Batch size = 64"]


def _hf_after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    if pause.kind == "save":
        return [f"Configuration saved in out/checkpoint-{step}/config.json"]
    epoch = step / plan.epoch_steps
    return [f"{{'eval_loss': {2 + random.random():.4f}, 'eval_runtime': {seconds:.4f}, 'epoch': {epoch:.2f}}}"]


def _hf_config(plan: Plan) -> list[str]:
    every = {kind: _every(plan, kind) for kind in ("eval", "save")}
    said = [f"{kind}_{'strategy=steps' if every[kind] else 'strategy=epoch'}," for kind in every]
    said += [f"{kind}_steps={steps}," for kind, steps in every.items() if steps is not None]
    return ["TrainingArguments(", *said, f"logging_steps={plan.stride},", ")"]


def _lightning(plan: Plan, step: int, random: Random) -> list[str]:
    epoch, batch = divmod(step - 1, plan.epoch_steps)
    more = f", v_num=3, train_loss={_loss(plan, step, random):.3f}"
    return [f"Epoch {epoch}: {_bar(batch + 1, plan.epoch_steps, plan.pace, more)}"]


def _lightning_before(pause: Pause, plan: Plan, step: int) -> list[str]:
    if pause.kind == "eval":
        return ["Validation: |          | 0/? [00:00<?, ?it/s]"]
    epoch = (step - 1) // plan.epoch_steps
    return [
        f"Epoch {epoch}, global step {step}: 'val_loss' reached 2.1 (best 2.1), saving model to "
        f"'/x/ckpt/epoch={epoch}-step={step}.ckpt' as top 1"
    ]


def _nanogpt(plan: Plan, step: int, random: Random) -> list[str]:
    return [f"iter {step}: loss {_loss(plan, step, random):.4f}, time {1000 * plan.pace:.2f}ms, mfu 31.20%"]


def _nanogpt_after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    loss = 2 + random.random()
    return [f"step {step}: train loss {loss:.4f}, val loss {loss + 0.1:.4f}"] if pause.kind == "eval" else []


def _keras(plan: Plan, step: int, random: Random) -> list[str]:
    epoch, batch = divmod(step - 1, plan.epoch_steps)
    done = 29 * (batch + 1) // plan.epoch_steps
    bar = f"{batch + 1}/{plan.epoch_steps} [{'=' * done}>{'.' * (29 - done)}]"
    head = [f"Epoch {epoch + 1}/{-(-plan.steps // plan.epoch_steps)}"] if batch < plan.stride else []
    return [*head, f"{bar} - ETA: 3:20 - loss: {_loss(plan, step, random):.4f}"]


def _keras_after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    epoch = (step - 1) // plan.epoch_steps + 1
    if pause.kind == "save":
        return [f"Epoch {epoch}: saving model to /ckpt/{epoch:02d}.keras"]
    return [f"{plan.epoch_steps}/{plan.epoch_steps} [{'=' * 30}] - 90s 40ms/step - loss: 2.1 - val_loss: 2.2"]


def _table(plan: Plan, step: int, random: Random) -> list[str]:
    rows = [
        ("rollout/", ""), ("   ep_rew_mean", f"{random.gauss(20, 2):.3g}"),
        ("time/", ""), ("   fps", f"{random.randrange(800, 900)}"),
        ("   iterations", f"{step // plan.stride}"), ("   time_elapsed", f"{int(step * plan.pace)}"),
        ("   total_timesteps", f"{step}"), ("train/", ""), ("   loss", f"{_loss(plan, step, random):.3g}"),
    ]  # fmt: skip
    return ["-" * 38, *(f"| {name:22s}| {value:10s}|" for name, value in rows), "-" * 38]


def _table_after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    if pause.kind == "save":
        return [f"Saving model checkpoint to /ckpt/rl_model_{step}_steps.zip"]
    return [f"Eval num_timesteps={step}, episode_reward={random.gauss(20, 2):.2f} +/- 3.10"]


def _titan_before(pause: Pause, plan: Plan, step: int) -> list[str]:
    return [] if pause.kind == "eval" else ["Saving the checkpoint (or staging if async is enabled)."]


def _titan_after(pause: Pause, plan: Plan, step: int, seconds: float, random: Random) -> list[str]:
    if pause.kind == "eval":
        return [f"validate step: {step:2d}  loss: {2 + random.random():.4f}  memory: 30.1GiB(38.0%)"]
    return [f"Finished saving the checkpoint (or staging if async is enabled) in {seconds:.2f} seconds."]


FORMS: dict[str, Form] = {
    "plain": Form(
        _iso, lambda plan: [f"max_steps = {plan.steps}"],
        lambda plan, step, random: [f"step {step} | loss {_loss(plan, step, random):.4f} | lr 3.0e-04"],
        _named("{}_every: {}"),
    ),
    "json": Form(
        lambda time: f"{time:%Y-%m-%dT%H:%M:%S.%f}Z ", lambda plan: [], _json, _named('{{"{}_interval": {}}}')
    ),
    "epochs": Form(lambda time: f"[{time:%d/%b/%Y %H:%M:%S}] ", lambda plan: [], _epochs),
    "absl": Form(
        lambda time: f"I{time:%m%d %H:%M:%S.%f} 140012 train.py:88] ", lambda plan: [f"num_train_steps: {plan.steps}"],
        lambda plan, step, random: [f"step = {step}, loss = {_loss(plan, step, random)}, steps/s = {1 / plan.pace}"],
    ),
    "percent": Form(_iso, lambda plan: ["fitting"], _percent, is_percent=True),
    "records": Form(
        _iso, lambda plan: [],
        lambda plan, step, random: [f"{64 * step} of {64 * plan.steps} documents, nll={_loss(plan, step, random):.3f}"],
    ),
    "megatron": Form(
        lambda time: f" [{time:%Y-%m-%d %H:%M:%S}] ", lambda plan: ["training ..."], _megatron,
        _named("  {}_interval ........................... {}"), ("before", "after", "after"), ("before",),
        _megatron_before, lambda part, parts: f"Evaluating iter {part}/{parts}", _megatron_after,
        epochs="never",
    ),
    "hf": Form(
        _collected, lambda plan: ["***** Running training *****", f"  Total optimization steps = {plan.steps:,}"],
        _hf, _hf_config, ("before", "counted", "after"), ("before", "silent"), _hf_before,
        lambda part, parts: _bar(part, parts, 0.3), _hf_after,
    ),
    "lightning": Form(
        _collected, lambda plan: ["Sanity Checking DataLoader 0: 100%|##########| 2/2 [00:01<00:00,  1.55it/s]"],
        _lightning, _nothing, ("counted", "silent"), ("before", "silent"), _lightning_before,
        lambda part, parts: f"Validation DataLoader 0: {_bar(part, parts, 0.3)}", _nothing,
        compiles="Restoring states from the checkpoint path", ends_epochs=True,
    ),
    "nanogpt": Form(
        _iso, lambda plan: ["number of parameters: 123.59M", f"Overriding: max_iters = {plan.steps}"], _nanogpt,
        _named("Overriding: {}_interval = {}"), ("after",), ("before", "silent"),
        lambda pause, plan, step: ["saving checkpoint to out"] if pause.kind == "save" else [], after=_nanogpt_after,
        compiles="compiling the model... (takes a ~minute)", is_pause_first=True, epochs="never",
    ),
    "keras": Form(
        _collected, lambda plan: [], _keras, _nothing, ("after",), ("after", "silent"), after=_keras_after,
        compiles="Compiled cluster using XLA!", ends_epochs=True, epochs="only",
    ),
    "sb3": Form(
        _collected, lambda plan: ["Using cuda device", f"total_timesteps: {plan.steps}"], _table, _named("{}_freq: {}"),
        ("after",), ("silent", "after"), after=_table_after, epochs="never",
    ),
    "titan": Form(
        lambda time: f"[rank0]:[titan] {time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d} - root - INFO - ",
        lambda plan: [f"Training starts at step 1, with local batch size 8, total steps {plan.steps} (warmup 200)"],
        lambda plan, step, random: [
            f"step: {step:2d}  loss: {_loss(plan, step, random):7.4f}  memory: 30.10GiB(38.0%)  tps: 7,021  mfu: 41.20%"
        ],
        _nothing, ("after", "silent"), ("before", "before", "after"), _titan_before, after=_titan_after,
        compiles="Compiling each TransformerBlock with torch.compile", epochs="never",
    ),
}  # fmt: skip
