"""Submission -> facts -> prediction -> hints -> outcome: the one place where the rooms meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analyzers.ports import HistoryStore
from analyzers.types import Diagnosis, Fact, JobRecord, Outcome, SourceFacts, Submission
from prompts.errors import UserError
from schedmate.ports import TraceNotes

if TYPE_CHECKING:
    from predictors import OnlineDurationPredictor, Predictor
    from predictors.in_flight import InFlight
    from predictors.remaining import Running
    from predictors.types import Assumed, Prediction
    from schedmate.config import Settings
    from schedmate.scheduler import Hints

#: Facts less sure than this are not remembered with a job.
_LEAST_CONFIDENCE = 0.5


class Pipeline:
    """Takes a job through its life: what it is, what it will do, what the scheduler should know, how it ended."""

    def __init__(
        self, history: HistoryStore, settings: Settings | None = None, *, model_within_s: float | None = None
    ) -> None:
        """``model_within_s``: how many seconds a reading of source may wait for the configured language model; None:
        it is not asked."""
        self.history = history
        self._settings = settings
        self._model_within_s = model_within_s
        self._predictor: Predictor | None = None
        self._in_flight: InFlight | None = None
        self._promoted = ""
        #: Why the trained model is not used, in one line; empty where it is, or where there is none.
        self.warning = ""

    def facts(self, submission: Submission) -> SourceFacts:
        """What source and launch command say, as far as the settings let them be read; nothing without a work dir."""
        if submission.workdir is None:
            return SourceFacts()
        from schedmate.source import read_source, sharpened

        facts = read_source(submission, self._settings)
        if self._model_within_s is None:
            return facts
        return sharpened(facts, submission, self._settings, within_s=self._model_within_s)

    def predict(
        self, submission: Submission, facts: SourceFacts | None = None, running: Running | None = None
    ) -> Prediction:
        """The calibrated prediction; ``facts`` may be passed in where they are known already.

        What the submission leaves open is taken from what the launch asks for, and told in ``assumed``. ``running``:
        the job has started, and how long it still will is wanted too.
        """
        known = facts if facts is not None else self.facts(submission)
        asked, assumed = with_launch_request(submission, known)
        prediction = self._one_predictor().predict(asked, known, running)
        told = (self.warning,) if self.warning else ()
        return replace(prediction, assumed=assumed, warnings=(*prediction.warnings, *told))

    def _one_predictor(self) -> Predictor:
        """Made at the first prediction, and anew when another model was promoted; it learns on from the history."""
        from schedmate.training import model_in_use, promoted_version

        version = promoted_version(self._settings)
        if self._predictor is None or version != self._promoted:
            from predictors import Predictor

            model, known, self.warning = model_in_use(self._settings)
            self._predictor = Predictor(self.history, model, known, in_flight=self._starts())
            self._promoted = version
        return self._predictor

    def _starts(self) -> InFlight:
        """Where starts are kept: in memory, whatever model is promoted."""
        if self._in_flight is None:
            from predictors.in_flight import InFlight

            self._in_flight = InFlight()
        return self._in_flight

    def hints(self, submission: Submission, facts: SourceFacts | None = None) -> Hints:
        """What the scheduler is told: expected and high runtime. Untrusted there; never more than the hard limit."""
        return hints_of(self.predict(submission, facts))

    def diagnose(self, path: Path) -> Diagnosis:
        """Why the job that left this log, or folder of logs, failed."""
        from analyzers.failures import diagnose

        return diagnose(path)

    def record_start(self, job_id: str, submission: Submission, facts: SourceFacts, *, start_s: float) -> None:
        """A job has started, on the clock of ``submit_s``, or again after `record_stop`.

        Until `record_outcome` is told of the same id the predictions know that it lasts at least so long. Nothing of it
        is written to the history; at most 10,000 starts are kept, and jobs far past their limit are taken for lost.
        """
        from predictors.predictor import as_record

        asked, _ = with_launch_request(submission, facts)
        self._starts().started(replace(as_record(asked, facts, start_s), job_id=job_id), start_s)

    def record_stop(self, job_id: str, *, at_s: float) -> None:
        """A job had to leave its GPUs and waits again. One whose start nobody told is passed over."""
        self._starts().stopped(job_id, at_s)

    def forget_start(self, job_id: str) -> None:
        """A job was taken back or lost: that it ran counts no more. One whose start nobody told is passed over."""
        self._starts().dropped(job_id)

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
        asked, _ = with_launch_request(submission, facts)
        record = JobRecord(
            job_id=job_id,
            submit_s=submission.submit_s if submission.submit_s is not None else start_s,
            duration_s=duration_s,
            gpus=asked.gpus or 1,
            start_s=start_s,
            user=submission.user,
            tenant=submission.tenant,
            name=asked.name,
            command=submission.command or None,
            gpu_type=asked.gpu_type,
            nodes=asked.nodes,
            requested_s=asked.limit_s,
            outcome=outcome,
            fingerprint=facts.fingerprint or None,
            facts={name: fact.value for name, fact in facts.facts.items() if fact.confidence >= _LEAST_CONFIDENCE},
            peak_gpu_memory_mib=peak_gpu_memory_mib,
            mean_gpu_utilization=mean_gpu_utilization,
            peak_host_memory_mib=peak_host_memory_mib,
        )
        self.history.add([record])
        self._starts().ended(job_id, start_s + duration_s)
        return record


def hints_of(prediction: Prediction) -> Hints:
    """The part of a prediction that the scheduler uses; its confidence is how often what was told this user held."""
    from predictors.features import EARLY_S
    from schedmate.scheduler import Hints

    duration, outcome = prediction.duration_s, prediction.outcome
    return Hints(
        expected_s=duration.p50,
        high_s=duration.p90,
        source=prediction.model_version,
        confidence=prediction.confidence,
        failure_probability=min(1.0, outcome.failed),
        fails_early=min(1.0, prediction.fails_early),
        early_s=EARLY_S,
    )


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
    from schedmate.repeats import jobs_once
    from schedmate.traces import open_trace, read_head

    if read_head(path).lstrip().startswith(b"{"):
        store = FileHistoryStore(path)
        if not len(store):
            raise UserError(f"{path}: no readable job record in it", "fill it with `schedmate history import TRACE`")
        return store, None
    return jobs_once(lambda: open_trace(path), lambda records, _: MemoryHistoryStore(records))


def local_history() -> HistoryStore:
    """The store that ``history.store`` names; it may still be empty."""
    from analyzers.history import FileHistoryStore
    from schedmate.config import load_settings

    return FileHistoryStore(load_settings().path("history.store"))


def with_launch_request(submission: Submission, facts: SourceFacts) -> tuple[Submission, tuple[Assumed, ...]]:
    """The submission, completed by what its launch asks for, and what was so assumed.

    What the submission says goes first, then what the launch asks the scheduler for, then (for GPUs) what launcher and
    source start on. The memory asked for is told as well, although a submission has no place for it.
    """
    from predictors.types import Assumed

    assumed: list[Assumed] = []

    def assume(name: str, fact: Fact | None) -> None:
        value = fact.value if fact is not None else None
        if fact is not None and isinstance(value, str | int | float) and not isinstance(value, bool):
            place = fact.evidence[0] if fact.evidence else None
            assumed.append(Assumed(name, value, place.file if place else None, place.line if place else None))

    for name in ("gpus", "gpu_type", "nodes", "limit_s", "name"):
        if getattr(submission, name) is None:
            assume(name, facts.request.get(name) or (_started_on(facts) if name == "gpus" else None))
    open_fields: dict[str, Any] = {each.name: each.value for each in assumed}
    assume("memory_mib", facts.request.get("memory_mib"))
    return replace(submission, **open_fields), tuple(assumed)


def _started_on(facts: SourceFacts) -> Fact | None:
    """The GPUs that launcher and source start on, where they are sure enough and there are any."""
    value = facts.value("num_gpus")
    return facts.facts["num_gpus"] if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
