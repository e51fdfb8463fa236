"""Estimates for a replay from the whole walk: said at submission, taught by what runs and what has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analyzers.types import JobRecord, SourceFacts, Submission
from predictors.types import Prediction
from schedmate.pipeline import Pipeline, hints_of
from schedmate.scheduler import Hints, Job
from schedmate.workload import Truth


class WalkedHints:
    """Estimates for a replay that take the whole walk: at submission facts and history give a prediction and hints.

    The history holds exactly the jobs that have ended by then in this very replay, and what runs is known to run, so
    nothing is known early.
    ``predictions`` keeps what was said, by job.
    """

    name = "predicted"
    learns = True

    def __init__(
        self,
        pipeline: Pipeline,
        submissions: Mapping[str, Submission],
        facts: Mapping[str, SourceFacts],
        truth: Mapping[str, Truth],
    ) -> None:
        self._pipeline = pipeline
        self._submissions = submissions
        self._facts = facts
        self._truth = truth
        self.predictions: dict[str, Prediction] = {}

    def job(self, record: JobRecord) -> Job:
        """Predict and hint; the truth is not read here."""
        submission = self._submissions[record.job_id]
        prediction = self._pipeline.predict(submission, self._facts[record.job_id])
        self.predictions[record.job_id] = prediction
        hints = hints_of(prediction)
        return Job(record.job_id, record.gpus, record.submit_s, hints.expected_s, record.requested_s, None, hints)

    def again(self, record: JobRecord, at_s: float) -> Hints:
        """What is predicted of a job that still waits; ``predictions`` keeps what was said when it was submitted."""
        asked = replace(self._submissions[record.job_id], submit_s=at_s)
        return hints_of(self._pipeline.predict(asked, self._facts[record.job_id]))

    def started(self, record: JobRecord, at_s: float) -> None:
        """The job runs from now on; how long it will is not read."""
        job_id = record.job_id
        self._pipeline.record_start(job_id, self._submissions[job_id], self._facts[job_id], start_s=at_s)

    def stopped(self, record: JobRecord, at_s: float) -> None:
        """The job had to leave."""
        self._pipeline.record_stop(record.job_id, at_s=at_s)

    def ended(self, record: JobRecord) -> None:
        """The job has ended: now its outcome is history."""
        truth = self._truth[record.job_id]
        submission = self._submissions[record.job_id]
        self._pipeline.record_outcome(
            record.job_id,
            submission,
            self._facts[record.job_id],
            # It ends now, by the clock of the replay: for ends that seem to be past a predictor has to learn anew.
            start_s=(record.submit_s if record.end_s is None else record.end_s - truth.duration_s),
            duration_s=truth.duration_s,
            outcome=truth.outcome,
            peak_gpu_memory_mib=truth.peak_gpu_memory_mib,
            mean_gpu_utilization=truth.mean_gpu_utilization,
            peak_host_memory_mib=truth.peak_host_memory_mib,
        )
