"""Whatever the bytes, `read_progress` returns or says in one line why not; estimates hold while a log grows."""

from __future__ import annotations

import math
import random
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.logs import read_progress
from analyzers.types import Progress
from prompts.errors import UserError

BAR = "\rEpoch 3:  40%|████      | 40/100 [01:00<01:30,  1.50s/it, v_num=1, loss=0.731]"
PIECES = [
    "step 5 loss 2.1 lr 0.1\n",
    "2025-03-04 14:00:01 epoch 1/20 batch 50/400 loss=nan\n",
    " [2024-02-01 10:00:00] iteration   1200/   90000 | elapsed time per iteration (ms): 820.4 | lm loss: 4.21E+00\n",
    BAR,
    "{'loss': 1.7, 'learning_rate': 4.2e-05, 'epoch': 0.48}\n",
    "wall_time,step,loss\n",
    "1757664017.5,20,inf\n",
    "[rank3]: I0912 06:00:15.39 13987 train.py:211] step=99999999999999999999, loss=-inf, steps_per_sec=0\n",
    "Epoch 1/0\n",
    "0/0 [====] - ETA: 0s\n",
    "step: -5 of 0 time 0ms eta: 1 day, 99:99:99\n",
    "max_steps = 0\nmax_steps=1e400\n",
    "[12:00:00] step 1/1e5\n",
    "Feb 29 12:00:00 n1 step: 4\n",
    "\x1b[31m\x08\x08\0",
]


def check(found: Progress) -> None:
    for value in (found.seconds_per_step, found.eta_seconds, found.current_epoch):
        assert value is None or (math.isfinite(value) and value >= 0)
    assert isinstance(found.last_loss, float | str | None)
    assert (found.eta_seconds is None) or found.anomaly != "stall"


def read(folder: Path, data: bytes) -> None:
    path = folder / "x.log"
    path.write_bytes(data)
    for now in (None, datetime(2025, 3, 1)):
        try:
            check(read_progress(path, now=now))
        except UserError as error:
            assert "\n" not in str(error)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=3000))
def test_arbitrary_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    read(tmp_path_factory.mktemp("p"), data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=30), max_size=60), st.integers(0, 400))
def test_mixtures_cut_anywhere(tmp_path_factory: pytest.TempPathFactory, pieces: list[str], cut: int) -> None:
    data = "".join(pieces).encode("utf-8", "surrogatepass")
    read(tmp_path_factory.mktemp("p"), data[: max(0, len(data) - cut)])


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["step", "iteration", "Epoch", "it", "batch", "loss", "total_steps"]),
    st.lists(st.floats() | st.integers(-(10**30), 10**30), max_size=40),
)
def test_any_numbers(tmp_path_factory: pytest.TempPathFactory, key: str, values: list[float]) -> None:
    text = "".join(f"2025-03-04 14:00:{i:02d} {key}={value} loss={value}\n" for i, value in enumerate(values))
    read(tmp_path_factory.mktemp("p"), text.encode())


def grown_log(seed: int) -> tuple[list[str], list[float], float]:
    """Lines of a whole run with pauses for evaluation, the seconds since its start of each, and its length."""
    rng = random.Random(seed)
    pace, time, lines, at = rng.uniform(0.2, 5), rng.uniform(20, 60), ["max_steps=4000"], [0.0]
    for step in range(10, 4001, 10):
        time += 10 * pace * rng.lognormvariate(0, 0.08)
        stamp = datetime(2025, 3, 4) + timedelta(seconds=time)
        lines.append(f"{stamp:%Y-%m-%d %H:%M:%S} step={step} loss={2 + rng.gauss(0, 0.1):.3f}")
        at.append(time)
        if step % 1000 == 0:
            time += 20 * pace
    return lines, at, time


def test_time_left_is_right_on_growing_logs(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    errors: dict[float, list[float]] = {0.1: [], 0.25: [], 0.5: [], 0.75: []}
    for seed in range(10):
        lines, at, end = grown_log(seed)
        for share, found in errors.items():
            count = int(len(lines) * share)
            path.write_text("\n".join(lines[:count]))
            eta = read_progress(path).eta_seconds
            assert eta is not None
            left = end - at[count - 1]
            found.append(abs(eta - left) / left)
    assert median(errors[0.1]) < 0.2
    for share in (0.25, 0.5, 0.75):
        assert median(errors[share]) < 0.1, share


@pytest.mark.slow
def test_a_large_dense_log_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    with path.open("w") as out:
        out.write("max_steps = 5000000\n")
        for n in range(50_000):
            stamp = f"2025-03-{1 + n // 86400:02d} {n % 86400 // 3600:02d}:{n % 3600 // 60:02d}:{n % 60:02d}"
            out.write(f"{stamp} INFO trainer step {n * 10} loss=1.2345 lr=0.000300 tokens_per_sec=81234.2 grad=0.91\n")
    tracemalloc.start()
    found = read_progress(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.current_step, found.total_steps) == (499_990, 5_000_000)
    assert found.seconds_per_step == pytest.approx(0.1, rel=0.01)
    assert found.anomaly is None
    assert peak < 60_000_000


def test_a_bad_file_in_a_folder_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("".join(f"step {n}/50 loss 2.0\n" for n in range(10)))
    (tmp_path / "bad.log").write_bytes(bytes(range(256)) * 20)
    warnings: list[str] = []
    assert read_progress(tmp_path, warn=warnings.append).current_step == 9
    assert len(warnings) == 1


def test_development_set(shared_data: Path) -> None:
    """Every field of the labelled development logs, within the tolerances of their scorer."""
    import json

    tolerance = {"current_epoch": 0.05, "seconds_per_step": 0.15, "last_loss": 1e-3, "eta_seconds": 0.15}
    for text in (shared_data / "progress" / "labels.jsonl").read_text().splitlines():
        label = json.loads(text)
        now = datetime.fromisoformat(label["now"]) if label["now"] else None
        found = read_progress(shared_data / "progress" / label["file"], now=now)
        assert found.anomaly == label["anomaly"], label["file"]
        for name in (
            "current_step",
            "total_steps",
            "current_epoch",
            "total_epochs",
            "seconds_per_step",
            "last_loss",
            "eta_seconds",
        ):
            want = label[name]
            if want is not None:
                same = want if isinstance(want, str) else pytest.approx(want, rel=tolerance.get(name, 0))
                assert getattr(found, name) == same, (label["file"], name)
