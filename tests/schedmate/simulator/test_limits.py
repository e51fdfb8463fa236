"""A replay ends jobs at their requested time, and tells what that takes from the trace."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec, Job
from schedmate.simulator import Estimates, Perfect, Requested, simulate
from schedmate.simulator.limits import Cut, cut_at_limits, within_limit
from schedmate.simulator.warm_start import left_of, warm_start

LATE = JobRecord("late", 0.0, 300.0, 4, requested_s=100.0)
NEXT = JobRecord("next", 1.0, 10.0, 4, requested_s=20.0)


@pytest.mark.parametrize("policy", ["fifo", "easy", "core", "srtf"])
@pytest.mark.parametrize("estimates", [Perfect, Requested])
def test_a_job_that_ran_for_longer_is_ended_at_what_it_asked(policy: str, estimates: type[Estimates]) -> None:
    result = simulate([LATE, NEXT], ClusterSpec.uniform(1, 4), policy, estimates())
    ends = dict(zip(result.job_ids, result.end_s.tolist(), strict=True))
    work = dict(zip(result.job_ids, result.work_s.tolist(), strict=True))
    assert work == {"late": 100.0, "next": 10.0}
    if policy != "srtf":  # which evicts the first for the second
        assert ends == {"late": 100.0, "next": 110.0}


def test_the_scheduler_is_told_the_request_and_not_the_runtime() -> None:
    told: dict[str, Job] = {}

    class Noting(Requested):
        def job(self, record: JobRecord) -> Job:
            told[record.job_id] = super().job(record)
            return told[record.job_id]

    simulate([LATE, NEXT], ClusterSpec.uniform(1, 4), "easy", Noting())
    assert told["late"].limit_s == told["late"].estimate_s == 100.0


@given(st.floats(0, 1e6), st.none() | st.floats(0, 1e6), st.none() | st.integers(1, 5))
def test_nothing_runs_beyond_its_limit_and_nothing_else_changes(
    duration_s: float, requested_s: float | None, attempts: int | None
) -> None:
    record = JobRecord("j", 0.0, duration_s, 1, requested_s=requested_s, attempts=attempts)
    played = within_limit(record)
    limit_s = requested_s * (attempts or 1) if requested_s else None
    assert played.duration_s == (duration_s if limit_s is None else min(duration_s, limit_s))
    assert replace(played, duration_s=duration_s) == record


def test_what_is_cut_is_counted() -> None:
    assert cut_at_limits([LATE, NEXT]) == Cut(1, 200 * 4 / (310 * 4))
    assert cut_at_limits([NEXT]) == Cut(0, 0.0)
    assert cut_at_limits([]) == Cut(0, 0.0)


@pytest.mark.parametrize(("begin_s", "left_s"), [(30.0, 70.0), (150.0, 0.0)])
def test_what_ran_at_the_beginning_is_ended_at_its_limit_too(begin_s: float, left_s: float) -> None:
    warm, _ = warm_start([replace(LATE, start_s=0.0)], begin_s, 1_000.0)
    assert left_of(warm.running[0], warm).duration_s == left_s
