"""One prediction from all estimators, with the reasons in words."""

from __future__ import annotations

from analyzers.ports import HistoryStore
from analyzers.types import SourceFacts, Submission
from predictors.duration import K_SIMILAR, Similar, duration_distribution, evidence
from predictors.outcome import outcome_probabilities
from predictors.prior import duration_prior
from predictors.resources import gpu_memory_mib, gpu_utilization, host_memory_mib
from predictors.types import Prediction, Quantiles, SimilarJob

#: Changes whenever the same input may give another answer.
MODEL_VERSION = "similar-jobs-1"
_SHOWN_SIMILAR = 10
_LEAST_SHOWN_SIMILARITY = 0.2


def predict(submission: Submission, facts: SourceFacts, history: HistoryStore) -> Prediction:
    """Predict one job.

    ``submission.submit_s``, where set, is the moment of asking on the history's clock: only jobs ended by then count.
    Similar jobs come from ``history``; without any, facts and published priors answer, with wide intervals.
    """
    similar = history.similar(submission, facts.fingerprint, k=K_SIMILAR, before_s=submission.submit_s)
    prior = duration_prior(submission, facts)
    distribution = duration_distribution(similar, prior)
    duration = distribution.quantiles(submission.limit_s)
    # Of the prior only: similar jobs that hit their limit are counted as such.
    beyond = prior.mixture.share_above(submission.limit_s) if submission.limit_s else 0.0
    memory, memory_reason = gpu_memory_mib(submission, facts, similar)
    return Prediction(
        duration_s=duration,
        outcome=outcome_probabilities(similar, beyond),
        gpu_memory_mib=memory,
        gpu_utilization=gpu_utilization(similar),
        host_memory_mib=host_memory_mib(submission, facts, similar),
        similar_jobs=_shown(similar),
        reasons=(*_similar_reasons(submission, similar, duration), *prior.reasons, memory_reason),
        model_version=MODEL_VERSION,
        warnings=tuple(facts.warnings),
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


def _similar_reasons(submission: Submission, similar: Similar, duration: Quantiles) -> list[str]:
    jobs = sum(evidence(similar))
    if not similar or jobs < 0.05:
        return ["no similar job in the history"]
    durations = sorted(record.duration_s or 0.0 for record, score in similar)
    middle = durations[len(durations) // 2]
    same_user = sum(1 for record, _ in similar if submission.user and record.user == submission.user)
    whose = f", {same_user} of them by {submission.user}" if same_user else ""
    reasons = [
        f"{len(similar)} similar jobs{whose}, worth {jobs:.1f} of the same: half ended within {middle:,.0f} s "
        f"(from {durations[0]:,.0f} to {durations[-1]:,.0f} s)"
    ]
    if submission.limit_s and duration.p99 >= submission.limit_s:
        reasons.append("the upper quantiles are cut at the limit")
    return reasons
