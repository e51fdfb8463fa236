"""The benchmark of first days: what is told is in order of time, and of what runs nothing but that it does."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from analyzers.types import JobRecord
from benchmarks.small_sites import cell, walk
from predictors.types import Quantiles


def burst(count: int) -> list[JobRecord]:
    """Jobs a minute apart, short ones and ones of hours."""
    rng = random.Random(4)
    return [
        JobRecord(
            str(n), 60.0 * n, rng.choice((30.0, 40.0, 9_000.0, 12_000.0)), 1, start_s=60.0 * n, user=f"u{n % 2}",
            requested_s=20_000.0, outcome="completed",
        )
        for n in range(count)
    ]  # fmt: skip


def test_starts_are_worth_something_in_a_burst_and_the_future_changes_nothing() -> None:
    records, at = burst(24), 20
    moment_s = records[at].submit_s
    other = [
        each if each.submit_s + (each.duration_s or 0.0) <= moment_s else replace(each, duration_s=moment_s + 77.0)
        for each in records
    ]
    told, changed = walk(records, tell_starts=True), walk(other, tell_starts=True)
    assert told[: at + 1] == changed[: at + 1]
    blind = walk(records, tell_starts=False)
    assert told[at].p90 > 1_000.0 > blind[at].p90


def test_a_cell_tells_error_ratio_share_inside_width_and_score() -> None:
    told = [Quantiles(1.0, 2.0, 3.0, 4.0), Quantiles(10.0, 20.0, 30.0, 40.0)]
    score = np.log(3.0) + 0.5 * 10.0 * np.log(4.0 / 3.0)
    assert cell(told, np.array([4.0, 10.0]), slice(None)) == f"2.00, 1.00, 50%, x3.0, {score:.2f}"
