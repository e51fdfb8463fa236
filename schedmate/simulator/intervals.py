"""Means of a few replicates with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: 97.5 % quantile of Student's t by degrees of freedom, from 1; beyond the table that of the normal distribution.
_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL_975 = 1.960


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and the 95 % confidence interval of it, which is None with fewer than two values. ``n`` values."""

    mean: float
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Of replicates, at least one, by Student's t distribution."""
        n = len(values)
        mean = math.fsum(values) / n
        if n < 2:
            return cls(mean, None, None, n)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
        half = (_T_975[n - 2] if n - 2 < len(_T_975) else _NORMAL_975) * spread / math.sqrt(n)
        return cls(mean, mean - half, mean + half, n)


def paired_ratio(values: Sequence[float], base: Sequence[float]) -> Interval | None:
    """The mean ratio of replicates to those of the same seeds of a baseline; None where one of these is 0."""
    if not values or len(values) != len(base) or min(base) <= 0:
        return None
    return Interval.of([value / other for value, other in zip(values, base, strict=True)])
