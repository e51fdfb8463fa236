"""What a replay tells the predictor as it goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from analyzers.history import MemoryHistoryStore
from analyzers.types import SourceFacts
from schedmate.demo.history import WalkedHints
from schedmate.pipeline import Pipeline
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import simulate
from schedmate.workload import SemanticGenerator, WorkloadSpec
from schedmate.workload.records import record_of, submission_of


def test_jobs_end_by_the_clock_of_the_replay(tmp_path: Path) -> None:
    """On a cluster with a queue: not when they would have ended had they started at once."""
    jobs = [job for job in SemanticGenerator(WorkloadSpec(seed=3, jobs=30)).jobs() if job.ask.gpus <= 8]
    store = MemoryHistoryStore()
    estimates = WalkedHints(
        Pipeline(store),
        {job.ask.job_id: replace(submission_of(job.ask, tmp_path), workdir=None) for job in jobs},
        {job.ask.job_id: SourceFacts() for job in jobs},
        {job.ask.job_id: job.truth for job in jobs},
    )
    result = simulate([record_of(job.ask, job.truth) for job in jobs], ClusterSpec.uniform(1, 8), "core", estimates)
    assert result.waiting_s.max() > 0
    played = dict(zip(result.job_ids, result.end_s, strict=True))
    told = [(record.job_id, (record.start_s or 0.0) + (record.duration_s or 0.0)) for record in store.records()]
    assert len(told) == len(played)
    assert all(abs(end_s - played[job]) < 1e-3 for job, end_s in told)
