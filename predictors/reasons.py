"""Why a prediction is as it is, in words: similar jobs, what the source says, what weighs how much, the limit."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.durations import short_duration
from analyzers.types import Submission
from predictors.duration import Similar, evidence, seen_distribution
from predictors.mixture import Mixture
from predictors.types import SimilarJob

_SHOWN_SIMILAR = 10
_LEAST_SHOWN_SIMILARITY = 0.2
#: Reasons lighter than these are not worth a line.
_LEAST_TOLD_JOBS = 0.05
_LEAST_TOLD_BEYOND = 0.01
_LEAST_TOLD_WEIGHT = 0.05
_TOLD_VOICES = 4


def shown(similar: Similar) -> tuple[SimilarJob, ...]:
    """The most similar jobs with what they really took."""
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


def of_similar(submission: Submission, similar: Similar) -> list[str]:
    """What similar jobs took, as they were weighed."""
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
        f"(80 % between {low} and {high})"
    ]


def of_experts(voices: Sequence[tuple[str, float, float]], jobs: int) -> list[str]:
    """Which of the past and of the source's work weighs most: (name, seconds, weight) of each, the weights sum to 1."""
    if not jobs:
        return []
    loudest = sorted(voices, key=lambda voice: -voice[2])[:_TOLD_VOICES]
    told = [f"{name} {short_duration(s)} ({weight:.0%})" for name, s, weight in loudest if weight >= _LEAST_TOLD_WEIGHT]
    plural = "s" if jobs != 1 else ""
    return [f"weighed by how right each was lately ({jobs:,} ended job{plural} learned from): {', '.join(told)}"]


def of_limit(limit_s: float | None, whole: Mixture, timeout: float) -> list[str]:
    """Why quantiles stand at the limit, and what they would be without it."""
    if not limit_s or timeout < _LEAST_TOLD_BEYOND:
        return []
    median_s = float(whole.quantile_s((0.5,))[0])
    if median_s <= limit_s:
        return [f"limit of {short_duration(limit_s)}: {timeout:.0%} of such jobs end at it in a timeout"]
    return [
        f"limit of {short_duration(limit_s)}: {timeout:.0%} of such jobs would last that long (half of all run "
        f"{short_duration(median_s)} if not cut), so the upper quantiles are cut at the limit and that share ends in a "
        "timeout"
    ]
