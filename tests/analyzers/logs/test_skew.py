"""Ranks whose clocks are minutes apart: no stall, no straggler and no lost failure because of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from analyzers.logs import read_progress
from analyzers.types import Progress

_GAP_S = 30
_RECORDS = 80
_BEGUN = datetime(2026, 3, 2, 7)
_END = _BEGUN + timedelta(seconds=_RECORDS * _GAP_S)


def _read(folder: Path, ahead_s: tuple[int, ...], passed_s: float | None, *more: str) -> Progress:
    """Four ranks that print the same steps, their clocks so far ahead; ``more`` are last lines of the third."""
    for rank, ahead in enumerate(ahead_s):
        times = [_BEGUN + timedelta(seconds=_GAP_S * at + ahead) for at in range(1, _RECORDS + 1)]
        lines = [f"{time:%Y-%m-%d %H:%M:%S} step {at}/900 loss 2.1" for at, time in enumerate(times, 1)]
        lines += [f"{times[-1]:%Y-%m-%d %H:%M:%S} {text}" for text in more] if rank == 2 else []
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n")
    return read_progress(folder, now=_END + timedelta(seconds=passed_s) if passed_s is not None else None)


_CLOCKS = [(0, 0, 0, 0), (-300, 0, 0, 0), (300, 0, 0, 0), (0, 0, 0, 600), (0, 2, -420, 1), (7200, 0, 0, 0)]


@pytest.mark.parametrize("ahead_s", _CLOCKS)
def test_a_clock_that_is_off_is_no_trouble_and_hides_none(ahead_s: tuple[int, ...], tmp_path: Path) -> None:
    for passed_s, wanted in ((None, None), (20, None), (80, None), (100, "stall"), (4000, "stall")):
        found = _read(tmp_path, ahead_s, passed_s)
        assert found.anomaly == wanted
        assert (found.quiet is None) == (wanted is None)
    assert found.seconds_per_step == pytest.approx(_GAP_S)


@pytest.mark.parametrize("ahead_s", _CLOCKS)
def test_a_rank_fails_at_the_time_that_the_others_say(ahead_s: tuple[int, ...], tmp_path: Path) -> None:
    found = _read(tmp_path, ahead_s, 20, "Traceback (most recent call last):", "RuntimeError: CUDA error: misaligned")
    assert found.ended == "failed"


def test_of_two_clocks_the_later_one_is_believed(tmp_path: Path) -> None:
    assert _read(tmp_path, (-300, 0), 20).anomaly is None
    assert _read(tmp_path, (0, -300), 100).anomaly == "stall"
