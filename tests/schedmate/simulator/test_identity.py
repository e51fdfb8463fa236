"""Which jobs a replay was of."""

from __future__ import annotations

from dataclasses import replace

from analyzers.types import JobRecord
from schedmate.simulator.identity import jobs_key

JOBS = [JobRecord("a", 100.0, 10.0, 1, user="ann"), JobRecord("b", 160.0, 20.0, 8, user="bob")]


def test_other_names_order_and_clock_are_the_same_jobs() -> None:
    renamed = [replace(job, job_id=f"x{job.job_id}", user=None, submit_s=job.submit_s + 1e6) for job in reversed(JOBS)]
    assert jobs_key(renamed) == jobs_key(JOBS)


def test_another_moment_size_runtime_or_number_is_another_trace() -> None:
    for other in ({"submit_s": 101.0}, {"gpus": 2}, {"duration_s": 11.0}, {"duration_s": None}):
        assert jobs_key([replace(JOBS[0], **other), JOBS[1]]) != jobs_key(JOBS)
    assert jobs_key(JOBS[:1]) != jobs_key(JOBS) and len(jobs_key([])) == 16
