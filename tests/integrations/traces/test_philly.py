"""Philly's job log: attempts, machines, and what is missing in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

ATTEMPTS = [
    {
        "start_time": "2017-10-07 01:12:00",
        "end_time": "2017-10-07 01:13:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
    },
    {
        "start_time": "2017-10-07 02:00:00",
        "end_time": "2017-10-07 03:00:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}],
    },
]


def job(**changes: Any) -> dict[str, Any]:
    base = {"status": "Killed", "vc": "v", "jobid": "application_1", "submitted_time": "2017-10-07 01:11:30",
            "user": "u", "attempts": ATTEMPTS}  # fmt: skip
    return {**base, **changes}


def test_attempts_add_up(read) -> None:
    (record,), notes = read(json.dumps([job()]))
    assert (record.gpus, record.nodes, record.attempts) == (4, 2, 2)
    assert (record.duration_s, record.start_s - record.submit_s, record.end_s - record.start_s) == (3660, 30, 6480)
    assert (record.user, record.tenant, record.state, record.outcome) == ("u", "v", "cancelled", "cancelled")
    assert record.submit_s == 1507363890  # Pacific daylight time
    assert "assumed" in notes.header["timezone"]


def test_attempts_follow_each_other_in_the_hour_that_comes_twice(read) -> None:
    """A submission at 1:20 and a start at 1:10 are in the two hours; so are the attempts that follow."""
    clocks = [("01:10", "01:30"), ("01:40", "03:00")]
    attempts = [
        {**each, "start_time": f"2017-11-05 {start}:00", "end_time": f"2017-11-05 {end}:00"}
        for each, (start, end) in zip(ATTEMPTS, clocks, strict=True)
    ]
    (record,), _ = read(json.dumps([job(submitted_time="2017-11-05 01:20:00", attempts=attempts)]))
    assert (record.start_s - record.submit_s, record.duration_s) == (50 * 60, (20 + 80) * 60)


def test_the_zone_can_be_said(read) -> None:
    (record,), _ = read(json.dumps([job()]), timezone="UTC")
    assert record.submit_s == 1507363890 - 7 * 3600


def test_a_job_that_still_ran(read) -> None:
    (record,), _ = read(json.dumps([job(attempts=[ATTEMPTS[0], {**ATTEMPTS[1], "end_time": None}])]))
    assert (record.state, record.duration_s, record.end_s, record.outcome) == ("running", None, None, None)


def test_an_attempt_without_times_is_told(read) -> None:
    (record,), notes = read(json.dumps([job(attempts=[{**ATTEMPTS[0], "start_time": None}, ATTEMPTS[1]])]))
    assert record.duration_s == 3600 and sum(notes.remarks.values()) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"attempts": []}, "no attempt that says how many GPUs"),
        ({"attempts": None}, "no attempt that says how many GPUs"),
        ({"attempts": [{**ATTEMPTS[0], "start_time": None, "end_time": None}]}, "no attempt with start and end"),
        ({"attempts": [{**ATTEMPTS[0], "end_time": "2017-10-07 01:00:00"}]}, "ends before it starts"),
        ({"submitted_time": "None"}, "submit time is missing"),
        ({"submitted_time": "yesterday"}, "a time is neither a number nor an ISO-8601 time"),
    ],
)
def test_what_can_not_be_used_is_counted(read, changes: dict[str, Any], reason: str) -> None:
    records, notes = read(json.dumps([job(**changes), job()]))
    assert len(records) == 1 and notes.skipped == {reason: 1}
