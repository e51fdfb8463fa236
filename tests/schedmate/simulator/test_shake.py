"""Shaken traces: the same jobs, a little earlier or later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.types import JobRecord
from schedmate.simulator import shaken

JOBS = [JobRecord(str(i), submit_s=10.0 * i, duration_s=5.0 + i, gpus=1 + i % 4) for i in range(200)]


def test_only_submissions_move_and_none_too_far() -> None:
    before = {job.job_id: job for job in JOBS}
    after = shaken(JOBS, seed=1, within_s=30.0)
    assert [job.submit_s for job in after] == sorted(job.submit_s for job in after)
    assert len(after) == len(JOBS)
    for job in after:
        old = before[job.job_id]
        assert abs(job.submit_s - old.submit_s) <= 30.0
        assert replace(job, submit_s=old.submit_s) == old
    assert [job.job_id for job in after] != [job.job_id for job in JOBS]


def test_a_seed_decides() -> None:
    assert shaken(JOBS, seed=3) == shaken(JOBS, seed=3)
    assert shaken(JOBS, seed=3) != shaken(JOBS, seed=4)


def test_no_width_changes_nothing_and_a_negative_one_is_refused() -> None:
    assert shaken(JOBS, seed=0, within_s=0.0) == JOBS
    with pytest.raises(ValueError, match="-1"):
        shaken(JOBS, seed=0, within_s=-1.0)
