"""A training log as the job's framework would write it, up to the step that the job reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from schedmate.demo.jobs import Hyper, Project

#: Records in a log: real ones have more, and say no more.
RECORDS = 90
RECORDS_PER_EPOCH = 3


@dataclass(frozen=True, slots=True)
class Trail:
    """What a log is written from. ``pace_s`` is wall time per optimizer step, pauses included."""

    project: Project
    hyper: Hyper
    start: datetime
    startup_s: float
    pace_s: float
    steps_done: int
    steps_planned: int
    steps_per_epoch: int | None
    rng: np.random.Generator

    def when(self, step: int) -> datetime:
        """Wall time at the end of a step."""
        return self.start + timedelta(seconds=self.startup_s + self.pace_s * step + float(self.rng.uniform(0, 0.4)))

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
        """Logged steps: the first, multiples of ``every`` thinned to about `RECORDS`, and the last of a whole run."""
        stride = every * max(1, math.ceil(self.steps_done / every / RECORDS))
        logged = {min(every, self.steps_done), *range(stride, self.steps_done + 1, stride)}
        if self.steps_done == self.steps_planned:
            logged.add(self.steps_done)
        return sorted(logged - {0})

    def batches(self, every: int, per_epoch: int) -> list[int]:
        """Logged steps of a loop that counts batches within epochs: the same batches in each, a few and the last."""
        epochs = max(1, self.steps_planned // per_epoch)
        wanted = max(RECORDS_PER_EPOCH, RECORDS // epochs)
        stride = every * max(1, math.ceil(per_epoch / every / wanted))
        logged = [*list(range(stride, per_epoch, stride)), per_epoch]
        started = -(-self.steps_done // per_epoch)
        steps = (epoch * per_epoch + batch for epoch in range(started) for batch in logged)
        return [step for step in steps if step <= self.steps_done]


def write(trail: Trail) -> str:
    """The whole log as text."""
    return "".join(WRITERS[trail.project.style.log](trail))


def _clock(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S},{when.microsecond // 1000:03d}"


def _tqdm(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _pace(seconds: float) -> str:
    return f"{seconds:.2f}s/it" if seconds >= 1 else f"{1 / seconds:.2f}it/s"


def _bar(done: int, total: int, width: int = 10) -> str:
    return ("█" * (width * done // total)).ljust(width)


def _plain(t: Trail) -> Iterator[str]:
    p = t.project
    yield f"{_clock(t.start)} INFO  seed={t.hyper.seed} world_size={p.gpus} params={p.model.params / 1e6:.1f}M\n"
    yield f"{_clock(t.when(0))} INFO  dataset: {p.samples} train samples, batch_size={t.hyper.batch} per GPU\n"
    total = t.hyper.epochs or math.ceil(t.steps_planned / (t.steps_per_epoch or t.steps_planned))
    before = 0
    per_epoch = t.steps_per_epoch or t.steps_planned
    for step in t.batches(20 if p.style.name == "yaml_config" else 50, per_epoch):
        epoch, batch = divmod(step - 1, per_epoch)
        batch += 1
        if epoch > before and p.style.name == "raw_argparse":
            top1 = 76 * (1 - math.exp(-5 * step / t.steps_planned))
            yield f"{_clock(t.when(step))} INFO  val: epoch={epoch} top1={top1:.2f}\n"
        before = epoch
        yield (
            f"{_clock(t.when(step))} INFO  epoch {epoch + 1}/{total} batch {batch}/{per_epoch} "
            f"loss={t.loss(step):.4f} lr={t.rate(step):.6f}\n"
        )


def _hf(t: Trail) -> Iterator[str]:
    p, total = t.project, t.steps_planned
    batch = t.hyper.batch * t.hyper.accum * p.gpus
    yield "***** Running training *****\n"
    yield f"  Num examples = {p.samples:,}\n  Num Epochs = {math.ceil(total / (t.steps_per_epoch or total)):,}\n"
    yield f"  Instantaneous batch size per device = {t.hyper.batch}\n"
    yield f"  Total train batch size (w. parallel, distributed & accumulation) = {batch}\n"
    yield f"  Gradient Accumulation steps = {t.hyper.accum}\n  Total optimization steps = {total:,}\n"
    yield f"  Number of trainable parameters = {int(p.model.params):,}\n\n"
    yield f"  0%|          | 0/{total} [00:00<?, ?it/s]"
    for step in t.steps(10 if total < 500 else 50):
        ran, left = step * t.pace_s, (total - step) * t.pace_s
        times = f"{_tqdm(ran)}<{_tqdm(left)}, {_pace(t.pace_s)}"
        bar = f"{100 * step // total:3d}%|{_bar(step, total)}| {step}/{total} [{times}]"
        epoch = step / (t.steps_per_epoch or total)
        yield f"\r{bar}\n{{'loss': {t.loss(step):.4f}, 'grad_norm': {0.6 + t.rng.random():.6f}, "
        yield f"'learning_rate': {t.rate(step):.8e}, 'epoch': {epoch:.2f}}}\n\r{bar}"
    yield "\n"


def _lightning(t: Trail) -> Iterator[str]:
    p = t.project
    epochs = t.hyper.epochs if t.hyper.max_steps is None else 1
    yield f"Seed set to {t.hyper.seed}\nGPU available: True (cuda), used: True\n"
    yield "TPU available: False, using: 0 TPU cores\n"
    config = {"trainer": {"max_epochs": epochs, "precision": "bf16-mixed"}, "data": {"batch_size": t.hyper.batch}}
    yield f"config: {config}\n"
    if p.gpus > 1:
        yield f"Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/{p.gpus}\n"
    size = f"{p.model.params / 1e6:.1f} M"
    yield "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]\n\n"
    yield f"  | Name  | Type | Params\n---\n0 | model | {p.model.title} | {size}\n---\n"
    per_epoch = t.steps_per_epoch if t.hyper.max_steps is None else t.hyper.max_steps
    per_epoch = per_epoch or t.steps_planned
    for step in t.batches(20, per_epoch):
        epoch, batch = divmod(step - 1, per_epoch)
        batch += 1
        ran, left = batch * t.pace_s, (per_epoch - batch) * t.pace_s
        yield f"\rEpoch {epoch}: {100 * batch // per_epoch:3d}%|{_bar(batch, per_epoch)}| {batch}/{per_epoch} "
        yield f"[{_tqdm(ran)}<{_tqdm(left)}, {_pace(t.pace_s)}, v_num=0, train_loss={t.loss(step):.3f}]"
    if t.steps_done >= t.steps_planned:
        yield f"\n`Trainer.fit` stopped: `max_epochs={epochs}` reached.\n"
    yield "\n"


def _keras(t: Trail) -> Iterator[str]:
    stamp = f"{t.start:%Y-%m-%d %H:%M:%S}.{t.start.microsecond:06d}"
    yield f"{stamp}: I tensorflow/core/platform/cpu_feature_guard.cc:182] "
    yield "This TensorFlow binary is optimized to use available CPU instructions.\n"
    epochs = t.hyper.epochs if t.hyper.max_steps is None else 1
    per_epoch = (t.steps_per_epoch if t.hyper.max_steps is None else t.hyper.max_steps) or t.steps_planned
    opened = 0
    for step in t.batches(20, per_epoch):
        epoch, batch = divmod(step - 1, per_epoch)
        batch += 1
        if epoch + 1 > opened:
            opened = epoch + 1
            yield f"{chr(10) if opened > 1 else ''}Epoch {opened}/{epochs}\n"
        filled = 30 * batch // per_epoch
        arrow = "=" * max(filled - 1, 0) + (">" if filled < 30 else "=")
        yield f"\r{batch:>{len(str(per_epoch))}}/{per_epoch} [{arrow.ljust(30, '.')}]"
        yield f" - ETA: {int((per_epoch - batch) * t.pace_s)}s"
        yield f" - loss: {t.loss(step):.4f} - accuracy: {min(0.97, 0.2 + 0.7 * step / t.steps_planned):.4f}"
    yield "\n"


def _absl(t: Trail) -> Iterator[str]:
    def head(step: int, place: str) -> str:
        when = t.when(step)
        return f"I{when:%m%d %H:%M:%S}.{when.microsecond:06d} 139872041191232 {place}] "

    p = t.project
    yield f"{head(0, 'main.py:22')}JAX process: 0 / 1\n"
    devices = ", ".join(f"CudaDevice(id={i})" for i in range(p.gpus))
    yield f"{head(0, 'main.py:23')}JAX local devices: [{devices}]\n"
    batch = t.hyper.batch * p.gpus
    yield f"{head(0, 'main.py:24')}Config: num_train_steps={t.steps_planned} batch_size={batch} lr={t.hyper.lr}\n"
    for step in t.steps(10 if t.steps_planned <= 200 else 50):
        pace = 1 / (t.pace_s * (1 + 0.01 * float(t.rng.standard_normal())))
        yield f"{head(step, 'train.py:49')}step={step}, loss={t.loss(step):.4f}, steps_per_sec={pace:.3f}, "
        yield f"learning_rate={t.rate(step):.6f}\n"


def _deepspeed(t: Trail) -> Iterator[str]:
    def head(step: int) -> str:
        return f"[{_clock(t.when(step))}] [INFO] [logging.py:96:log_dist] [Rank 0] "

    yield f"{head(0)}DeepSpeed info: version=0.14.4, git-hash=unknown, git-branch=unknown\n"
    yield f"{head(0)}total_num_steps={t.steps_planned} micro_batch={t.hyper.batch} gas={t.hyper.accum} zero_stage=3\n"
    samples = t.hyper.batch * t.hyper.accum * t.project.gpus
    for step in t.steps(10):
        yield f"{head(step)}step={step}, skipped=0, lr=[{t.rate(step):.6e}], mom=[(0.9, 0.95)]\n"
        yield f"steps: {step} loss: {t.loss(step):.4f} iter time (s): {t.pace_s:.3f} "
        yield f"samples/sec: {samples / t.pace_s:.3f}\n"


def _megatron(t: Trail) -> Iterator[str]:
    p, total = t.project, t.steps_planned
    batch = t.hyper.batch * t.hyper.accum * p.gpus
    yield f"using world size: {p.gpus}, data-parallel size: {p.gpus}, "
    yield "tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"
    yield f"setting global batch size to {batch}\n------------------------ arguments ------------------------\n"
    yield f"  lr .............................................. {t.hyper.lr}\n"
    yield f"  micro_batch_size ................................ {t.hyper.batch}\n"
    yield f"  train_iters ..................................... {total}\n"
    yield "-------------------- end of arguments ---------------------\ntraining ...\n"
    for step in t.steps(10 if total <= 200 else 100):
        pace_ms = 1000 * t.pace_s * (1 + 0.01 * float(t.rng.standard_normal()))
        yield f" [{t.when(step):%Y-%m-%d %H:%M:%S}] iteration {step:8d}/{total:8d} | "
        yield f"consumed samples: {step * batch:12d} | elapsed time per iteration (ms): {pace_ms:.1f} | "
        yield f"learning rate: {t.rate(step):.6E} | global batch size: {batch:5d} | "
        yield f"lm loss: {t.loss(step):.6E} | loss scale: 1.0 | grad norm: {0.4 + t.rng.random() / 2:.3f} | "
        yield "number of skipped iterations:   0 | number of nan iterations:   0 |\n"


WRITERS: dict[str, Callable[[Trail], Iterator[str]]] = {
    "plain": _plain,
    "hf": _hf,
    "lightning": _lightning,
    "keras": _keras,
    "absl": _absl,
    "deepspeed": _deepspeed,
    "megatron": _megatron,
}
