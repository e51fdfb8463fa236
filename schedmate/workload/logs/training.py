"""A training log as the job's framework would write it, up to the step that the job reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime

from schedmate.workload.catalog import dataset_samples
from schedmate.workload.logs.trail import Trail


def pieces(trail: Trail) -> Iterator[str]:
    """The log as pieces of text, one record at a time."""
    if trail.kind == "evaluation":
        return _evaluation(trail)
    return WRITERS[trail.project.style.log](trail)


def _samples(t: Trail) -> int:
    return dataset_samples(t.project.dataset)[0]


def _held_out(t: Trail) -> int:
    return dataset_samples(t.project.dataset)[1]


def _stopped_early(t: Trail) -> bool:
    """The program itself ended the run before its last epoch."""
    whole = t.steps_done == t.last_step and t.steps_done % t.per_epoch == 0
    return "early_stopping" in t.project.quirks and whole and 0 < t.steps_done < t.steps_planned


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
    p, yaml = t.project, t.project.style.name == "yaml_config"
    if not yaml:
        yield f"{_clock(t.start)} INFO  seed={t.hyper.seed} world_size={p.gpus} params={p.model.params / 1e6:.1f}M\n"
        yield f"{_clock(t.when(0))} INFO  dataset: {_samples(t)} train samples, batch_size={t.hyper.batch} per GPU\n"
    before, per_epoch = 0, t.per_epoch
    for step in t.batches(20 if yaml else 50):
        epoch, batch = t.place(step)
        if epoch > before and not yaml:
            top1 = 76 * (1 - math.exp(-5 * step / t.steps_planned))
            spent_s = t.pace_s * per_epoch
            yield f"{_clock(t.when(step))} INFO  val: epoch={epoch} top1={top1:.2f} seconds={spent_s:.0f}\n"
        before = epoch
        if "meter" in p.quirks:
            yield (
                f"Epoch: [{epoch}][{batch:4d}/{per_epoch}]\tTime {t.pace_at(step):6.3f}\t"
                f"Loss {t.loss(step):.4e}\tLR {t.rate(step):.3e}\n"
            )
            continue
        yield (
            f"{_clock(t.when(step))} INFO  epoch {epoch + 1}/{t.epochs} batch {batch}/{per_epoch} "
            f"loss={t.loss(step):.4f} lr={t.rate(step):.6f}\n"
        )
    if _stopped_early(t) and not yaml:
        yield f"{_clock(t.when(t.steps_done))} INFO  no better for 8 epochs, stopping\n"


def _hydra(t: Trail) -> Iterator[str]:
    def head(step: int) -> str:
        return f"[{_clock(t.when(step))}][__main__][INFO] - "

    p, h = t.project, t.hyper
    yield f"{head(0)}model:\n  name: {p.model.name}\ndata:\n  name: {p.dataset}\n"
    yield f"  {p.words['batch']}: {h.batch}\noptim:\n  lr: {h.lr}\ntrainer:\n  {p.words['epochs']}: {h.epochs}\n"
    yield f"  limit_steps: {h.max_steps or 'null'}\nseed: {h.seed}\n\n"
    for step in t.batches(25):
        epoch, batch = t.place(step)
        yield f"{head(step)}epoch={epoch + 1}/{h.epochs} step={batch}/{t.per_epoch} loss={t.loss(step):.4f}\n"
    if _stopped_early(t):
        yield f"{head(t.steps_done)}loss has not improved for 10 epochs\n"


def _notebook(t: Trail) -> Iterator[str]:
    yield f"Input Notebook:  train.ipynb\nOutput Notebook: out/{t.project.name}.ipynb\n"
    yield "Executing:   0%|          | 0/8 [00:00<?, ?cell/s]Executing notebook with kernel: python3\n"
    before, per_epoch = 0, t.per_epoch
    for step in t.batches(10):
        epoch, batch = t.place(step)
        if epoch > before:
            yield f"\nepoch {epoch}: val loss {t.loss(step) * 1.1:.4f}\n"
        before = epoch
        ran, left = batch * t.pace_s, (per_epoch - batch) * t.pace_s
        yield f"\repoch {epoch + 1}/{t.epochs}: {100 * batch // per_epoch:3d}%|{_bar(batch, per_epoch)}| "
        yield f"{batch}/{per_epoch} [{_tqdm(ran)}<{_tqdm(left)}, {_pace(t.pace_at(step))}]"
    yield "\n"
    if t.steps_done >= t.steps_planned or _stopped_early(t):
        yield "Executing: 100%|██████████| 8/8\n"


def _array(t: Trail) -> Iterator[str]:
    yield f"{_samples(t)} pairs, {t.per_epoch} steps per epoch, {t.epochs} epochs\n"
    before = 0
    for step in t.batches(100):
        epoch, batch = t.place(step)
        if epoch > before:
            yield f"epoch {epoch}/{t.epochs} held-out {t.loss(step) * 1.05:.4f}\n"
        before = epoch
        yield f"epoch {epoch + 1}/{t.epochs} step {batch}/{t.per_epoch} "
        yield f"loss {t.loss(step):.4f} {t.seconds(step):.0f}s\n"
    if _stopped_early(t):
        yield "no better for 3 epochs\n"


def _evaluation(t: Trail) -> Iterator[str]:
    p, total = t.project, t.steps_planned
    if p.style.log != "hf":
        yield f"{_clock(t.start)} INFO  seed={t.hyper.seed} world_size=1 params={p.model.params / 1e6:.1f}M\n"
        if t.steps_done >= total:
            yield f"{_clock(t.when(total))} INFO  top1={70 + 8 * t.rng.random():.2f}\n"
        return
    yield f"\n***** Running Evaluation *****\n  Num examples = {_held_out(t):,}\n  Batch size = {t.hyper.batch}\n"
    for step in t.steps(10):
        times = f"{_tqdm(t.seconds(step))}<{_tqdm((total - step) * t.pace_s)}, {_pace(t.pace_at(step))}"
        yield f"\r{100 * step // total:3d}%|{_bar(step, total)}| {step}/{total} [{times}]"
    yield "\n"
    if t.steps_done >= total:
        yield f"***** eval metrics *****\n  eval_loss               = {t.loss(total):10.4f}\n"
        yield f"  eval_runtime            = {_tqdm(t.seconds(total))}\n"


def _hf(t: Trail) -> Iterator[str]:
    p, total = t.project, t.steps_planned
    batch = t.hyper.batch * t.hyper.accum * p.gpus
    yield "***** Running training *****\n"
    yield f"  Num examples = {_samples(t):,}\n  Num Epochs = {math.ceil(total / (t.steps_per_epoch or total)):,}\n"
    yield f"  Instantaneous batch size per device = {t.hyper.batch}\n"
    yield f"  Total train batch size (w. parallel, distributed & accumulation) = {batch}\n"
    yield f"  Gradient Accumulation steps = {t.hyper.accum}\n  Total optimization steps = {total:,}\n"
    yield f"  Number of trainable parameters = {int(p.model.params):,}\n\n"
    yield f"  0%|          | 0/{total} [00:00<?, ?it/s]"
    for step in t.steps(10 if total < 500 else 50):
        ran, left = t.seconds(step), (total - step) * t.pace_s
        times = f"{_tqdm(ran)}<{_tqdm(left)}, {_pace(t.pace_at(step))}"
        bar = f"{100 * step // total:3d}%|{_bar(step, total)}| {step}/{total} [{times}]"
        epoch = step / (t.steps_per_epoch or total)
        yield f"\r{bar}\n{{'loss': {t.loss(step):.4f}, 'grad_norm': {0.6 + t.rng.random():.6f}, "
        yield f"'learning_rate': {t.rate(step):.8e}, 'epoch': {epoch:.2f}}}\n\r{bar}"
    yield "\n"


def _lightning(t: Trail) -> Iterator[str]:
    p = t.project
    epochs, per_epoch = t.epochs, t.per_epoch
    yield f"Seed set to {t.hyper.seed}\nGPU available: True (cuda), used: True\n"
    yield "TPU available: False, using: 0 TPU cores\n"
    if p.gpus > 1:
        yield f"Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/{p.gpus}\n"
    size = f"{p.model.params / 1e6:.1f} M"
    yield "LOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]\n\n"
    yield f"  | Name  | Type | Params\n---\n0 | model | {p.model.title} | {size}\n---\n"
    for step in t.batches(20):
        epoch, batch = t.place(step)
        ran, left = batch * t.pace_s, (per_epoch - batch) * t.pace_s
        yield f"\rEpoch {epoch}: {100 * batch // per_epoch:3d}%|{_bar(batch, per_epoch)}| {batch}/{per_epoch} "
        yield f"[{_tqdm(ran)}<{_tqdm(left)}, {_pace(t.pace_at(step))}, v_num=0, train_loss={t.loss(step):.3f}]"
    if t.steps_done >= t.steps_planned:
        yield f"\n`Trainer.fit` stopped: `max_epochs={epochs}` reached.\n"
    yield "\n"


def _keras(t: Trail) -> Iterator[str]:
    stamp = f"{t.start:%Y-%m-%d %H:%M:%S}.{t.start.microsecond:06d}"
    yield f"{stamp}: I tensorflow/core/platform/cpu_feature_guard.cc:182] "
    yield "This TensorFlow binary is optimized to use available CPU instructions.\n"
    epochs, per_epoch, opened = t.epochs, t.per_epoch, 0
    for step in t.batches(20):
        epoch, batch = t.place(step)
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
    for step in t.steps(50):
        pace = 1 / t.pace_at(step)
        yield f"{head(step, 'train.py:49')}step={step}, loss={t.loss(step):.4f}, steps_per_sec={pace:.3f}, "
        yield f"learning_rate={t.rate(step):.6f}\n"


def _deepspeed(t: Trail) -> Iterator[str]:
    def head(step: int) -> str:
        return f"[{_clock(t.when(step))}] [INFO] [logging.py:96:log_dist] [Rank 0] "

    yield f"{head(0)}DeepSpeed info: version=0.14.4, git-hash=unknown, git-branch=unknown\n"
    yield f"{head(0)}micro_batch={t.hyper.batch} gas={t.hyper.accum} zero_stage=3\n"
    samples = t.hyper.batch * t.hyper.accum * t.project.gpus
    for step in t.steps(10):
        yield f"{head(step)}step={step}, skipped=0, lr=[{t.rate(step):.6e}], mom=[(0.9, 0.95)]\n"
        pace_s = t.pace_at(step)
        yield f"steps: {step} loss: {t.loss(step):.4f} iter time (s): {pace_s:.3f} "
        yield f"samples/sec: {samples / pace_s:.3f}\n"


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
        pace_ms = 1000 * t.pace_at(step)
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
    "hydra": _hydra,
    "notebook": _notebook,
    "array": _array,
}
