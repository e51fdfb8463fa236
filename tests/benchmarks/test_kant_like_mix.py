"""The synthetic mix keeps what it promises: offered load, share of small jobs, limits above runs, determinism."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest

from benchmarks.kant_like import DAY_S, JobRow, jobs, load_mix, predicted_runs

DAYS = 10.0


def gpu_s(rows: Sequence[JobRow]) -> float:
    return sum(row.gpus * row.duration_s for row in rows)


@pytest.fixture(scope="module")
def rows() -> list[JobRow]:
    return jobs(3, load_mix(), DAYS)


def test_offered_load_and_small_share(rows: list[JobRow]) -> None:
    mix = load_mix()
    capacity_gpu_s = mix["cluster"]["nodes"] * mix["cluster"]["gpus_per_node"] * DAYS * DAY_S
    assert gpu_s(rows) / capacity_gpu_s == pytest.approx(0.9, abs=0.005)
    assert gpu_s([r for r in rows if r.gpus <= 4]) / gpu_s(rows) == pytest.approx(0.20, abs=0.005)
    assert {r.gpus for r in rows if 4 < r.gpus < 8} == set()
    assert max(r.gpus for r in rows) == 2048


def test_shares_sum_to_one() -> None:
    mix = load_mix()
    assert math.isclose(sum(size["share"] for size in mix["sizes"]), 1.0)
    small = sum(size["share"] for size in mix["sizes"] if size["gpus"] <= 4)
    assert math.isclose(small, mix["small_gpu_time_share"])


def test_rows_are_possible(rows: list[JobRow]) -> None:
    assert all(a.submit_s <= b.submit_s for a, b in itertools.pairwise(rows))
    assert all(0 <= r.submit_s <= DAYS * DAY_S for r in rows)
    assert all(10 <= r.duration_s <= r.limit_s for r in rows)


def test_more_is_submitted_in_the_afternoon_than_at_night(rows: list[JobRow]) -> None:
    hours = [int(r.submit_s % DAY_S // 3600) for r in rows]
    assert sum(12 <= h < 18 for h in hours) > 1.5 * sum(h < 6 for h in hours)


def test_a_seed_decides_everything() -> None:
    mix = load_mix()
    assert jobs(1, mix, 0.5) == jobs(1, mix, 0.5)
    assert jobs(1, mix, 0.5) != jobs(2, mix, 0.5)


def test_predictions_err_by_the_stated_spread_and_respect_the_limit(rows: list[JobRow]) -> None:
    predicted = predicted_runs(rows, 3, 0.8)
    assert all(p <= r.limit_s for p, r in zip(predicted, rows, strict=True))
    errors = [math.log(p / r.duration_s) for p, r in zip(predicted, rows, strict=True) if r.limit_s > 8 * r.duration_s]
    spread = math.sqrt(sum(e * e for e in errors) / len(errors))
    assert spread == pytest.approx(0.8, abs=0.1)
