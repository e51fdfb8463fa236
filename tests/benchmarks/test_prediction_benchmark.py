"""The benchmark of predictions: what it compares with sees no future either."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analyzers.types import JobRecord
from benchmarks.prediction import coverage_rows, error_row, user_classes
from benchmarks.prediction_baselines import boosted_on_metadata, last_two
from predictors.forecast import Forecast


def job(number: int, submit_s: float, duration_s: float, requested_s: float | None = 5_000.0) -> JobRecord:
    return JobRecord(
        job_id=str(number), submit_s=submit_s, duration_s=duration_s, gpus=1, user="ann", requested_s=requested_s
    )


def test_last_two_knows_only_what_has_ended() -> None:
    records = [job(0, 0, 100), job(1, 50, 300), job(2, 100, 1), job(3, 1_000, 1)]
    assert last_two(records).tolist() == [5_000, 5_000, 100, (1 + 300) / 2]  # in order of their ends


def test_boosting_on_metadata_sees_no_future() -> None:
    rng = np.random.default_rng(0)
    records = [job(n, 100.0 * n, float(rng.exponential(900)), float(rng.choice((600, 3_600)))) for n in range(340)]
    other = [replace(record, duration_s=9.0) if number >= 330 else record for number, record in enumerate(records)]
    here, there = (boosted_on_metadata(each, of_request=True) for each in (records, other))
    assert here is not None
    assert there is not None
    assert (here[:331] == there[:331]).all()
    assert boosted_on_metadata(records[:100], of_request=True) is None


def test_rows_tell_errors_and_coverage_by_part() -> None:
    actual_s = np.array([10.0, 20.0, 60.0])
    assert error_row("x", np.array([10.0, 10.0, 10.0]), actual_s) == "| x | 3 | 20 | 10 | 0 / 10 / 50 |"
    forecast = Forecast(20.0, (5.0, 8.0, 15.0, 20.0, 25.0, 30.0, 70.0))
    rows = coverage_rows([forecast] * 3, actual_s, ["new", "new", "heavy"])
    assert rows[0] == "| all jobs | 3 | 33.3% | 66.7% | 100.0% |"
    assert rows[-1] == "| heavy users | 1 | 0.0% | 0.0% | 100.0% |"


def test_users_are_classed_by_what_had_ended() -> None:
    records = [job(number, 100.0 * number, 50.0) for number in range(120)]
    classes = user_classes(records)
    assert [classes.index(name) for name in ("new", "light", "heavy")] == [0, 10, 100]
    assert user_classes([replace(r, duration_s=1e9) for r in records]) == ["new"] * 120
