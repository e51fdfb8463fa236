"""The formats that frameworks and people print in. Each takes a view of a run and yields text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedmate.workload_independent.logs.view import View

Format = Callable[[View], Iterator[str]]


def _hms(seconds: float) -> str:
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def _ends_epoch(view: View, step: int) -> bool:
    return view.within(step) == view.per_epoch


def _bar(done: int, of: int, step_s: float) -> str:
    """As tqdm draws it, up to what is left; what comes after is the caller's."""
    full = round(10 * done / of)
    return (
        f"{100 * done // of:3d}%|{'█' * full}{' ' * (10 - full)}| {done}/{of} "
        f"[{_hms(done * step_s)}<{_hms((of - done) * step_s)}"
    )


def _print_epoch(view: View) -> Iterator[str]:
    for step in view.records:
        epoch = view.epoch(step) + 1
        yield f"ep {epoch} [{view.within(step) - 1}/{view.per_epoch}] loss {view.loss(step):.4f}\n"
        if _ends_epoch(view, step):
            yield f"== epoch {epoch} done in {view.per_epoch * view.step_s:.1f}s, val {view.loss(step) * 1.1:.4f}\n"
    if view.stopped_early:
        yield f"no improvement for {view.run.patience} epochs, stop\n"


def _print_iter(view: View) -> Iterator[str]:
    for step in view.records:
        yield (
            f"[{view.at(step):%H:%M:%S}] epoch {view.epoch(step)} iter {view.within(step) - 1}/{view.per_epoch} "
            f"loss={view.loss(step):.4f}\n"
        )


def _print_meter(view: View) -> Iterator[str]:
    for step in view.records:
        loss = view.loss(step)
        yield (
            f"Epoch: [{view.epoch(step)}][{view.within(step) - 1}/{view.per_epoch}]\tLoss {loss:.4e} "
            f"({loss * 1.02:.4e})\n"
        )


def _keras_lines(view: View) -> Iterator[str]:
    for step in view.records:
        if _ends_epoch(view, step):
            yield f"Epoch {view.epoch(step) + 1}/{view.epochs}\n"
            yield (
                f"{view.per_epoch}/{view.per_epoch} - {view.per_epoch * view.step_s:.0f}s - "
                f"{view.step_s * 1e3:.0f}ms/step - "
                f"accuracy: {max(0.05, 1 - view.loss(step) / 8):.4f} - loss: {view.loss(step):.4f} - "
                f"val_loss: {view.loss(step) * 1.1:.4f}\n"
            )


def _keras_bar(view: View) -> Iterator[str]:
    last = -1
    for step in view.records:
        epoch, inside = view.epoch(step), view.within(step)
        if epoch != last:
            yield f"Epoch {epoch + 1}/{view.epochs}\n"
            last = epoch
        done = round(20 * inside / view.per_epoch)
        left = _hms((view.per_epoch - inside) * view.step_s)
        bar = "━" * done
        tail = (
            f"{view.step_s * 1e3:.0f}ms/step - accuracy: {max(0.05, 1 - view.loss(step) / 8):.4f} - loss: "
            f"{view.loss(step):.4f}"
        )
        if _ends_epoch(view, step):
            yield (
                f"\r{inside}/{view.per_epoch} {bar} {view.per_epoch * view.step_s:.0f}s {tail} - "
                f"val_loss: {view.loss(step):.4f}\n"
            )
        else:
            yield (
                f"\r\x1b[1m{inside}/{view.per_epoch}\x1b[0m {bar}\x1b[37m{'━' * (20 - done)}\x1b[0m "
                f"\x1b[1m{left}\x1b[0m {tail}"
            )


def _papermill(view: View) -> Iterator[str]:
    name = view.project.name
    yield f"Input Notebook:  {name}.ipynb\nOutput Notebook: out/{view.project.words['flavour']}.ipynb\n"
    cells = 11
    yield f"Executing:   0%|          | 0/{cells} [00:00<?, ?cell/s]"
    yield f"\rExecuting:  73%|███████▎  | 8/{cells} [{_hms(view.first_s)}<00:11,  3.80s/cell]"
    if view.ended_well:
        yield (
            f"\rExecuting: 100%|██████████| {cells}/{cells} "
            f"[{_hms(view.first_s + view.steps * view.step_s)}<00:00,  9.02s/cell]\n"
        )


def _info_lines(view: View) -> Iterator[str]:
    yield f"INFO:config {{'data': {{'root': '/data/{view.project.dataset.name}'}}, 'schedule': '...'}}\n"
    for step in view.records:
        yield (
            f"INFO:train:epoch={view.epoch(step)} it={view.within(step) - 1} of={view.per_epoch} "
            f"loss={view.loss(step):.5f}\n"
        )
        if _ends_epoch(view, step):
            yield f"INFO:train:epoch={view.epoch(step)} val_loss={view.loss(step) * 1.08:.5f}\n"
    if view.stopped_early:
        yield "INFO:train:early stop\n"


def _key_values(view: View) -> Iterator[str]:
    for step in view.records:
        clock = f"t={view.at(step).timestamp():.0f}"
        if view.run.steps:
            yield f"step={step}/{view.steps} loss={view.loss(step):.4f} {clock}\n"
        elif _ends_epoch(view, step):
            yield f"epoch={view.epoch(step) + 1}/{view.epochs} loss={view.loss(step):.4f} {clock}\n"


def _hydra(view: View) -> Iterator[str]:
    if view.run.runs:
        yield f"[{view.at(0):%Y-%m-%d %H:%M:%S},113][HYDRA] Launching {len(view.run.runs)} jobs locally\n"
    per_run, last = view.steps // max(1, len(view.run.runs)), -1
    for step in view.records:
        number = (step - 1) // per_run
        if view.run.runs and number != last:
            yield f"[{view.at(step):%Y-%m-%d %H:%M:%S},200][HYDRA] \t#{number} : optim.lr={view.run.runs[number]:g}\n"
            last = number
        epoch = view.epoch((step - 1) % per_run + 1)
        yield (
            f"[{view.at(step):%Y-%m-%d %H:%M:%S},{int(view.draw.between(0, 999)):03d}][__main__][INFO] - "
            f"epoch {epoch} step {view.within(step) - 1}/{view.per_epoch} loss {view.loss(step):.4f}\n"
        )


def _lightning(view: View) -> Iterator[str]:
    yield "GPU available: True (cuda), used: True\nTPU available: False, using: 0 TPU cores\n"
    for rank in range(view.run.gpus if view.run.gpus > 1 else 0):
        yield f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{view.run.gpus}\n"
    yield (
        "\n  | Name | Type | Params\n------------------------\n0 | net  | Net  | "
        f"{view.project.model.params / 1e6:.1f} M\n"
    )
    for step in view.records:
        bar = _bar(view.within(step), view.per_epoch, view.step_s)
        yield (
            f"\rEpoch {view.epoch(step)}: {bar}, {1 / view.step_s:5.2f}it/s, v_num=3, train_loss={view.loss(step):.3f}]"
        )
    if view.ended_well and not view.stopped_early:
        yield f"\n`Trainer.fit` stopped: `max_epochs={view.run.epochs}` reached.\n"


def _absl(view: View) -> Iterator[str]:
    for step in view.records:
        when = view.at(step)
        yield (
            f"I{when:%m%d %H:%M:%S}.{int(view.draw.between(0, 999_999)):06d} 139672 main.py:88] "
            f"step {step}/{view.steps} loss={view.loss(step):.4f}\n"
        )


def _mmengine(view: View) -> Iterator[str]:
    for step in view.records:
        left_s = (view.steps - step) * view.step_s
        days, rest = divmod(int(left_s), 86_400)
        eta = (
            f"{days} day{'s' if days != 1 else ''}, " if days else ""
        ) + f"{rest // 3600}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
        size = len(str(view.per_epoch))
        yield (
            f"{view.at(step):%m/%d %H:%M:%S} - mmengine - INFO - Epoch(train)  [{view.epoch(step) + 1}]"
            f"[{view.within(step):>{size}}/{view.per_epoch}]  lr: {view.run.rate:.4e}  eta: {eta}  "
            f"time: {view.step_s:.4f}  data_time: {view.step_s * 0.05:.4f}  memory: 9241  loss: {view.loss(step):.4f}\n"
        )


def _tqdm(view: View) -> Iterator[str]:
    last = 0
    for step in view.records:
        epoch = view.epoch(step) + 1
        if last and epoch != last:
            yield "\n"
        last = epoch
        label = f"epoch {epoch}/{view.epochs}: " if view.epochs > 1 else ""
        bar = _bar(view.within(step), view.per_epoch, view.step_s)
        yield f"\r{label}{bar}, {1 / view.step_s:5.2f}it/s, loss={view.loss(step):.3f}]"
    yield "\n"


def _hf_dicts(view: View) -> Iterator[str]:
    for step in view.records:
        epoch = (
            step
            / view.per_epoch
            * (1 if view.run.steps is None else view.run.global_batch * view.steps / view.project.dataset.train)
        )
        rate = view.run.rate * (1 - step / view.steps)
        yield f"\r{_bar(step, view.steps, view.step_s)}, {view.step_s:5.2f}s/it]"
        yield (
            f"\n{{'loss': {view.loss(step):.4f}, 'grad_norm': {view.draw.between(0.4, 3):.4f}, "
            f"'learning_rate': {rate:.6g}, 'epoch': {epoch:.2f}}}\n"
        )
    if view.ended_well:
        took_s = view.steps * view.step_s
        yield (
            f"{{'train_runtime': {took_s:.4f}, "
            f"'train_samples_per_second': {view.steps * view.run.global_batch / took_s:.3f}, "
            f"'train_steps_per_second': {view.steps / took_s:.3f}, 'train_loss': {view.loss(view.steps):.4f}}}\n"
        )


def _deepspeed(view: View) -> Iterator[str]:
    for step in view.records:
        when = f"{view.at(step):%Y-%m-%d %H:%M:%S},{int(view.draw.between(0, 999)):03d}"
        yield (
            f"[{when}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, "
            f"lr=[{view.run.rate:.6g}], mom=[(0.9, 0.95)]\n"
        )
        rate = view.run.global_batch / view.step_s
        yield (
            f"[{when}] [INFO] [timer.py:264:stop] epoch=0/micro_step={step * view.run.accum}/global_step={step}, "
            f"RunningAvgSamplesPerSec={rate:.4f}, "
            f"CurrSamplesPerSec={rate * view.draw.between(0.95, 1.05):.4f}, "
            "MemAllocated=9.1GB, MaxMemAllocated=20.4GB\n"
        )


def _megatron(view: View) -> Iterator[str]:
    for step in view.records:
        yield (
            f"{view.run.gpus - 1}:  [{view.at(step):%Y-%m-%d %H:%M:%S}] iteration "
            f"{step:>8}/{view.steps:>8} | consumed samples: "
            f"{step * view.run.global_batch:>12} | elapsed time per iteration (ms): "
            f"{view.step_s * 1e3:.1f} | learning rate: "
            f"{view.run.rate:.6E} | global batch size: {view.run.global_batch:>5} | lm loss: {view.loss(step):.6E} | "
            f"loss scale: 1.0 | grad norm: {view.draw.between(0.3, 2):.3f} | number of skipped iterations:   0 |\n"
        )


def _counted(view: View) -> Iterator[str]:
    for step in view.records:
        yield f"{step} / {view.steps} done\n"


def _residuals(view: View) -> Iterator[str]:
    for step in view.records:
        yield f"{step} {view.loss(step) * 1e-3:.6e}\n"


FORMATS: dict[str, Format] = {
    "print_epoch": _print_epoch,
    "print_iter": _print_iter,
    "print_meter": _print_meter,
    "keras_lines": _keras_lines,
    "keras_bar": _keras_bar,
    "papermill": _papermill,
    "info_lines": _info_lines,
    "key_values": _key_values,
    "hydra": _hydra,
    "lightning": _lightning,
    "absl": _absl,
    "mmengine": _mmengine,
    "tqdm": _tqdm,
    "hf_dicts": _hf_dicts,
    "deepspeed": _deepspeed,
    "megatron": _megatron,
    "counted": _counted,
    "residuals": _residuals,
}
