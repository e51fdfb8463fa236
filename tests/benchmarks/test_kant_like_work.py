"""Useful work over time, and results that are kept: by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import kant_table, work
from benchmarks.baselines.gang_cluster import Job, Outcome

DAY_S = 86400.0


def row(submit_s: float, gpus: int, duration_s: float) -> Job:
    return Job(submit_s, gpus, duration_s, limit_s=1e9, predicted_s=duration_s)


def test_work_that_waits_is_late_by_its_wait() -> None:
    """Two jobs of 100 s on 4 GPUs, both submitted at 0, one after the other: the second is late by 100 s."""
    rows = [row(0.0, 4, 100.0), row(0.0, 4, 100.0)]
    steps = [(0.0, 0.0), (100.0, 400.0), (200.0, 800.0)]
    assert work.mean_delay_s(rows, steps) == pytest.approx(50.0)
    at_once = [(0.0, 0.0), (100.0, 800.0)]
    assert work.mean_delay_s(rows, at_once) == pytest.approx(0.0)


def test_work_after_a_move_is_late_by_what_the_move_cost() -> None:
    """A job of 100 s is moved after 50 s: 10 s of work are lost and it takes 20 s to start. 40 s are on time, 60 s late
    by 30: what was done before and lost counts for as long as it was not lost."""
    rows = [row(0.0, 1, 100.0)]
    steps = [(0.0, 0.0), (50.0, 50.0), (50.0, 40.0), (70.0, 40.0), (130.0, 100.0)]
    lost_area = 10 * 10 / 2
    assert work.mean_delay_s(rows, steps) == pytest.approx((60 * 30 - lost_area) / 100)


def test_undone_work_is_no_result() -> None:
    with pytest.raises(ValueError, match="are done"):
        work.mean_delay_s([row(0.0, 4, 100.0)], [(0.0, 0.0), (50.0, 200.0)])


def test_work_by_the_end_of_each_day() -> None:
    assert work.done_by_day([(0.0, 0.0), (2 * DAY_S, 10.0), (3 * DAY_S, 10.0)], 2.5) == pytest.approx([5.0, 10.0, 10.0])


def test_a_run_that_was_kept_is_not_done_again(tmp_path: Path) -> None:
    runs = []

    def run() -> Outcome:
        runs.append(1)
        return Outcome(1.5, 90.0, {"1-4": [60.0, 180.0]}, 0, 3, 7.0, 89.0, [(0.0, 1)], [1e9, 2e9], 30.0)

    first = kant_table.kept(tmp_path, "core, moves", 0.9, 2.0, 1, run)
    again = kant_table.kept(tmp_path, "core, moves", 0.9, 2.0, 1, run)
    assert len(runs) == 1
    assert kant_table.line("x", [first], 1.0, 8000) == kant_table.line("x", [again], 1.0, 8000)
    assert " 2.0 / - / - / - " in kant_table.line("x", [again], 1.0, 8000)
    kant_table.kept(tmp_path, "core, moves", 0.9, 2.0, 2, run)
    assert len(runs) == 2
    with pytest.raises(ValueError, match="days"):
        kant_table.kept(tmp_path, "core, moves", 0.9, 3.0, 1, run)
