"""The one predictor: what was learned from ended jobs, similar jobs, the job's own source, and published figures.

The point is that of `stacked`: experts on the past and on the pace of the source's work, held within boosted quantiles
where a model has been trained, with bounds that follow what happens. Before `WARM_JOBS` jobs have ended the site's own
correct the priors (`site_durations`), and before one has, the priors answer. Memory is arithmetic, corrected in the
same way (`site_peaks`). Similar jobs tell of use and of how jobs end, and are what people are shown.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from threading import Lock

import numpy as np

from analyzers.history.codec import LARGEST_FLOAT, MAX_NUMBER
from analyzers.ports import HistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from predictors import reasons
from predictors.duration import K_SIMILAR
from predictors.forecast import Forecast
from predictors.in_flight import InFlight
from predictors.learner import Learner
from predictors.mixture import Mixture
from predictors.outcome import outcome_probabilities
from predictors.prior import duration_prior
from predictors.remaining import Running, still_runs
from predictors.resources import gpu_utilization
from predictors.stacked import FIRST_TRAINING_JOBS, StackedDurations
from predictors.story import told_together, with_timeout
from predictors.threads import small_matrices
from predictors.types import OutcomeProbabilities, Prediction
from prompts.errors import UserError

#: Changes whenever the same input may give another answer.
MODEL_VERSION = "one-3"
#: From so many ended jobs on their intervals are those that were kept.
WARM_JOBS = FIRST_TRAINING_JOBS
_POINTS = 50
_NORMAL = NormalDist()
_LEAST_FACT_CONFIDENCE = 0.5


class Predictor:
    """``predict(submission, facts)`` from a history and, where there is one, a trained model."""

    def __init__(
        self,
        history: HistoryStore,
        trained: StackedDurations | None = None,
        version: str = "",
        in_flight: InFlight | None = None,
    ) -> None:
        """``version`` names the trained model; it becomes part of what every prediction is marked with. ``in_flight``:
        where starts are told; jobs that have not ended are then known to last at least so long."""
        self.history = history
        self._turn = Lock()  # asking learns: what has ended since, and who is compared with whom
        self._learner = Learner(history, trained, in_flight)
        self._version = f"{MODEL_VERSION}+{version}" if trained is not None and version else MODEL_VERSION

    def predict(self, submission: Submission, facts: SourceFacts, running: Running | None = None) -> Prediction:
        """Predict one job. Several threads may ask; they take turns.

        ``submission.submit_s``, where set, is the moment of asking on the history's clock: only jobs ended by then
        count. ``running``: the job has started; then ``remaining_s`` says how long it still will. `UserError` where a
        number of either is not finite, too large to reckon with, or below 0 where none can be.
        """
        _check_numbers(submission, running)
        with self._turn, small_matrices():
            return self._predict(submission, facts, running)

    def _predict(self, submission: Submission, facts: SourceFacts, running: Running | None) -> Prediction:
        model = self._learner.at(submission.submit_s)
        limit_s = submission.limit_s
        record = as_record(submission, facts, model.latest_s)
        similar = self.history.similar(submission, facts.fingerprint, k=K_SIMILAR, before_s=submission.submit_s)
        prior = duration_prior(submission, facts)
        ends = model.ends_of(record)
        said = None
        if model.ended_jobs >= WARM_JOBS:
            forecast = model.peek(record)
            whole = distribution(forecast)
            told = _outcome(forecast, ends, whole, limit_s)
        else:
            said = model.by_site(record)
            whole = said.around if said is not None else prior.mixture
            told = outcome_probabilities(similar, limit_s, whole.share_above(limit_s) if limit_s else 0.0, ends)
            forecast = None
        early = forecast.ending.fails_early if forecast and forecast.ending else told.failed * model.early_share()
        memory, memory_reason, gpu_fit = self._learner.memory.gpu_mib(submission, facts, record, similar)
        host_memory, host_reason = self._learner.memory.host_mib(submission, facts, record, similar)
        return Prediction(
            duration_s=told_together(whole.quantiles(limit_s), told.timeout, limit_s),
            outcome=told,
            gpu_memory_mib=memory,
            gpu_utilization=gpu_utilization(similar),
            host_memory_mib=host_memory,
            similar_jobs=reasons.shown(similar),
            reasons=(
                *reasons.of_similar(submission, similar),
                *(prior.told if model.ended_jobs else prior.reasons),
                *reasons.of_experts(model.voices(record, said), model.ended_jobs),
                *reasons.of_limit(limit_s, whole, told.timeout),
                memory_reason,
                *([host_reason] if host_reason else []),
            ),
            model_version=self._version,
            warnings=tuple(facts.warnings),
            source=facts.source,
            gpu_fit=gpu_fit,
            fails_early=min(early, told.failed),
            confidence=model.kept_promises(record),
            remaining_s=None if running is None else still_runs(whole, running, told.completed, limit_s),
        )


def predict(submission: Submission, facts: SourceFacts, history: HistoryStore) -> Prediction:
    """One prediction from a history, which is read anew; who predicts often keeps a `Predictor`."""
    return Predictor(history).predict(submission, facts)


def _check_numbers(submission: Submission, running: Running | None) -> None:
    """Of a limit or a moment that is no number, or none that can be, nothing follows but more of the kind."""
    _check_number("limit_s", submission.limit_s, least=0.0)
    _check_number("gpus", submission.gpus, least=0.0, most=MAX_NUMBER)
    _check_number("nodes", submission.nodes, least=0.0, most=MAX_NUMBER)
    _check_number("submit_s", submission.submit_s)
    if running is not None:
        low_s, high_s = running.left_range_s or (None, None)
        _check_number("elapsed_s", running.elapsed_s)
        _check_number("left_s", running.left_s)
        _check_number("left_range_s (low)", low_s)
        _check_number("left_range_s (high)", high_s)


def _check_number(name: str, value: float | None, least: float = -LARGEST_FLOAT, most: float = LARGEST_FLOAT) -> None:
    if value is not None and not least <= value <= most:
        told = value if isinstance(value, float) or abs(value) <= LARGEST_FLOAT else "too large"  # has too many digits
        raise UserError(
            f"the job's {name} is {told}, which is no finite number from {least:g} to {most:g}",
            "correct it or leave it out",
        )


def as_record(submission: Submission, facts: SourceFacts, now_s: float) -> JobRecord:
    """The submission as the record that it would become, without an end; ``now_s`` where it does not say when it is."""
    moment_s = submission.submit_s if submission.submit_s is not None else now_s
    return JobRecord(
        job_id="",
        submit_s=moment_s if math.isfinite(moment_s) else 0.0,
        duration_s=None,
        gpus=submission.gpus or 1,
        user=submission.user,
        tenant=submission.tenant,
        name=submission.name,
        command=submission.command or None,
        gpu_type=submission.gpu_type,
        nodes=submission.nodes,
        requested_s=submission.limit_s,
        fingerprint=facts.fingerprint or None,
        facts={name: fact.value for name, fact in facts.facts.items() if fact.confidence >= _LEAST_FACT_CONFIDENCE},
    )


def distribution(forecast: Forecast) -> Mixture:
    """The forecast as evenly weighted points; beyond its last quantile it falls off as a log-normal would."""
    levels = (np.arange(_POINTS) + 0.5) / _POINTS
    logs = [math.log(forecast.quantile_s(float(level))) for level in levels]
    high, top = forecast.levels[-2], forecast.levels[-1]
    steep = math.log(forecast.values_s[-1] / forecast.values_s[-2]) / (_NORMAL.inv_cdf(top) - _NORMAL.inv_cdf(high))
    tail = math.log(forecast.values_s[-1])
    for place, level in enumerate(levels):
        if level > top:
            logs[place] = tail + steep * (_NORMAL.inv_cdf(float(level)) - _NORMAL.inv_cdf(top))
    return Mixture(np.maximum.accumulate(logs), np.full(_POINTS, 1.0 / _POINTS))


def _outcome(forecast: Forecast, ends: dict[str, float], whole: Mixture, limit_s: float | None) -> OutcomeProbabilities:
    """The boosted probabilities; without them the shares of how jobs ended, and the chance of reaching the limit."""
    if forecast.ending is not None:
        told = forecast.ending.outcome
        return told if limit_s else with_timeout(told, 0.0)
    return with_timeout(OutcomeProbabilities(**ends, timeout=0.0), whole.share_above(limit_s) if limit_s else 0.0)
