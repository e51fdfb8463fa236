# ruff: noqa: E501 (log lines are as long as they are)
"""Logs in the manner of many frameworks, written here from their public documentation, with the truth beside them.

Each maker writes a log of a run that really advances at a stated pace (seeded noise), cut off in the middle.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from analyzers.logs import read_progress

START = datetime(2025, 3, 4, 14, 0, 0)


@dataclass
class Run:
    """A written log and what must be read from it; ``now`` is the end of the log plus what is given."""

    text: str
    want: dict[str, object]
    now: datetime | None = None
    extra: dict[str, str] = field(default_factory=dict)


def clock(s: float) -> str:
    s = int(s)
    return f"{s // 3600}:{s % 3600 // 60:02d}:{s % 60:02d}" if s >= 3600 else f"{s // 60:02d}:{s % 60:02d}"


def bar(n: int, total: int, elapsed: float, pace: float, postfix: str = "") -> str:
    rate = f"{pace:.2f}s/it" if pace > 1 else f"{1 / pace:.2f}it/s"
    filled = "█" * (10 * n // total)
    return f"{100 * n // total:3d}%|{filled:<10}| {n}/{total} [{clock(elapsed)}<{clock((total - n) * pace)},  {rate}{postfix}]"


def loss_at(step: float, rng: random.Random, scale: float = 800.0) -> float:
    return 1.5 + 4.0 * math.exp(-step / scale) + rng.gauss(0, 0.03)


MAKERS: dict[str, Callable[[], Run]] = {}


def maker(make: Callable[[], Run]) -> Callable[[], Run]:
    MAKERS[make.__name__] = make
    return make


@maker
def nanogpt() -> Run:
    rng = random.Random(1)
    lines = ["Overriding: max_iters = 8000", "tokens per iteration will be: 491,520", "number of parameters: 123.59M"]
    for step in range(0, 3001, 10):
        if step % 500 == 0:
            lines.append(f"step {step}: train loss {loss_at(step, rng):.4f}, val loss {loss_at(step, rng) + 0.1:.4f}")
        lines.append(f"iter {step}: loss {loss_at(step, rng):.4f}, time {rng.gauss(245, 4):.2f}ms, mfu 38.20%")
    lines[-1] = "iter 3000: loss 1.6230, time 245.00ms, mfu 38.20%"
    want = {
        "current_step": 3000,
        "total_steps": 8000,
        "seconds_per_step": 0.245,
        "last_loss": 1.623,
        "eta_seconds": 1225.0,
    }
    return Run("\n".join(lines) + "\n", want)


@maker
def tqdm_alone() -> Run:
    rng = random.Random(2)
    text = ""
    for n in range(0, 7300, 20):
        text += "\r" + bar(n, 12000, n * 0.4, 0.4 * rng.uniform(0.97, 1.03), f", loss={loss_at(n, rng):.3f}")
    text += "\r" + bar(7300, 12000, 2920, 0.4, ", loss=1.502")
    want = {
        "current_step": 7300,
        "total_steps": 12000,
        "seconds_per_step": 0.4,
        "last_loss": 1.502,
        "eta_seconds": 1880.0,
    }
    return Run(text, want)


@maker
def tqdm_epochs_with_validation() -> Run:
    rng = random.Random(3)
    text = ""
    for epoch in range(1, 6):
        for n in range(0, 501 if epoch < 5 else 221, 20):
            text += (
                "\r" + f"Epoch {epoch}/30: " + bar(n, 500, n * 0.2, 0.2, f", loss={loss_at(n + 500 * epoch, rng):.3f}")
            )
        if epoch < 5:
            for n in range(0, 81, 10):
                text += "\r" + "Validation: " + bar(n, 80, n * 0.05, 0.05)
            text += f"\nEpoch {epoch}: val_loss=1.9 acc=0.7\n"
    want = {
        "current_step": 220, "total_steps": 500, "current_epoch": 5, "total_epochs": 30, "seconds_per_step": 0.2,
        "eta_seconds": (25 * 500 + 280) * 0.2,
    }  # fmt: skip
    return Run(text, want)


@maker
def mmengine() -> Run:
    rng = random.Random(4)
    time, lines = START, ["03/04 13:59:50 - mmengine - INFO - Checkpoints will be saved to /exp.", "    max_epochs=24,"]
    for epoch in range(1, 6):
        for n in range(50, 1201 if epoch < 5 else 651, 50):
            time += timedelta(seconds=50 * 0.45 * rng.uniform(0.97, 1.03))
            lines.append(
                f"{time:%m/%d %H:%M:%S} - mmengine - INFO - Epoch(train)  [{epoch}][{n:4d}/1200]  lr: 1.0000e-02  "
                f"eta: 3:00:00  time: {rng.gauss(0.45, 0.01):.4f}  data_time: 0.0100  memory: 8000  "
                f"loss: {loss_at(1200 * epoch + n, rng):.4f}  loss_cls: 0.4012  loss_bbox: 0.2011"
            )
        if epoch < 5:
            for n in range(50, 201, 50):
                time += timedelta(seconds=4)
                lines.append(
                    f"{time:%m/%d %H:%M:%S} - mmengine - INFO - Epoch(val)  [{epoch}][{n:4d}/200]    eta: 0:00:10  "
                    "time: 0.08  data_time: 0.01  memory: 2000"
                )
            lines.append(
                f"{time:%m/%d %H:%M:%S} - mmengine - INFO - Epoch(val) [{epoch}][200/200]    coco/bbox_mAP: 0.31"
            )
    want = {
        "current_step": 650, "total_steps": 1200, "current_epoch": 5, "total_epochs": 24, "seconds_per_step": 0.45,
        "eta_seconds": (19 * 1200 + 550) * 0.45,
    }  # fmt: skip
    return Run("\n".join(lines) + "\n", want, time + timedelta(seconds=20))


@maker
def fairseq() -> Run:
    rng = random.Random(5)
    time = START
    lines = [
        f"{time:%Y-%m-%d %H:%M:%S} | INFO | fairseq_cli.train | {{'_name': None, 'optimization': {{'max_epoch': 0, "
        "'max_update': 50000, 'update_freq': [4]}}"
    ]
    for step in range(100, 12301, 100):
        time += timedelta(seconds=100 * 0.8 * rng.uniform(0.97, 1.03))
        row = {
            "epoch": 1 + step // 2500, "update": round(step / 2500, 3), "loss": f"{loss_at(step, rng):.3f}", "ppl": "9.1",
            "wps": "51000", "ups": f"{1 / 0.8 * rng.uniform(0.97, 1.03):.2f}", "wpb": "20400", "bsz": "640",
            "num_updates": str(step), "lr": "0.0003", "gnorm": "1.1", "train_wall": "78", "wall": str(int(step * 0.8)),
        }  # fmt: skip
        lines.append(f"{time:%Y-%m-%d %H:%M:%S} | INFO | train_inner | {json.dumps(row)}")
        if step % 2500 == 0:
            time += timedelta(seconds=60)
            row = {"epoch": step // 2500, "valid_loss": "2.1", "valid_ppl": "4.2", "valid_num_updates": str(step)}
            lines.append(f"{time:%Y-%m-%d %H:%M:%S} | INFO | valid | {json.dumps(row)}")
    want = {"current_step": 12300, "total_steps": 50000, "seconds_per_step": 0.8, "eta_seconds": 37700 * 0.8}
    return Run("\n".join(lines), want, time + timedelta(seconds=50))


@maker
def ultralytics() -> Run:
    rng = random.Random(6)
    head = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    text = "engine/trainer: task=detect, mode=train, model=yolov8m.pt, epochs=80, batch=32, imgsz=640\nStarting training for 80 epochs...\n\n"
    for epoch in range(1, 12):
        text += head
        for n in range(0, 401 if epoch < 11 else 101, 20):
            text += (
                f"\r\x1b[K     {epoch:3d}/80      6.10G      {loss_at(400 * epoch + n, rng):.3f}      0.902      1.210"
                f"         33        640: " + bar(n, 400, n / 5, 0.2)
            )
        if epoch < 11:
            text += "\n                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95):   0%|          | 0/25 [00:00<?, ?it/s]"
            text += (
                "\r                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
                + bar(25, 25, 5, 0.2)
            )
            text += "\n                   all       1600      36335      0.612      0.501      0.540      0.361\n\n"
    want = {
        "current_step": 100, "total_steps": 400, "current_epoch": 11, "total_epochs": 80, "seconds_per_step": 0.2,
        "eta_seconds": (69 * 400 + 300) * 0.2,
    }  # fmt: skip
    return Run(text, want)


@maker
def timm() -> Run:
    rng = random.Random(7)
    lines = ["Training with a single process on 1 device (cuda:0).", "Scheduled epochs: 50. LR stepped per epoch."]
    for epoch in range(9):
        for n in range(0, 601 if epoch < 8 else 251, 50):
            lines.append(
                f"Train: {epoch} [{n:>4d}/625 ({100 * n // 625:>3d}%)]  Loss: {loss_at(625 * epoch + n, rng):.3f} (2.9)  "
                f"Time: {rng.gauss(0.31, 0.01):.3f}s,  825.81/s  (0.312s,  820.00/s)  LR: 5.000e-04  Data: 0.010 (0.020)"
            )
        if epoch < 8:
            for n in (0, 50, 78):
                lines.append(
                    f"Test: [{n:>4d}/78]  Time: 0.122 (0.150)  Loss:   1.2 (1.3)  Acc@1:  70.0 (68.0)  Acc@5:  90 (88)"
                )
    want = {
        "current_step": 250, "total_steps": 625, "current_epoch": 8, "total_epochs": 50, "seconds_per_step": 0.31,
        "eta_seconds": (41 * 625 + 375) * 0.31,
    }  # fmt: skip
    return Run("\n".join(lines), want)


@maker
def pytorch_mnist() -> Run:
    rng = random.Random(8)
    lines = []
    for epoch in range(1, 5):
        for n in range(0, 60000 if epoch < 4 else 32641, 640):
            lines.append(
                f"Train Epoch: {epoch} [{n}/60000 ({100 * n / 60000:.0f}%)]\tLoss: {loss_at(n / 60 + 1000 * epoch, rng):.6f}"
            )
        if epoch < 4:
            lines.append("\nTest set: Average loss: 0.0512, Accuracy: 9832/10000 (98%)\n")
    return Run("\n".join(lines), {"current_step": 32640, "total_steps": 60000, "current_epoch": 4, "anomaly": None})


@maker
def composer() -> Run:
    text = "Config:\nmax_duration: 4800ba\nnum_devices: 8\n"
    rng = random.Random(9)
    for n in range(0, 1321, 10):
        text += (
            f"[batch={n}/4800]:\n\t Train time/batch: {n}\n\t Train time/epoch: 0\n\t Train loss/train/total: {loss_at(n, rng):.4f}\n"
            f"\t Train throughput/batches_per_sec: {1 / 2.1 * rng.uniform(0.98, 1.02):.4f}\n"
        )
    want = {"current_step": 1320, "total_steps": 4800, "seconds_per_step": 2.1, "eta_seconds": 3480 * 2.1}
    return Run(text, want)


@maker
def paddle() -> Run:
    rng = random.Random(10)
    time, lines = START, []
    for step in range(10, 2211, 10):
        time += timedelta(seconds=10 * 0.33 * rng.uniform(0.96, 1.04))
        epoch, batch = divmod(step, 620)
        lines.append(
            f"[{time:%Y/%m/%d %H:%M:%S}] ppcls INFO: [Train][Epoch {epoch + 1}/40][Iter: {batch}/620]lr(LinearWarmup): 0.01, "
            f"CELoss: 3.1, loss: {loss_at(step, rng):.5f}, batch_cost: {rng.gauss(0.33, 0.01):.5f}s, reader_cost: 0.001, "
            "ips: 387.1 samples/s, eta: 1:58:00"
        )
    want = {
        "current_step": 350, "total_steps": 620, "current_epoch": 4, "total_epochs": 40, "seconds_per_step": 0.33,
        "eta_seconds": (36 * 620 + 270) * 0.33,
    }  # fmt: skip
    return Run("\n".join(lines), want, time)


@maker
def tf_estimator() -> Run:
    rng = random.Random(11)
    time, lines = START, []
    for step in range(0, 9101, 100):
        lines.append(
            f"I{time:%m%d %H:%M:%S}.{rng.randrange(10**6):06d} 1401 basic_session_run_hooks.py:700] global_step/sec: 4.02"
        )
        lines.append(
            f"I{time:%m%d %H:%M:%S}.{rng.randrange(10**6):06d} 1401 basic_session_run_hooks.py:260] "
            f"loss = {loss_at(step, rng):.5f}, step = {step} (24.875 sec)"
        )
        time += timedelta(seconds=100 * 0.25 * rng.uniform(0.97, 1.03))
    return Run(
        "\n".join(lines),
        {"current_step": 9100, "seconds_per_step": 0.25, "total_steps": None, "eta_seconds": None},
        time,
    )


@maker
def stable_baselines3() -> Run:
    rng = random.Random(12)
    text = "Using cuda device\n"
    for i in range(1, 151):
        text += (
            "-----------------------------------------\n| rollout/                |             |\n"
            f"|    ep_len_mean          | {rng.gauss(200, 10):.0f}         |\n| time/                   |             |\n"
            f"|    fps                  | 820         |\n|    iterations           | {i}         |\n"
            f"|    time_elapsed         | {i * 2.5:.0f}         |\n|    total_timesteps      | {i * 2048}       |\n"
            f"| train/                  |             |\n|    loss                 | {rng.gauss(12, 1):.3g}        |\n"
            "-----------------------------------------\n"
        )
    return Run(text, {"current_step": 307200, "anomaly": None})


@maker
def json_lines() -> Run:
    rng = random.Random(13)
    time, lines = START, [json.dumps({"event": "config", "max_steps": 40000, "lr": 3e-4, "batch_size": 32})]
    for step in range(25, 10001, 25):
        time += timedelta(seconds=25 * 0.6 * rng.uniform(0.96, 1.04))
        lines.append(
            json.dumps(
                {
                    "ts": f"{time.isoformat()}Z",
                    "event": "train",
                    "step": step,
                    "metrics": {"loss": round(loss_at(step, rng), 4), "lr": 3e-4},
                }
            )
        )
        if step % 2000 == 0:
            time += timedelta(seconds=90)
            lines.append(
                json.dumps({"ts": f"{time.isoformat()}Z", "event": "eval", "step": step, "metrics": {"eval_loss": 1.7}})
            )
    want = {"current_step": 10000, "total_steps": 40000, "seconds_per_step": 0.6, "eta_seconds": 18000.0}
    return Run("\n".join(lines), want, time + timedelta(seconds=30))


@maker
def invented_prose() -> Run:
    rng = random.Random(14)
    time, lines = START, ["The grand tour begins; we shall visit 9000 updates in total.", "total updates: 9000"]
    for step in range(30, 4111, 30):
        time += timedelta(seconds=30 * 1.7 * rng.uniform(0.95, 1.05))
        lines.append(
            f"<{time:%Y-%m-%d %H:%M:%S}> ~~ after update {step} of 9000 the training loss is {loss_at(step, rng):.4f} "
            f"(grad norm {rng.gauss(1, 0.1):.2f}, {rng.gauss(1500, 20):.0f} tokens/s)"
        )
    want = {"current_step": 4110, "total_steps": 9000, "seconds_per_step": 1.7, "eta_seconds": 4890 * 1.7}
    return Run("\n".join(lines), want, time + timedelta(seconds=20))


@maker
def invented_table() -> Run:
    rng = random.Random(15)
    lines = ["total_steps=20000", "elapsed_s\tglobal_step\tobjective\tlearning_rate"]
    for step in range(40, 6001, 40):
        lines.append(f"{step * 0.9 * rng.uniform(0.999, 1.001):.1f}\t{step}\t{loss_at(step, rng):.4f}\t0.001")
    lines[-1] = "5400.0\t6000\t1.5110\t0.001"
    want = {
        "current_step": 6000,
        "total_steps": 20000,
        "seconds_per_step": 0.9,
        "last_loss": 1.511,
        "eta_seconds": 12600.0,
    }
    return Run("\n".join(lines), want)


@maker
def invented_documents_done() -> Run:
    time, lines = START, ["loading corpus", "worker pool of 16 ready"]
    rng = random.Random(16)
    for n in range(500, 40001, 500):
        time += timedelta(seconds=500 * 0.05 * rng.uniform(0.95, 1.05))
        lines.append(f"{time:%H:%M:%S} [embed] done {n}/250000 documents, {rng.gauss(20, 0.5):.1f} docs/s")
    return Run(
        "\n".join(lines),
        {"current_step": 40000, "total_steps": 250000, "seconds_per_step": 0.05, "eta_seconds": 10500.0},
    )


@maker
def interleaved_ranks_srun() -> Run:
    rng = random.Random(17)
    time, lines = START, ["0: max_steps = 5000"]
    for step in range(20, 2001, 20):
        time += timedelta(seconds=20 * 0.75 * rng.uniform(0.97, 1.03))
        order = list(range(8))
        rng.shuffle(order)
        for rank in order:
            lines.append(
                f"{rank}: [{time:%Y-%m-%d %H:%M:%S}] step {step} | loss {loss_at(step, rng):.4f} | step_time {rng.gauss(0.75, 0.01):.3f}s"
            )
    want = {"current_step": 2000, "total_steps": 5000, "seconds_per_step": 0.75, "eta_seconds": 2250.0}
    return Run("\n".join(lines), want, time + timedelta(seconds=5))


@maker
def kubernetes_json_prefix() -> Run:
    rng = random.Random(18)
    time, lines = START, []
    for step in range(10, 1501, 10):
        time += timedelta(seconds=10 * 1.2 * rng.uniform(0.97, 1.03))
        lines.append(
            f"[pod/sft-worker-0/train] {time:%Y-%m-%dT%H:%M:%S.%f}789Z global_step={step} max_steps=6000 train_loss={loss_at(step, rng):.4f}"
        )
    want = {"current_step": 1500, "total_steps": 6000, "seconds_per_step": 1.2, "eta_seconds": 5400.0}
    return Run("\n".join(lines), want, time.replace(tzinfo=UTC))


@maker
def epochs_only() -> Run:
    rng = random.Random(19)
    time, lines = START, []
    for epoch in range(1, 41):
        time += timedelta(seconds=62 * rng.uniform(0.97, 1.03))
        lines.append(
            f"{time:%Y-%m-%d %H:%M:%S} Epoch {epoch}/100 - train_loss: {loss_at(epoch, rng, 15):.4f} - val_loss: 1.9000 - acc: 0.81"
        )
    return Run(
        "\n".join(lines), {"current_epoch": 40, "total_epochs": 100, "eta_seconds": 3720.0, "anomaly": None}, time
    )


@maker
def loguru_accelerate() -> Run:
    rng = random.Random(20)
    time, lines = START, []
    for step in range(1, 900):
        time += timedelta(seconds=2.4 * rng.uniform(0.95, 1.05))
        epoch, batch = divmod(step, 310)
        lines.append(
            f"{time:%Y-%m-%d %H:%M:%S}.{rng.randrange(1000):03d} | INFO     | __main__:train:214 - Epoch [{epoch + 1}/10] "
            f"Step [{batch}/310] Loss: {loss_at(step, rng):.4f}"
        )
    want = {
        "current_step": 279,
        "total_steps": 310,
        "current_epoch": 3,
        "total_epochs": 10,
        "seconds_per_step": 2.4,
        "eta_seconds": (7 * 310 + 31) * 2.4,
    }
    return Run("\n".join(lines), want, time)


def close(got: object, want: object, tolerance: float) -> bool:
    if want is None or isinstance(want, str):
        return got == want
    return isinstance(got, int | float) and abs(got - float(want)) <= tolerance * max(1e-9, abs(float(want)))  # type: ignore[arg-type]


def wrong_fields(run: Run, folder: Path) -> list[str]:
    path = folder / "job.log"
    path.write_text(run.text, encoding="utf-8")
    found = read_progress(path, now=run.now)
    tolerance = {"seconds_per_step": 0.05, "eta_seconds": 0.07, "last_loss": 1e-3}
    want = {"anomaly": None, **run.want}
    return [
        f"{name}: want {value!r}, got {getattr(found, name)!r}"
        for name, value in want.items()
        if not close(getattr(found, name), value, tolerance.get(name, 0.0))
    ]


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_reads_what_the_run_wrote(name: str, tmp_path: Path) -> None:
    assert wrong_fields(MAKERS[name](), tmp_path) == []
