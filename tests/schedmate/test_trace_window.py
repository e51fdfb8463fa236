"""A stretch of a trace: what ran and waited at its beginning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.trace_window import standing, window

RAN = JobRecord("ran", 0, 50, 1, start_s=10)
LONG = JobRecord("long", 0, 500, 2, start_s=20, eligible_s=5)
STILL = JobRecord("still", 5, None, 4, start_s=30, state="running")
QUEUED = JobRecord("queued", 50, 10, 8, start_s=150, eligible_s=120)
PENDING = JobRecord("pending", 60, None, 8, state="pending")
GIVEN_UP = JobRecord("given up", 70, None, 1, end_s=130, state="cancelled")
DARK = JobRecord("dark", 80, 10, 1)
NEW = JobRecord("new", 100, 10, 1, start_s=100)
LATER = JobRecord("later", 200, 10, 1, start_s=200)
ALL = [RAN, LONG, STILL, QUEUED, PENDING, GIVEN_UP, DARK, NEW, LATER]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (RAN, "ended"), (LONG, "running"), (STILL, "running"), (QUEUED, "held"), (PENDING, "waiting"),
        (GIVEN_UP, "waiting"), (DARK, "unknown"), (LATER, "not_submitted"), (NEW, "running"),
    ],
)  # fmt: skip
def test_where_jobs_stand(record: JobRecord, expected: str) -> None:
    assert standing(record, 100) == expected


def test_a_window() -> None:
    found = window(ALL, 100, 200)
    assert [(each.record.job_id, each.ran_s, each.left_s) for each in found.running] == [
        ("long", 80, 420),
        ("still", 70, None),
    ]
    assert [record.job_id for record in found.waiting] == ["queued", "pending", "given up"]
    assert [record.job_id for record in found.arriving] == ["new"]
    assert found.unknown == 1


@given(
    submit=st.integers(0, 50), wait=st.none() | st.integers(0, 50), ran=st.none() | st.integers(0, 50),
    at=st.integers(0, 200),
)  # fmt: skip
def test_a_job_goes_through_its_life_in_order(submit: int, wait: int | None, ran: int | None, at: int) -> None:
    start_s = None if wait is None else float(submit + wait)
    record = JobRecord("a", submit, None if ran is None else float(ran), 1, start_s=start_s)
    order = ["not_submitted", "waiting", "running", "ended"]
    now, later = standing(record, at), standing(record, at + 1)
    if "unknown" not in (now, later):
        assert order.index(now) <= order.index(later)
