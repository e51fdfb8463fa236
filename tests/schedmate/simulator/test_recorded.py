"""The queue that a trace records, and who waits in it, on cases worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from analyzers.types import JobRecord
from schedmate.simulator.recorded import as_recorded
from schedmate.simulator.waiters import MOST_WAITERS, NOBODY, waiters

JOBS = [
    JobRecord("a", 0, 100, 1, start_s=50, user="ann", tenant="lab"),
    JobRecord("b", 10, 40, 4, start_s=110, end_s=170, user="bob"),  # started again: 40 s of work in 60 s
    JobRecord("c", 20, 10, 8, start_s=320, user="ann", eligible_s=300),
    JobRecord("d", 30, 10, 8, user="ann"),
    JobRecord("e", 40, 10, 8, start_s=45, user="eve"),
]
EVERY = {job.job_id for job in JOBS}


def found(jobs: list[JobRecord], played: set[str]) -> dict[str, Any]:
    told = as_recorded(jobs, played)
    assert told is not None
    return told


def test_recorded_waits_by_hand() -> None:
    """Of those that were played and have a start; c was held until 300."""
    told = found(JOBS, EVERY - {"e"})
    assert (told["jobs"], told["of"]) == (3, 4)
    assert told["queueing_s"]["mean"] == pytest.approx((50 + 100 + 20) / 3)
    assert told["jct_s"]["mean"] == pytest.approx((150 + 160 + 30) / 3)
    assert told["bounded_slowdown"]["max"] == pytest.approx(160 / 40)
    assert told["jwtd_s"]["2-4"] == {"jobs": 1, "mean": 100, "p50": 100, "p90": 100, "p99": 100, "max": 100}
    assert [row["name"] for row in told["waiters"]["rows"]] == ["bob", "ann"]


def test_recorded_gpus_in_use_and_waited_for() -> None:
    """One job of 4 GPUs waits for 100 s and runs for 100 s on a cluster of 8."""
    told = as_recorded([JobRecord("a", 0, 100, 4, start_s=100)], {"a"}, 8)
    assert told is not None
    step = told["start_s"][1] - told["start_s"][0]
    assert sum(told["gar"]) * step == pytest.approx(0.5 * (told["end_s"] - 100), rel=0.01)
    assert sum(told["waiting_gpus"]["2-4"]) * step == pytest.approx(400, rel=0.01)
    assert max(told["gar"]) == 0.5


def test_a_trace_without_starts_records_no_queue() -> None:
    assert as_recorded([JobRecord("a", 0, 10, 1)], {"a"}) is None
    assert as_recorded(JOBS, {"d"}) is None


def test_clocks_that_disagree_make_no_wait_negative() -> None:
    told = found([JobRecord("a", 100, 10, 1, start_s=90, end_s=99)], {"a"})
    assert told["queueing_s"]["max"] == told["jct_s"]["max"] == 0


def test_who_waits_most_in_all_comes_first() -> None:
    told = waiters(JOBS, np.array([50.0, 100.0, 30.0, 40.0, 5.0]))
    assert told is not None
    assert (told["by"], told["count"]) == ("user", 3)
    assert told["rows"][0] == {
        "name": "ann", "jobs": 3, "queueing_total_s": 120.0, "queueing_mean_s": 40.0, "queueing_max_s": 50.0,
    }  # fmt: skip


def test_tenants_where_nobody_names_users_and_nothing_where_nobody_is_named() -> None:
    jobs = [JobRecord("a", 0, 1, 1, tenant="lab"), JobRecord("b", 0, 1, 1)]
    told = waiters(jobs, np.array([1.0, 2.0]))
    assert told is not None
    assert told["by"] == "tenant" and [row["name"] for row in told["rows"]] == [NOBODY, "lab"]
    assert waiters([JobRecord("a", 0, 1, 1)], np.array([1.0])) is None


def test_no_more_are_kept_than_make_sense_in_a_report() -> None:
    jobs = [JobRecord(str(i), 0, 1, 1, user=f"u{i}") for i in range(3 * MOST_WAITERS)]
    told = waiters(jobs, np.arange(3.0 * MOST_WAITERS))
    assert told is not None
    assert len(told["rows"]) == MOST_WAITERS and told["count"] == 3 * MOST_WAITERS
