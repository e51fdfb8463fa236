"""A distribution of durations as weighted points on the log scale: what similar jobs and priors are mixed into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from predictors.types import Quantiles

#: A standard bell drawn with thirteen weighted points, its tails included: the 99 % quantile must not be cut off.
_BELL = np.linspace(-3.0, 3.0, 13)
_BELL_WEIGHTS = np.exp(-0.5 * _BELL**2) / np.exp(-0.5 * _BELL**2).sum()
#: No job counts as shorter: start-up alone takes this long, and clocks tick in seconds.
MIN_DURATION_S = 1.0
LEVELS = (0.1, 0.5, 0.9, 0.99)
_HAIR = 1e-9
#: No quantile is farther from 1 than this: what is made of absurd numbers is still a number.
_FARTHEST = math.log(1e15)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Points (natural log of seconds) and their weights, any total; sorted by point."""

    points: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def mass(self) -> float:
        """The total weight, in jobs' worth of evidence."""
        return float(self.weights.sum())

    def scaled(self, mass: float) -> Mixture:
        """The same shape with another total weight."""
        return Mixture(self.points, self.weights * (mass / self.mass))

    def quantile_s(self, levels: Sequence[float]) -> NDArray[np.float64]:
        """Quantiles in seconds at ``levels`` (each in 0..1), interpolated between points; within 1e-15 to 1e15."""
        reached = (np.cumsum(self.weights) - 0.5 * self.weights) / self.mass
        return np.exp(np.clip(np.interp(levels, reached, self.points), -_FARTHEST, _FARTHEST))

    def share_above(self, seconds: float) -> float:
        """The probability of lasting at least ``seconds``: the inverse of `quantile_s`, so that both tell one story."""
        reached = (np.cumsum(self.weights) - 0.5 * self.weights) / self.mass
        # A hair below the moment: jobs that end at it exactly (killed at the limit) count as having lasted.
        at = np.log(max(seconds, MIN_DURATION_S)) - _HAIR
        return 1.0 - float(np.interp(at, self.points, reached, left=0.0, right=1.0))

    def quantiles(self, limit_s: float | None) -> Quantiles:
        """The four published quantiles, never decreasing, never above the hard limit."""
        values = np.maximum.accumulate(np.maximum(self.quantile_s(LEVELS), MIN_DURATION_S))
        if limit_s is not None and limit_s > 0:
            values = np.minimum(values, limit_s)
        return Quantiles(*(float(value) for value in values))


def bells(centres_s: Sequence[float], spreads: Sequence[float], weights: Sequence[float]) -> Mixture:
    """Log-normal bells: one around each centre (seconds) with its standard deviation on the log scale."""
    return _shaped(_BELL, centres_s, spreads, weights)


def beyond(bounds_s: Sequence[float], spreads: Sequence[float], weights: Sequence[float]) -> Mixture:
    """What is only known to last at least each bound (seconds): the upper half of a bell that starts there."""
    return _shaped(np.abs(_BELL), bounds_s, spreads, weights)


def _shaped(
    bell: NDArray[np.float64], centres_s: Sequence[float], spreads: Sequence[float], weights: Sequence[float]
) -> Mixture:
    centres = np.log(np.maximum(np.asarray(centres_s, dtype=float), MIN_DURATION_S))
    shapes = np.asarray(spreads, dtype=float)[:, None] * bell[None, :]
    points = (centres[:, None] + shapes).ravel()
    each = np.asarray(weights, dtype=float)[:, None] * _BELL_WEIGHTS[None, :]
    return _sorted(points, each.ravel())


def between(low_s: float, high_s: float, weight: float) -> Mixture:
    """Even on the log scale between two durations: "some time before the end, nobody knows when"."""
    low, high = np.log(max(low_s, MIN_DURATION_S)), np.log(max(high_s, low_s, MIN_DURATION_S))
    return _sorted(np.linspace(low, high, len(_BELL)), np.full(len(_BELL), weight / len(_BELL)))


def mix(parts: Sequence[Mixture]) -> Mixture:
    """All parts together, each with the weight it has."""
    return _sorted(np.concatenate([p.points for p in parts]), np.concatenate([p.weights for p in parts]))


def _sorted(points: NDArray[np.float64], weights: NDArray[np.float64]) -> Mixture:
    order = np.argsort(points, kind="stable")
    return Mixture(points[order], weights[order])
