"""Quantiles and the chance of a timeout are told as one story: a quantile stands at the limit exactly where the chance
of reaching it is at least what that quantile leaves."""

from __future__ import annotations

from dataclasses import replace

from predictors.mixture import LEVELS, MIN_DURATION_S
from predictors.types import OutcomeProbabilities, Quantiles

#: A quantile that the limit does not cut stays below it by this share.
_BELOW = 0.999


def told_together(quantiles: Quantiles, timeout: float, limit_s: float | None) -> Quantiles:
    """The quantiles (seconds) that agree with the chance (0..1) of a timeout at ``limit_s``."""
    if not limit_s:
        return quantiles
    values = (quantiles.p10, quantiles.p50, quantiles.p90, quantiles.p99)
    highest = max(min(MIN_DURATION_S, limit_s), _BELOW * limit_s)
    agreed = (
        limit_s if timeout >= 1.0 - level else min(value, highest) for level, value in zip(LEVELS, values, strict=True)
    )
    return Quantiles(*agreed)


def with_timeout(outcome: OutcomeProbabilities, timeout: float) -> OutcomeProbabilities:
    """The other ends share what ``timeout`` leaves, in the proportions that they have."""
    others = outcome.completed + outcome.failed + outcome.cancelled
    if others <= 0:
        return replace(outcome, completed=1.0 - timeout, timeout=timeout)
    scale = (1.0 - timeout) / others
    return OutcomeProbabilities(
        completed=outcome.completed * scale,
        failed=outcome.failed * scale,
        cancelled=outcome.cancelled * scale,
        timeout=timeout,
    )
