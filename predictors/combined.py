"""One prediction from all estimators, with the reasons in words."""

from __future__ import annotations

from analyzers.durations import short_duration
from analyzers.ports import HistoryStore
from analyzers.types import SourceFacts, Submission
from predictors.duration import K_SIMILAR, Similar, duration_distribution, evidence, seen_distribution
from predictors.mixture import Mixture
from predictors.outcome import outcome_probabilities
from predictors.prior import duration_prior
from predictors.resources import gpu_memory_mib, gpu_utilization, host_memory_mib
from predictors.types import Prediction, SimilarJob

#: Changes whenever the same input may give another answer.
MODEL_VERSION = "similar-jobs-3"
_SHOWN_SIMILAR = 10
_LEAST_SHOWN_SIMILARITY = 0.2
#: Reasons lighter than these are not worth a line.
_LEAST_TOLD_JOBS = 0.05
_LEAST_TOLD_BEYOND = 0.01


def predict(submission: Submission, facts: SourceFacts, history: HistoryStore) -> Prediction:
    """Predict one job.

    ``submission.submit_s``, where set, is the moment of asking on the history's clock: only jobs ended by then count.
    Similar jobs come from ``history``; without any, facts and published priors answer, with wide intervals.
    """
    similar = history.similar(submission, facts.fingerprint, k=K_SIMILAR, before_s=submission.submit_s)
    prior = duration_prior(submission, facts)
    # The runtime if nothing cut it: quantiles, the chance of a timeout and the reasons all come from this one.
    uncut = duration_distribution(similar, prior, submission.limit_s)
    beyond = uncut.share_above(submission.limit_s) if submission.limit_s else 0.0
    memory, memory_reason, gpu_fit = gpu_memory_mib(submission, facts, similar)
    host_memory, host_reason = host_memory_mib(submission, facts, similar)
    return Prediction(
        duration_s=uncut.quantiles(submission.limit_s),
        outcome=outcome_probabilities(similar, submission.limit_s, beyond),
        gpu_memory_mib=memory,
        gpu_utilization=gpu_utilization(similar),
        host_memory_mib=host_memory,
        similar_jobs=_shown(similar),
        reasons=(
            *_similar_reasons(submission, similar),
            *prior.reasons,
            *_limit_reasons(submission.limit_s, uncut, beyond),
            memory_reason,
            *([host_reason] if host_reason else []),
        ),
        model_version=MODEL_VERSION,
        warnings=tuple(facts.warnings),
        source=facts.source,
        gpu_fit=gpu_fit,
    )


def _shown(similar: Similar) -> tuple[SimilarJob, ...]:
    return tuple(
        SimilarJob(
            record.job_id,
            round(score, 4),
            record.user,
            record.name,
            record.gpus,
            record.duration_s or 0.0,
            record.outcome,
        )
        for record, score in similar[:_SHOWN_SIMILAR]
        if score >= _LEAST_SHOWN_SIMILARITY
    )


def _similar_reasons(submission: Submission, similar: Similar) -> list[str]:
    jobs = sum(evidence(similar))
    seen = seen_distribution(similar, submission.limit_s)
    if seen is None or jobs < _LEAST_TOLD_JOBS:
        return ["no similar job in the history"]
    low, middle, high = (short_duration(float(s)) for s in seen.quantile_s((0.1, 0.5, 0.9)))
    same_user = sum(1 for record, _ in similar if submission.user and record.user == submission.user)
    whose = f", {same_user} of them by {submission.user}" if same_user else ""
    plural = "s" if len(similar) > 1 else ""
    return [
        f"{len(similar)} similar job{plural}{whose}, weighed by how alike and how recent: half end within {middle} "
        f"(80 % between {low} and {high}); together they count as {jobs:.1f} jobs"
    ]


def _limit_reasons(limit_s: float | None, uncut: Mixture, beyond: float) -> list[str]:
    """Why quantiles stand at the limit, and what they would be without it."""
    if not limit_s or beyond < _LEAST_TOLD_BEYOND:
        return []
    median = short_duration(float(uncut.quantile_s((0.5,))[0]))
    return [
        f"limit of {short_duration(limit_s)}: {beyond:.0%} of such jobs would last that long (half of all run "
        f"{median} if not cut), so the upper quantiles are cut at the limit and that share ends in a timeout"
    ]
