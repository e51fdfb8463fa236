# ruff: noqa: E501 (log lines are as long as they are)
"""Trouble is reported when it is there, and only then."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from analyzers.logs import read_progress
from analyzers.types import Progress

START = datetime(2025, 3, 4, 14, 0, 0)


def smooth_loss(i: int, rng: random.Random) -> float:
    return 1.5 + 4.0 * math.exp(-i / 40) + rng.gauss(0, 0.03)


class Job:
    """A run that logs every 10 steps; what happens to it is up to the test."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.time = START
        self.step = 0
        self.lines: list[str] = ["max_steps = 20000"]

    def wait(self, seconds: float) -> Job:
        self.time += timedelta(seconds=seconds)
        return self

    def say(self, text: str) -> Job:
        self.lines.append(f"{self.time:%Y-%m-%d %H:%M:%S} {text}")
        return self

    def train(
        self, records: int, pace: float = 1.0, losses: Sequence[float] | None = None, jitter: float = 0.03
    ) -> Job:
        for i in range(records):
            self.step += 10
            self.wait(10 * pace * self.rng.uniform(1 - jitter, 1 + jitter))
            loss = losses[i] if losses is not None else smooth_loss(self.step // 10, self.rng)
            self.say(f"step {self.step} loss {loss:.4f} lr 0.0003")
        return self

    def read(self, folder: Path, now_after: float | None = None) -> Progress:
        path = folder / "train.log"
        path.write_text("\n".join(self.lines) + "\n")
        now = None if now_after is None else self.time + timedelta(seconds=now_after)
        return read_progress(path, now=now)


@pytest.mark.parametrize(
    ("build", "now_after", "want"),
    [
        pytest.param(lambda j: j.train(100), 15, None, id="healthy"),
        pytest.param(lambda j: j.train(100), 3600, "stall", id="silent-for-an-hour"),
        pytest.param(lambda j: j.train(103), 65, "stall", id="silent-for-six-gaps"),
        pytest.param(lambda j: j.train(100), 250, None, id="first-time-at-a-round-step"),
        pytest.param(lambda j: j.train(2), 600, None, id="compiling"),
        pytest.param(lambda j: j, 600, None, id="not-begun"),
        pytest.param(
            lambda j: [[j.train(50).say("evaluating ...").wait(300).say("eval accuracy 0.7") for _ in range(4)], j.train(3)],
            15, None, id="evaluations-take-longer",
        ),
        pytest.param(
            lambda j: [[j.train(50).wait(300) for _ in range(4)], j.train(50)], 200, None, id="pause-as-long-as-before"
        ),
        pytest.param(lambda j: j.train(80, pace=30).say("saving checkpoint").wait(400), 0, None, id="checkpoint-pause"),
        pytest.param(
            lambda j: [j.train(60)] + [j.wait(300).say("heartbeat: still here, rss 18.2 GiB") for _ in range(12)],
            None, "stall", id="heartbeats-only",
        ),
        pytest.param(lambda j: j.train(60).say("Training completed."), 86400, None, id="finished"),
        pytest.param(lambda j: j.train(60, losses=[*[2.0] * 30, 9.5, 6.0, *[2.0] * 28]), 10, None, id="spike-recovered"),
        pytest.param(lambda j: j.train(60, losses=[*[2.0 + i % 3 / 50 for i in range(58)], 9.5, 9.9]), 10, "loss_spike", id="spike-now"),
        pytest.param(
            lambda j: j.train(80, losses=[*[2.0 + i % 3 / 50 for i in range(60)], *[7 + i % 5 / 5 for i in range(20)]]),
            10, "divergence", id="blown-up-and-stays",
        ),
        pytest.param(lambda j: j.train(60, losses=[*[2.0] * 30, *[math.nan] * 3, *[2.0] * 27]), 10, None, id="nan-recovered"),
        pytest.param(lambda j: j.train(60, losses=[*[2.0] * 50, *[math.nan] * 10]), 10, "divergence", id="nan-to-the-end"),
        pytest.param(lambda j: j.train(60, losses=[*[2.0] * 57, *[math.inf] * 3]), 10, "divergence", id="inf-to-the-end"),
        pytest.param(
            lambda j: j.train(60).say("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768"),
            10, None, id="loss-scale-overflow",
        ),
        pytest.param(lambda j: j.train(100).train(40, pace=2.5), 20, "slowdown", id="slower-and-stays"),
        pytest.param(lambda j: j.train(30).train(150, pace=1.8), 20, "slowdown", id="slower-for-most-of-the-time"),
        pytest.param(lambda j: j.train(100).train(30, pace=2.5).train(60), 20, None, id="slower-and-recovered"),
        pytest.param(lambda j: j.train(2, pace=30).train(100), 20, None, id="slow-first-steps"),
        pytest.param(lambda j: j.train(200, jitter=0.4), 20, None, id="uneven-pace"),
        pytest.param(lambda j: j.train(100).wait(7200).train(100), 20, None, id="requeued-in-between"),
        pytest.param(lambda j: j.train(100).train(100, pace=0.5), 20, None, id="faster"),
        pytest.param(
            lambda j: j.train(300, losses=[j.rng.lognormvariate(0.5, 0.6) for _ in range(300)]), 10, None, id="noisy-loss"
        ),
        pytest.param(
            lambda j: j.train(300, losses=[-20 + 15 * math.sin(i / 20) + j.rng.gauss(0, 3) for i in range(300)]),
            10, None, id="negative-oscillating-loss",
        ),
        pytest.param(
            lambda j: j.train(200, losses=[2 + 0.4 * (i % 50 < 8) + j.rng.gauss(0, 0.03) for i in range(200)]),
            10, None, id="warm-restarts",
        ),
    ],
)  # fmt: skip
def test_anomaly(build: Callable[[Job], object], now_after: float | None, want: str | None, tmp_path: Path) -> None:
    job = Job()
    build(job)
    found = job.read(tmp_path, now_after)
    assert found.anomaly == want
    if want is not None:
        assert found.evidence
    assert (found.eta_seconds is None) == (want == "stall" or found.current_step is None)


@pytest.mark.parametrize("seed", range(20))
def test_healthy_runs_raise_no_alarm(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    job = Job(seed)
    for _ in range(rng.randrange(1, 6)):
        job.train(rng.randrange(5, 120), pace=1.0, jitter=rng.uniform(0.01, 0.3))
        job.wait(rng.uniform(0, 25)).say("saved checkpoint")
    assert job.read(tmp_path, 12).anomaly is None


def test_resumed_run_goes_on_from_its_last_steps(tmp_path: Path) -> None:
    job = Job().train(300)
    job.wait(3600).say("resuming from step 2500")
    job.step = 2500
    job.train(80, pace=2.0)
    found = job.read(tmp_path, 20)
    assert found.current_step == 3300
    assert found.seconds_per_step == pytest.approx(2.0, rel=0.05)
    assert found.eta_seconds == pytest.approx((20000 - 3300) * 2.0, rel=0.05)


def test_bar_without_times_slows_down(tmp_path: Path) -> None:
    text, elapsed = "", 0.0
    for n in range(0, 4000, 20):
        pace = 0.5 if n < 2800 else 1.6
        elapsed += 20 * pace
        rate = f"{pace:.2f}s/it" if pace > 1 else f"{1 / pace:.2f}it/s"
        text += (
            f"\r{n // 100:3d}%|###       | {n}/10000 [{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}<99:00, {rate}]"
        )
    (tmp_path / "x.log").write_text(text)
    found = read_progress(tmp_path / "x.log")
    assert found.anomaly == "slowdown"
    assert found.seconds_per_step == pytest.approx(1.6, rel=0.05)


def test_straggling_rank_by_its_own_step_time(tmp_path: Path) -> None:
    rng = random.Random(3)
    for rank in range(8):
        lines = [
            f"2025-03-04 14:{n // 6:02d}:{n % 6 * 10:02d} step {n * 10} loss 2.1 step_time {rng.gauss(2.2 if rank == 5 else 1.0, 0.02):.3f}s"
            for n in range(60)
        ]
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(lines))
    found = read_progress(tmp_path)
    assert found.anomaly == "straggler"
    assert found.evidence[0].file == "rank_5.log"
    assert found.current_step == 590


def test_rank_that_falls_behind(tmp_path: Path) -> None:
    lines = []
    for n in range(200):
        for rank in range(4):
            step = n * 10 if rank != 2 else min(n * 10, 900 + n)
            lines.append(f"[rank{rank}]: 2025-03-04 14:{n // 60:02d}:{n % 60:02d} step {step} loss 2.1")
    (tmp_path / "all.log").write_text("\n".join(lines))
    found = read_progress(tmp_path / "all.log")
    assert found.anomaly == "straggler"
    assert found.evidence[0].text.startswith("[rank2]")


def test_ranks_in_step_are_no_stragglers(tmp_path: Path) -> None:
    lines = [
        f"[rank{rank}]: 2025-03-04 14:{n // 60:02d}:{n % 60:02d} step {n * 10} loss 2.1 step_time 0.1s"
        for n in range(200)
        for rank in range(4)
    ]
    (tmp_path / "all.log").write_text("\n".join(lines[:-2]))
    assert read_progress(tmp_path / "all.log").anomaly is None


def test_midnight_without_dates(tmp_path: Path) -> None:
    lines = []
    for n in range(100):
        time = datetime(2025, 1, 1, 23, 50) + timedelta(seconds=12 * n)
        lines.append(f"[{time:%H:%M:%S}] step {n * 10}/5000 loss 2.0")
    (tmp_path / "x.log").write_text("\n".join(lines))
    found = read_progress(tmp_path / "x.log")
    assert found.anomaly is None
    assert found.seconds_per_step == pytest.approx(1.2, rel=0.02)


@pytest.mark.parametrize(
    "text",
    [
        "Collecting torch==2.4.0\n  Downloading torch-2.4.0.whl (797.2 MB)\nInstalling collected packages: 12/40\n",
        "\r".join(f"model.safetensors: {n}%|###   | {n}.0M/100M [00:{n % 60:02d}<00:20, 40.1MB/s]" for n in range(90)),
        "\r".join(f"Loading checkpoint shards:  {n * 25}%|##  | {n}/4 [00:0{n}<00:02,  1.10s/it]" for n in range(5)),
        "\n".join(f"node1:100:200 [0] NCCL INFO Channel {n:02d}/32 :    0   1   2   3" for n in range(32)),
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    main()\nValueError: step 3 is bad\n",
        "\n".join(f"2025-03-04 14:{n:02d}:00 heartbeat {n} step loop alive" for n in range(30)),
        "\n".join(f"[812219.{n:06d}] mce: CPU{n}: Core temperature is above threshold" for n in range(30)),
        "\n".join(f"Attempt {n}/10 to connect to master failed, retrying in {n * 2} s" for n in range(1, 10)),
        "lr 0.001\nbatch_size: 32\nmax_epochs: 12\nmax_steps: 6000\nlog_every_n_steps: 50\n",
        "\n".join(f"GPU {n} memory used 71.2/80.0 GiB temperature {60 + n} C" for n in range(8)),
        "\n".join("error: step 5 failed" for _ in range(20)),
    ],
)  # fmt: skip
def test_no_progress_is_all_null(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text(text)
    found = read_progress(tmp_path / "x.log")
    assert (found.current_step, found.current_epoch, found.seconds_per_step, found.format) == (None, None, None, None)


@pytest.mark.parametrize(
    "message",
    [
        "FloatingPointError: Loss became infinite or NaN at iteration=8025!",
        "Loss is nan, stopping training",
        "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
    ],
)
def test_a_message_that_the_loss_is_broken(message: str, tmp_path: Path) -> None:
    job = Job().train(40)
    job.lines.append(message)
    found = job.read(tmp_path)
    assert found.anomaly == "divergence"
    assert found.evidence[0].text == message


def test_step_and_loss_on_two_lines_of_which_one_names_the_rank(tmp_path: Path) -> None:
    lines, time = ["total_num_steps=9000"], START
    for step in range(10, 1031, 10):
        time += timedelta(seconds=15)
        lines.append(f"[{time:%Y-%m-%d %H:%M:%S},120] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0")
        lines.append(f"steps: {step} loss: {smooth_loss(step, random.Random(step)):.4f} iter time (s): 1.500")
    (tmp_path / "x.log").write_text("\n".join(lines))
    for after, want in ((10, None), (300, "stall")):
        found = read_progress(tmp_path / "x.log", now=time + timedelta(seconds=after))
        assert (found.anomaly, found.current_step, found.total_steps) == (want, 1030, 9000)
        assert found.last_loss is not None


def test_evidence_comes_from_the_lowest_of_equal_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        lines = [f"14:{n // 6:02d}:{n % 6 * 10:02d} step={n} loss=2.{rank}" for n in range(60)]
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(lines))
    found = read_progress(tmp_path)
    assert found.evidence[-1].file == "rank_0.log"
    assert found.seconds_per_step == pytest.approx(10)


def test_a_scheduler_step_is_no_training_step(tmp_path: Path) -> None:
    text = "slurmstepd: error: *** STEP 55810.0 ON ridge-0 CANCELLED AT 2025-08-05T05:47:10 DUE TO NODE FAILURE ***\n"
    (tmp_path / "slurm.out").write_text(text * 3)
    assert read_progress(tmp_path / "slurm.out").current_step is None


def test_a_torn_last_line_does_not_set_the_run_back(tmp_path: Path) -> None:
    job = Job().train(150)
    job.lines[-1] = job.lines[-1].split(" loss")[0][:-2]  # "step 1500" as far as "step 15"
    (tmp_path / "x.log").write_text("\n".join(job.lines))
    found = read_progress(tmp_path / "x.log")
    assert found.current_step == 1490
    assert found.total_steps == 20000
