"""How long a job will run until it ends for whatever reason: similar jobs, shrunk towards priors."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.ports import HistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from predictors.mixture import Mixture, bells, mix
from predictors.prior import Prior, duration_prior
from predictors.types import Quantiles

Similar = Sequence[tuple[JobRecord, float]]
K_SIMILAR = 50
#: A job of similarity s counts s to this power of a job: half as alike is one sixteenth of the evidence.
SIMILARITY_POWER = 4.0
#: Runs of the very same job still differ by about a fifth; around few jobs the bell is wider than around many.
_LEAST_SPREAD = 0.2
_LONE_SPREAD = 1.0


class DurationEstimator:
    """Quantiles of the runtime in seconds.

    ``fit(history)`` keeps the store; ``predict(submission, facts)`` looks up similar jobs in it. With
    ``submission.submit_s`` set, only jobs that had ended by then are used.
    """

    def fit(self, history: HistoryStore) -> DurationEstimator:
        """Take the store to look things up in; what is added to it later counts as well."""
        self.history_ = history
        return self

    def predict(self, submission: Submission, facts: SourceFacts) -> Quantiles:
        """Quantiles p10, p50, p90, p99 in seconds, never above ``submission.limit_s``."""
        similar = self.history_.similar(submission, facts.fingerprint, k=K_SIMILAR, before_s=submission.submit_s)
        prior = duration_prior(submission, facts)
        return duration_distribution(similar, prior).quantiles(submission.limit_s)


def evidence(similar: Similar) -> list[float]:
    """How many jobs' worth each similar job counts, 0..1."""
    return [score**SIMILARITY_POWER for _, score in similar]


def duration_distribution(similar: Similar, prior: Prior) -> Mixture:
    """Similar jobs' durations, each a bell, mixed with the prior by the evidence behind either."""
    weights = evidence(similar)
    total = sum(weights)
    if total <= 0:
        return prior.mixture
    spread = (_LEAST_SPREAD**2 + _LONE_SPREAD**2 / (1.0 + total)) ** 0.5
    durations = [record.duration_s or 0.0 for record, _ in similar]
    return mix([bells(durations, [spread] * len(durations), weights), prior.mixture])
