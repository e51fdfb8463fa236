"""How a job will end: counts among similar jobs, smoothed by base rates.

Base rates are those of the jobs that ended before, published ones at first. With a time limit, the chance of hitting it
is that of lasting as long, from the duration's own distribution, so that the two answers agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from predictors.duration import Similar, evidence, hit_its_limit, spread
from predictors.features import PUBLISHED_ENDS
from predictors.mixture import MIN_DURATION_S
from predictors.types import OutcomeProbabilities

#: Jobs' worth of trust in the base rates.
_PRIOR_JOBS = 3.0


def outcome_probabilities(
    similar: Similar,
    limit_s: float | None = None,
    share_beyond_limit: float = 0.0,
    base_rates: Mapping[str, float] = PUBLISHED_ENDS,
) -> OutcomeProbabilities:
    """Dirichlet-smoothed shares.

    ``share_beyond_limit`` is the probability (0..1) that the job would last at least ``limit_s``; with a limit it is
    the chance of a timeout, and the other ends share what is left. Without one, similar jobs' timeouts are counted.
    ``base_rates``: shares of completed, failed and cancelled before anything is known of such jobs.
    """
    counts = {name: _PRIOR_JOBS * rate for name, rate in base_rates.items()} | {"timeout": 0.0}
    width = spread(similar) if similar else 0.0
    for (record, _), weight in zip(similar, evidence(similar), strict=True):
        if record.outcome is None:
            continue
        ended = "timeout" if hit_its_limit(record) else record.outcome
        # Only what ends before the limit can end in its own way: short failures still do, long successes do not.
        counts[ended] += weight * (_share_before(record.duration_s or 0.0, limit_s, width) if limit_s else 1.0)
    if not limit_s:
        total = sum(counts.values())
        return OutcomeProbabilities(**{name: count / total for name, count in counts.items()})
    timeout = min(1.0, max(0.0, share_beyond_limit))
    others = sum(counts[name] for name in base_rates)
    shares = {name: (1.0 - timeout) * counts[name] / others for name in base_rates}
    return OutcomeProbabilities(**shares, timeout=timeout)


def _share_before(duration_s: float, limit_s: float, width: float) -> float:
    """The chance that another run of a job that took ``duration_s`` ends before ``limit_s``."""
    deviations = math.log(max(limit_s, MIN_DURATION_S) / max(duration_s, MIN_DURATION_S)) / width
    return 0.5 * (1.0 + math.erf(deviations / math.sqrt(2.0)))
