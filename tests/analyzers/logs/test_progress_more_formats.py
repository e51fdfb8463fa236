# ruff: noqa: E501 (log lines are as long as they are)
"""Further formats, line by line: a run at a steady pace in each of them, and what must be read from its cut-off log."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from analyzers.logs import read_progress

START = datetime(2025, 3, 4, 14, 0, 0)


def loss(step: float) -> float:
    return 1.5 + 4.0 * math.exp(-step / 800)


def run(
    line: Callable[[int, datetime], str], last: int, every: int, pace: float, first: int = 0, head: str = ""
) -> str:
    """One line each ``every`` steps up to step ``last``, at ``pace`` seconds per step."""
    lines = [head] if head else []
    for step in range(first, last + 1, every):
        lines.append(line(step, START + timedelta(seconds=step * pace)))
    return "\n".join(lines) + "\n"


def bar(n: int, total: int, pace: float, postfix: str = "") -> str:
    left, done = int((total - n) * pace), int(n * pace)
    rate = f"{pace:.2f}s/it" if pace > 1 else f"{1 / pace:.2f}it/s"
    return (
        f"{100 * n // total}%|{'#' * (10 * n // total):<10}| {n}/{total} "
        f"[{done // 60:02d}:{done % 60:02d}<{left // 60:02d}:{left % 60:02d}, {rate}{postfix}]"
    )


Case = tuple[str, dict[str, object]]
CASES: dict[str, Case] = {
    "torchtune": (
        "".join(f"\r1|{n}|Loss: {loss(n):.4f}: " + bar(n, 1600, 1.2) for n in range(1, 641, 3)),
        {"current_step": 640, "total_steps": 1600, "seconds_per_step": 1.2, "eta_seconds": 1152.0},
    ),
    "nemo2": (
        run(
            lambda n, t: f"Training epoch 0, iteration {n}/4999 | lr: 0.0003 | global_batch_size: 512 | global_step: {n} | "
            f"reduced_train_loss: {loss(n):.3f} | train_step_timing in s: 2.100 | consumed_samples: {n * 512}",
            1500, 10, 2.1,
        ),
        {"current_step": 1500, "seconds_per_step": 2.1},
    ),
    "nemo-bar": (
        "".join(
            f"\rEpoch 0: :  {bar(n, 5000, 2.1, f', v_num=abcd, reduced_train_loss={loss(n):.3f}, global_step={n}.0')}"
            for n in range(10, 1501, 10)
        ),
        {"current_step": 1500, "total_steps": 5000, "current_epoch": 0, "seconds_per_step": 2.1},
    ),
    "maxtext": (
        run(
            lambda n, t: f"completed step: {n}, seconds: 5.1{n % 10}, TFLOP/s/device: 50.1, Tokens/s/device: 1000.2, "
            f"total_weights: 65536, loss: {loss(n):.3f}",
            900, 1, 5.15, head="Config param steps: 15000",
        ),
        {"current_step": 900, "total_steps": 15000, "seconds_per_step": 5.15},
    ),
    "fastai": (
        "epoch     train_loss  valid_loss  accuracy  time    \n"
        + "".join(f"{e}         {loss(e * 100):.6f}    1.912000    0.710000  00:42     \n" for e in range(12)),
        {"current_epoch": 11, "last_loss": pytest.approx(loss(1100), rel=1e-3)},
    ),
    "xgboost": (
        run(lambda n, t: f"[{t:%H:%M:%S}] [{n}]\ttrain-rmse:{loss(n):.5f}\teval-rmse:1.90000", 400, 1, 0.5),
        {"current_step": 400, "seconds_per_step": 0.5},
    ),
    "caffe": (
        run(
            lambda n, t: f"I{t:%m%d %H:%M:%S}.250000 3012 solver.cpp:218] Iteration {n} (2.5 iter/s, 40s/100 iters), "
            f"loss = {loss(n):.5f}",
            12000, 100, 0.4, head="max_iter: 450000",
        ),
        {"current_step": 12000, "total_steps": 450000, "seconds_per_step": 0.4, "eta_seconds": 438000 * 0.4},
    ),
    "darknet": (
        run(
            lambda n, t: f" (next mAP calculation at 3000 iterations) \n {n}: {loss(n):.6f}, {loss(n):.6f} avg loss, 0.001000 rate, "
            f"3.200000 seconds, {n * 64} images, 10.5 hours left",
            900, 1, 3.2, first=1,
        ),
        {"current_step": 900},
    ),
    "mxnet": (
        "".join(
            run(
                lambda n, t, e=e: f"{t + timedelta(seconds=400 * e):%Y-%m-%d %H:%M:%S} INFO Epoch[{e}] Batch [{n}]\tSpeed: 1234.50 samples/sec\t"
                f"loss={loss(n + 1000 * e):.4f}",
                980 if e < 4 else 500, 20, 0.4,
            )
            for e in range(5)
        ),
        {"current_step": 500, "current_epoch": 4, "seconds_per_step": 0.4},
    ),
    "opennmt": (
        run(
            lambda n, t: f"[{t:%Y-%m-%d %H:%M:%S},100 INFO] Step {n}/200000; acc: 34.5; ppl: 12.30; xent: 2.51; lr: 0.00100; "
            f"sents: 1200; bsz: 3000/3100/24; 12000/12100 tok/s; {n // 4} sec;",
            9000, 50, 0.25, first=50,
        ),
        {"current_step": 9000, "total_steps": 200000, "seconds_per_step": 0.25, "eta_seconds": 191000 * 0.25},
    ),
    "marian": (
        run(
            lambda n, t: f"[{t:%Y-%m-%d %H:%M:%S}] Ep. 1 : Up. {n} : Sen. {n * 64:,} : Cost {loss(n):.4f} : Time 300.00s : 12000 words/s",
            9000, 100, 0.3, first=100,
        ),
        {"current_step": 9000, "seconds_per_step": 0.3},
    ),
    "espnet": (
        run(
            lambda n, t: f"[node7] {t:%Y-%m-%d %H:%M:%S},100 (trainer:762) INFO: 3epoch:train:{n - 49}-{n}batch: iter_time=0.001, "
            f"forward_time=0.1, loss_ctc=20.1, loss={loss(n):.3f}, optim0_lr0=0.001, train_time=0.42",
            3000, 50, 0.42, first=50, head="max_epoch: 50",
        ),
        {"last_loss": pytest.approx(loss(3000), rel=1e-3), "total_epochs": 50},
    ),
    "coqui": (
        run(
            lambda n, t: f"   --> TIME: {t:%Y-%m-%d %H:%M:%S} -- STEP: {n}/560 -- GLOBAL_STEP: {5600 + n}\n     | > loss: {loss(n):.5f}  (2.1)",
            400, 25, 0.8,
        ),
        {"current_step": 5600 + 400, "seconds_per_step": 0.8},
    ),
    "verl": (
        run(
            lambda n, t: f"(TaskRunner pid=4411) step:{n} - global_seqlen/mean:9000.1 - actor/entropy:0.4 - actor/pg_loss:{loss(n):.3f} - "
            f"actor/grad_norm:0.11 - timing_s/gen:30.1 - timing_s/step:45.200 - perf/throughput:900.1",
            120, 1, 45.2, first=1, head="(TaskRunner pid=4411) Total training steps: 435",
        ),
        {"current_step": 120, "total_steps": 435, "seconds_per_step": 45.2, "eta_seconds": 315 * 45.2},
    ),
    "rsl-rl": (
        run(
            lambda n, t: "#" * 80 + f"\n                      Learning iteration {n}/1500                      \n\n"
            f"                       Computation: 98304 steps/s (collection: 0.710s, learning 0.290s)\n"
            f"               Value function loss: {loss(n):.4f}\n                    Surrogate loss: -0.0021\n"
            f"                    Iteration time: 1.00s\n                        Total time: {n * 1.0:.2f}s\n"
            f"                               ETA: {1500 - n}.0s\n",
            400, 1, 1.0,
        ),
        {"current_step": 400, "total_steps": 1500, "seconds_per_step": 1.0, "eta_seconds": 1100.0},
    ),
    "openrlhf": (
        "".join(f"\rTrain epoch [1/2]: {bar(n, 900, 3.0, f', gpt_loss={loss(n):.3f}, lr=9e-6')}" for n in range(0, 301, 2)),
        {"current_step": 300, "total_steps": 900, "current_epoch": 1, "total_epochs": 2, "eta_seconds": 1500 * 3.0},
    ),
    "accelerate-bar": (
        "  Num examples = 25600\n  Num Epochs = 4\n  Total optimization steps = 3200\n"
        + "".join(f"\rSteps:  {bar(n, 3200, 0.7, f', lr=1e-5, step_loss={loss(n):.4f}')}" for n in range(0, 1001, 4)),
        {"current_step": 1000, "total_steps": 3200, "total_epochs": 4, "seconds_per_step": 0.7, "eta_seconds": 1540.0},
    ),
    "megatron-ranks-torchrun": (
        run(
            lambda n, t: f"[default7]: [{t:%Y-%m-%d %H:%M:%S}] iteration {n:8d}/   90000 | consumed samples: {n * 512:12d} | "
            f"elapsed time per iteration (ms): 820.4 | learning rate: 1.0E-04 | lm loss: {loss(n):.6E} | number of nan iterations:   0 |",
            5000, 100, 0.8204, first=100,
        ),
        {"current_step": 5000, "total_steps": 90000, "seconds_per_step": 0.8204},
    ),
    "german-semicolons": (
        "Zeit;Schritt;step;loss\n" + run(lambda n, t: f"{t:%Y-%m-%d %H:%M:%S};x;{n};{loss(n):.4f}", 900, 10, 1.5),
        {"current_step": 900, "seconds_per_step": 1.5},
    ),
    "key-value-logfmt": (
        run(
            lambda n, t: f'time={t:%Y-%m-%dT%H:%M:%S}Z level=info msg="train" iter={n} total_iters=7000 train.loss={loss(n):.4f}',
            2100, 10, 0.9,
        ),
        {"current_step": 2100, "total_steps": 7000, "seconds_per_step": 0.9, "eta_seconds": 4410.0},
    ),
    "percent-in-prose": (
        run(
            lambda n, t: f"{t:%Y/%m/%d %H:%M:%S} Progress: {n / 80:.1f}% ({n} of 8000 batches), current loss {loss(n):.3f}",
            2400, 20, 0.5,
        ),
        {"current_step": 2400, "total_steps": 8000, "seconds_per_step": 0.5, "eta_seconds": 2800.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_reads_what_the_run_wrote(name: str, tmp_path: Path) -> None:
    text, want = CASES[name]
    (tmp_path / "job.log").write_text(text, encoding="utf-8")
    found = read_progress(tmp_path / "job.log")
    assert found.anomaly is None
    got = {field: getattr(found, field) for field in want}
    close = {f: pytest.approx(v, rel=0.05) if f in ("seconds_per_step", "eta_seconds") else v for f, v in want.items()}
    assert got == close
