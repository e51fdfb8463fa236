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


def _attempt(path: Path, begun: datetime, steps: range, *more: str) -> datetime:
    """One attempt's log; when its last line was written."""
    times = [begun + timedelta(seconds=_GAP_S * at) for at in range(len(steps))]
    lines = [f"{time:%Y-%m-%d %H:%M:%S} step {step}/900 loss 2.1" for step, time in zip(steps, times, strict=True)]
    lines += [f"{times[-1]:%Y-%m-%d %H:%M:%S} {text}" for text in more]
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return times[-1]


_FAILS = ("Traceback (most recent call last):", "RuntimeError: CUDA error: misaligned address")


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("attempts", [2, 3, 5])
@pytest.mark.parametrize("failing", [(), _FAILS])
def test_a_job_that_is_started_anew_has_no_other_clock(
    ranks: int, attempts: int, failing: tuple[str, ...], tmp_path: Path
) -> None:
    """Attempts hours apart print the same steps again: the last one neither stalls nor has failed by then."""
    for attempt in range(attempts):
        is_last = attempt == attempts - 1
        for rank in range(ranks):
            log = tmp_path / f"attempt_{attempt}" / (f"rank{rank}.log" if ranks > 1 else "train.log")
            more = failing if not is_last and rank == ranks // 2 else ()
            end = _attempt(log, _BEGUN + timedelta(hours=2 * attempt), range(50, 80), *more)
    for passed_s, wanted in ((20, None), (400, "stall")):
        found = read_progress(tmp_path, now=end + timedelta(seconds=passed_s))
        assert (found.anomaly, found.ended) == (wanted, None)


def test_a_clock_that_was_set_right_is_not_ahead_any_more(tmp_path: Path) -> None:
    """The first rank's clock was ahead by minutes, until a few steps ago."""
    for right in range(8):
        for rank in range(4):
            times = [
                _BEGUN + timedelta(seconds=_GAP_S * at + (400 if rank == 0 and at < 60 - right else 0))
                for at in range(60)
            ]
            lines = [f"{time:%Y-%m-%d %H:%M:%S} step {at}/900 loss 2.1" for at, time in enumerate(times, 1)]
            (tmp_path / f"rank{rank}.log").write_text("\n".join(lines) + "\n")
        found = read_progress(tmp_path, now=_BEGUN + timedelta(seconds=_GAP_S * 59 + 20))
        assert found.anomaly is None, right
