"""How a job will end: counts among similar jobs, smoothed by published base rates.

Base rates: Jeon et al. (ATC'19), Philly, shares of jobs: 69.3 % passed, 17.2 % unsuccessful, 13.5 % killed by their
user. Philly had no time limits; with one, the share that hits it comes from the duration's own distribution.
"""

from __future__ import annotations

from predictors.duration import Similar, evidence
from predictors.types import OutcomeProbabilities

_BASE_RATES = {"completed": 0.693, "failed": 0.172, "cancelled": 0.135}
#: Jobs' worth of trust in the base rates.
_PRIOR_JOBS = 3.0
_MAX_TIMEOUT_PRIOR = 0.3
#: A job killed at its limit is recorded as lasting at least this share of it.
_AT_LIMIT = 0.99


def outcome_probabilities(similar: Similar, share_beyond_limit: float) -> OutcomeProbabilities:
    """Dirichlet-smoothed shares.

    ``share_beyond_limit`` is the probability (0..1) that the job would last beyond its limit; 0 without a limit.
    """
    timeout = min(_MAX_TIMEOUT_PRIOR, max(0.0, share_beyond_limit))
    counts = {name: _PRIOR_JOBS * rate * (1.0 - timeout) for name, rate in _BASE_RATES.items()}
    counts["timeout"] = _PRIOR_JOBS * timeout
    for (record, _), weight in zip(similar, evidence(similar), strict=True):
        ended = record.outcome
        if ended is None:
            continue
        limit_s = record.requested_s
        at_limit = limit_s is not None and (record.duration_s or 0.0) >= _AT_LIMIT * limit_s > 0
        counts["timeout" if at_limit and ended in ("failed", "cancelled") else ended] += weight
    total = sum(counts.values())
    return OutcomeProbabilities(**{name: count / total for name, count in counts.items()})
