"""The stacked predictor: no look-ahead, one answer however it is asked, intervals that follow what happens."""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.history.index import end_s
from analyzers.types import JobRecord
from predictors.boosted_outcome import kind_of_end
from predictors.conformal import LEVELS, AdaptiveBounds
from predictors.forecast import FORECAST_LEVELS, Forecast
from predictors.stacked import COLUMNS, FIRST_TRAINING_JOBS, StackedDurations, _Asked, events

TREES = 2


def jobs(count: int, seed: int = 0) -> list[JobRecord]:
    """Five users with habits; jobs overlap, wait, hit limits and fail."""
    rng = random.Random(seed)
    made, now_s = [], 0.0
    for number in range(count):
        now_s += rng.expovariate(1 / 200)
        user = rng.randrange(5)
        limit_s = rng.choice((600.0, 3_600.0, 36_000.0))
        ran_s = min(limit_s, max(1.0, math.exp(rng.gauss(4 + user, 0.5))))
        failed = rng.random() < 0.3
        made.append(
            JobRecord(
                job_id=str(number),
                submit_s=now_s,
                duration_s=ran_s * (0.1 if failed else 1.0) + 1.0,
                gpus=rng.choice((1, 2, 16)),
                start_s=now_s + rng.expovariate(1 / 500),
                user=f"u{user}",
                requested_s=limit_s,
                outcome="failed" if failed else "completed",
            )
        )
    return made


@pytest.fixture(scope="module")
def records() -> list[JobRecord]:
    return jobs(FIRST_TRAINING_JOBS + 130)


@pytest.fixture(scope="module")
def forecasts(records: list[JobRecord]) -> list[Forecast | None]:
    return StackedDurations(trees=TREES).replay(records)


def test_asked_one_by_one_it_answers_the_same(records: list[JobRecord], forecasts: list[Forecast | None]) -> None:
    model, answers = StackedDurations(trees=TREES), []
    for kind, number in events(records):
        if kind == "asked":
            unknown = replace(records[number], duration_s=None, start_s=None, end_s=None, outcome=None)
            peeked = model.peek(unknown)
            answers.append(model.ask(unknown))
            assert peeked == answers[-1]
        elif kind == "started":
            model.started(records[number].job_id, records[number].start_s or 0.0)
        else:
            model.observe(records[number])
    assert answers == forecasts
    assert answers[-1].ending is not None  # both boosted models were in use


def test_another_future_changes_no_bit_of_the_past(records: list[JobRecord], forecasts: list[Forecast | None]) -> None:
    """Jobs that had not ended by a moment end otherwise, later jobs are others: what was said by then stands."""
    rng, moment_s = random.Random(7), records[int(0.9 * len(records))].submit_s
    shuffled = [r.duration_s or 0.0 for r in records]
    rng.shuffle(shuffled)

    def poisoned(record: JobRecord, duration_s: float) -> JobRecord:
        if end_s(record) <= moment_s:
            return record
        start_s = record.start_s or 0.0
        if start_s > moment_s:
            start_s += rng.uniform(0, 9_999)
        return replace(
            record,
            start_s=start_s,
            duration_s=max(duration_s, moment_s - start_s + 1.0),
            outcome=rng.choice(("completed", "failed", "cancelled")),
            requested_s=record.requested_s if record.submit_s <= moment_s else 77.0,
        )

    other = [poisoned(record, duration_s) for record, duration_s in zip(records, shuffled, strict=True)]
    said = StackedDurations(trees=TREES).replay(other)
    known = [number for number, record in enumerate(records) if record.submit_s <= moment_s]
    assert any(forecast.ending for n in known if (forecast := forecasts[n]))  # boosted models were in use
    assert [said[n] for n in known] == [forecasts[n] for n in known]
    assert said != forecasts  # the poison was real


def test_only_the_last_jobs_are_forecast_where_that_is_asked(records: list[JobRecord]) -> None:
    said = StackedDurations(trees=TREES).replay(records, calibrate_last=50)
    assert [forecast is None for forecast in said] == [True] * (len(records) - 50) + [False] * 50


def test_forecasts_are_in_order_and_within_the_limit(
    records: list[JobRecord], forecasts: list[Forecast | None]
) -> None:
    for record, forecast in zip(records, forecasts, strict=True):
        assert forecast is not None
        assert list(forecast.values_s) == sorted(forecast.values_s)
        assert 1.0 <= forecast.point_s <= (record.requested_s or math.inf)
        if forecast.ending is not None:
            outcome = forecast.ending.outcome
            assert outcome.completed + outcome.failed + outcome.cancelled + outcome.timeout == pytest.approx(1.0)
            assert 0.0 <= forecast.ending.fails_early <= outcome.failed


def test_a_row_has_a_number_for_every_column(records: list[JobRecord]) -> None:
    model = StackedDurations(trees=TREES)
    model.ask(records[0])
    assert len(model._open[records[0].job_id].row) == len(COLUMNS)


def test_bounds_hold_their_shares_in_every_group_while_everything_changes() -> None:
    rng, bounds = random.Random(3), AdaptiveBounds()
    beyond = {group: [0] * len(LEVELS) for group in ("calm", "wild")}
    rounds = 4_000
    for number in range(rounds):
        for group, spread in (("calm", 0.3), ("wild", 1.0 + 2.0 * (number > rounds // 2))):
            claimed = bounds.quantiles(group, 4.0, 5.0, 6.0)
            truth = rng.gauss(5.2, spread)
            for i, (level, bound) in enumerate(zip(LEVELS, claimed, strict=True)):
                beyond[group][i] += truth < bound if level < 0.5 else truth > bound
            bounds.learn(group, claimed, truth)
    for missed in beyond.values():
        for level, count in zip(LEVELS, missed, strict=True):
            assert count / rounds == pytest.approx(min(level, 1 - level), abs=0.02)


values = st.lists(st.floats(1.0, 1e6), min_size=len(FORECAST_LEVELS), max_size=len(FORECAST_LEVELS)).map(sorted)


@given(values, st.floats(0.0, 2e6))
def test_shares_above_fall_as_time_goes_on(values_s: list[float], seconds: float) -> None:
    forecast = Forecast(values_s[len(LEVELS) // 2], tuple(values_s))
    assert 0.0 <= forecast.share_above(2 * seconds) <= forecast.share_above(seconds) <= 1.0


def test_a_job_killed_at_its_limit_counts_as_a_timeout_whatever_it_is_called(records: list[JobRecord]) -> None:
    failed = replace(records[0], outcome="failed", duration_s=3_600.0, requested_s=3_600.0)
    assert kind_of_end(failed) == "timeout"
    assert kind_of_end(replace(failed, duration_s=10.0)) == "failed"
    assert kind_of_end(replace(failed, outcome=None)) == ""


def test_the_hold_of_jobs_that_go_by_their_own_work_is_judged_apart() -> None:
    model = StackedDurations()
    asked = {
        by_work: _Asked(array("f"), 1.0, None, 1.0, "group", who="ann", by_work=by_work) for by_work in (False, True)
    }
    for _ in range(20):  # boosting knows better than what this user did last, and nothing of what runs of a work tell
        model._hold[True].learn(-0.5, 1.0)
        model._hold[False].learn(0.5, 1.0)
    assert {by_work: model._holds(each) for by_work, each in asked.items()} == {False: True, True: False}


def test_absurd_requests_and_durations_lead_to_finite_forecasts_and_rows() -> None:
    model = StackedDurations(queue_known=False)
    limits = (1e-300, 1e15, None, 60.0)
    told = model.replay(
        [JobRecord(str(n), 1e3 * n, [1.0, 500.0, 1e15][n % 3], gpus=1, requested_s=limits[n % 4]) for n in range(60)]
    )
    for forecast in told:
        assert forecast is not None and all(0.0 < value <= 1.1e15 for value in forecast.values_s)
        assert list(forecast.values_s) == sorted(forecast.values_s)
    assert all(ended.duration_s / ended.asked.scale_s < 1e16 for ended in model._ended)
