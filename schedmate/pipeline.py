"""Submission -> facts -> prediction -> hints -> outcome: the one place where the rooms meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.ports import HistoryStore
from analyzers.types import Diagnosis, JobRecord, Outcome, SourceFacts, Submission
from prompts.errors import UserError
from schedmate.ports import TraceNotes

if TYPE_CHECKING:
    from predictors import OnlineDurationPredictor
    from predictors.types import Prediction
    from schedmate.scheduler import Hints

#: Facts less sure than this are not remembered with a job.
_LEAST_CONFIDENCE = 0.5


class Pipeline:
    """Takes a job through its life: what it is, what it will do, what the scheduler should know, how it ended."""

    def __init__(self, history: HistoryStore) -> None:
        self.history = history

    def facts(self, submission: Submission) -> SourceFacts:
        """What source and launch command say; without a work dir nothing is known."""
        if submission.workdir is None:
            return SourceFacts()
        from analyzers.source import analyze

        return analyze(submission)

    def predict(self, submission: Submission, facts: SourceFacts | None = None) -> Prediction:
        """The calibrated prediction; ``facts`` may be passed in where they are known already."""
        from predictors import predict

        known = facts if facts is not None else self.facts(submission)
        return predict(_with_launch_request(submission, known), known, self.history)

    def hints(self, submission: Submission, facts: SourceFacts | None = None) -> Hints:
        """What the scheduler is told: expected and high runtime. Untrusted there; never more than the hard limit."""
        return hints_of(self.predict(submission, facts))

    def diagnose(self, path: Path) -> Diagnosis:
        """Why the job that left this log, or folder of logs, failed."""
        from analyzers.failures import diagnose

        return diagnose(path)

    def record_outcome(
        self,
        job_id: str,
        submission: Submission,
        facts: SourceFacts,
        *,
        start_s: float,
        duration_s: float,
        outcome: Outcome,
        peak_gpu_memory_mib: float | None = None,
        mean_gpu_utilization: float | None = None,
        peak_host_memory_mib: float | None = None,
    ) -> JobRecord:
        """Remember how a job ended, for the next prediction. Times are seconds on the clock of ``submit_s``."""
        record = JobRecord(
            job_id=job_id,
            submit_s=submission.submit_s if submission.submit_s is not None else start_s,
            duration_s=duration_s,
            gpus=_with_launch_request(submission, facts).gpus or 1,
            start_s=start_s,
            user=submission.user,
            tenant=submission.tenant,
            name=submission.name,
            command=submission.command or None,
            gpu_type=submission.gpu_type,
            nodes=submission.nodes,
            requested_s=submission.limit_s,
            outcome=outcome,
            fingerprint=facts.fingerprint or None,
            facts={name: fact.value for name, fact in facts.facts.items() if fact.confidence >= _LEAST_CONFIDENCE},
            peak_gpu_memory_mib=peak_gpu_memory_mib,
            mean_gpu_utilization=mean_gpu_utilization,
            peak_host_memory_mib=peak_host_memory_mib,
        )
        self.history.add([record])
        return record


def hints_of(prediction: Prediction) -> Hints:
    """The part of a prediction that the scheduler uses."""
    from schedmate.scheduler import Hints

    duration = prediction.duration_s
    return Hints(expected_s=duration.p50, high_s=duration.p90, source=prediction.model_version)


def online_predictor(past: Iterable[JobRecord] = ()) -> OnlineDurationPredictor:
    """A fresh predictor for one replay: ``predict(record)`` -> seconds, ``observe(record)`` when the job has ended.

    ``past`` are ended jobs from before the replay, to start warm. `predict` never reads a record's own duration.
    """
    from predictors import OnlineDurationPredictor

    predictor = OnlineDurationPredictor()
    for record in past:
        predictor.predict(record)
        predictor.observe(record)
    return predictor


def open_history(path: Path) -> tuple[HistoryStore, TraceNotes | None]:
    """A history to read: a store file, or any trace (then with its reader's notes). `UserError` if it is neither."""
    from analyzers.history import FileHistoryStore, MemoryHistoryStore
    from schedmate.traces import open_trace, read_head

    if read_head(path).lstrip().startswith(b"{"):
        store = FileHistoryStore(path)
        if not len(store):
            raise UserError(f"{path}: no readable job record in it", "fill it with `schedmate history import TRACE`")
        return store, None
    records, notes = open_trace(path)
    return MemoryHistoryStore(records), notes


def local_history() -> HistoryStore:
    """The store that ``history.store`` names; it may still be empty."""
    from analyzers.history import FileHistoryStore
    from schedmate.config import load_settings

    return FileHistoryStore(load_settings().path("history.store"))


def _with_launch_request(submission: Submission, facts: SourceFacts) -> Submission:
    """The submission with the GPUs that source and launcher ask for, where the request itself does not say."""
    value = facts.value("num_gpus")
    if submission.gpus is not None or isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return submission
    return replace(submission, gpus=value)
