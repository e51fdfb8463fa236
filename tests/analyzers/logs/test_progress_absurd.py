"""Numbers that no training ever printed: they count for nothing, and nothing overflows."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzers.logs import read_progress

_HUGE = "9" * 400
_LINES = (
    f"{_HUGE}epoch:train:1-5batch: loss=2, train_time=1\n",
    f"Epoch {_HUGE}/3 eta: {_HUGE} days, 1:2:3\n",
    f"step 5/{_HUGE} loss {_HUGE} time: 1e-320\n",
    f"step {'9' * 5000}/{'9' * 5000}\n",
    "step: 3 elapsed: 0000-00-00T00:00:00 eta: -5\n",
    "step: 4 elapsed: inf eta: nan it/s: 1e-320\n",
    f" 50%|#####     | 5/10 [{_HUGE}:00<00:10, {_HUGE}it/s]\n",
    "50%|#####     | 5/10 [00:01<99999999:00:10, 1e308s/it]\n",
)


@pytest.mark.parametrize("line", _LINES)
def test_absurd_numbers_give_finite_answers(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(line * 5)
    found = read_progress(path)
    for value in (found.current_epoch, found.seconds_per_step, found.eta_seconds):
        assert value is None or (math.isfinite(value) and value >= 0)


def test_a_time_left_of_ages_is_shown(
    schedmate: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    path = tmp_path / "x.log"
    path.write_text("".join(f"2025-01-01 00:{i:02d}:00 step {i + 1}/999999999999999 loss 1.0\n" for i in range(40)))
    assert json.loads(schedmate("progress", path, "--json").stdout)["eta_seconds"] > 1e15
    shown = schedmate("progress", path)
    assert shown.returncode == 0 and "time left" in shown.stdout, shown.stderr


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_present_time_at_the_end_of_the_calendar_is_refused(
    schedmate: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, now: str
) -> None:
    path = tmp_path / "x.log"
    path.write_text("2025-01-01 00:00:00 step 1/9 loss 1.0\n" * 5)
    done = schedmate("progress", path, "--now", now)
    assert done.returncode == 2 and "not a time" in done.stderr
