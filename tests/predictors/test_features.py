"""The rows that predictions are made from: only what came before, at a cost that does not grow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.types import JobRecord
from predictors.features import NAMES, UNKNOWN, Past, log_s


def job(number: int, submit_s: float, **more: object) -> JobRecord:
    base: dict[str, object] = {"gpus": 2, "user": "ann", "requested_s": 3_600.0, **more}
    return JobRecord(job_id=str(number), submit_s=submit_s, duration_s=None, **base)  # type: ignore[arg-type]


def row(past: Past, record: JobRecord) -> dict[str, float]:
    return dict(zip(NAMES, past.row(record), strict=True))


def test_a_stranger_has_a_request_and_no_past() -> None:
    numbers = row(Past(), job(0, 7_200.0))
    assert (numbers["request"], numbers["size"], numbers["hour"]) == (log_s(3_600), 1.0, 2.0)
    assert {numbers["user: last"], numbers["user: age"], numbers["request: median"]} == {UNKNOWN}


def test_what_has_ended_is_told_by_group() -> None:
    past = Past()
    for number, (duration_s, gpus) in enumerate(((100.0, 2), (200.0, 2), (9_000.0, 4))):
        record = job(number, float(number), gpus=gpus, outcome="completed")
        past.submitted(record)
        past.ended(replace(record, duration_s=duration_s), 10_000.0 + number)
    numbers = row(past, job(9, 20_000.0))
    assert numbers["user: last"] == log_s(9_000)
    assert numbers["user, request and size: last"] == log_s(200)
    assert numbers["user, request and size: before last"] == log_s(100)
    assert numbers["user and size: age"] == log_s(20_000 - 10_001)
    assert numbers["user and name: last"] == UNKNOWN
    assert row(past, job(9, 20_000.0, user="bob"))["request and size: last"] == log_s(200)


def test_jobs_in_flight_are_counted_and_their_time_so_far_is_known() -> None:
    past = Past()
    for number in range(3):
        past.submitted(job(number, 0.0, gpus=2 + number % 2))
    past.started("0", 50.0)
    past.started("1", 10.0)
    numbers = row(past, job(9, 150.0))
    assert (numbers["in flight"], numbers["in flight alike"]) == (3, 2)
    assert numbers["running alike, longest"] == pytest.approx(log_s(100))
    assert numbers["running, longest"] == pytest.approx(log_s(140))
    past.ended(replace(job(1, 0.0, gpus=3), duration_s=140.0), 150.0)
    assert row(past, job(9, 150.0))["in flight"] == 2


def test_of_a_long_array_only_the_newest_are_compared() -> None:
    past = Past()
    for number in range(1_500):
        past.submitted(job(number, 0.0))
    numbers = row(past, job(9_999, 1.0))
    assert (numbers["in flight"], numbers["in flight alike"]) == (1_500, 1_000)
