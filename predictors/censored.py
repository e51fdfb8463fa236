"""What is only known to be at least so large: how far that moves what is expected.

Jobs in flight are *censored* observations: all that is known of the runtime is that it exceeds their age. To leave them
out makes everything look short, since the short ones end first; to take their age for it does so too. Here the
likelihood of such a job is the chance of exceeding its age, which is next to 1, and says nothing, while it is younger
than expected. What follows from a Gaussian prior and such terms is no Gaussian; the nearest one is found by expectation
propagation (Minka, UAI 2001; Rasmussen and Williams 2006, section 3.6, whose derivation this follows).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

from predictors.mixture import Mixture

Floats = NDArray[np.float64]
_ROUNDS = 12
_DAMPED = 0.8
_CLOSE = 1e-3
_LEAST_PRECISION, _LEAST_VARIANCE = 1e-9, 1e-9
_LEAST_MASS = 1e-12
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Censored:
    """Of another value that has the covariances c with these, given all else: its mean grows by c @ ``pulls``, its
    variance falls by c @ ``weights`` @ c. ``middles`` and ``spreads``: what all others say of each one, with noise."""

    pulls: Floats
    weights: Floats
    middles: Floats
    spreads: Floats


def exceeding(mean: Floats, covariance: Floats, noise: float, bounds: Floats, odds: Floats) -> Censored:
    """Values of this Gaussian prior, of which each, with noise of that variance, exceeds its bound, or does so for
    reasons of its own, for which the ``odds`` to one are that.

    The odds keep one that lasts beyond all measure from counting for more than another explanation of it.
    """
    precision = np.full(len(mean), _LEAST_PRECISION)
    shifted = precision * mean
    for _ in range(_ROUNDS):
        left, alone = _joint(mean, covariance, noise, precision, shifted)[2:]
        spread = np.sqrt(left + noise)
        z = (alone - bounds) / spread
        hazard = _density(z) / np.maximum(ndtr(z) + odds, _LEAST_MASS)
        variance = np.clip(left - left**2 / (left + noise) * hazard * (z + hazard), 0.01 * left, left)
        wanted = np.maximum(1.0 / variance - 1.0 / left, _LEAST_PRECISION)
        wanted_shifted = (alone + left / spread * hazard) / variance - alone / left
        moved = np.abs(wanted - precision) * left + np.abs(wanted_shifted - shifted) * np.sqrt(left)
        precision = precision + _DAMPED * (wanted - precision)
        shifted = shifted + _DAMPED * (wanted_shifted - shifted)
        if float(moved.max()) < _CLOSE:
            break
    pulls, weights, left, alone = _joint(mean, covariance, noise, precision, shifted)
    return Censored(pulls, weights, alone, np.sqrt(left + noise))


def _joint(
    mean: Floats, covariance: Floats, noise: float, precision: Floats, shifted: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """(pulls, weights, variance and mean of each value by all terms but its own)."""
    root = np.sqrt(precision)
    factor = cho_factor(np.eye(len(mean)) + root[:, None] * covariance * root[None, :], lower=True)
    weights: Floats = root[:, None] * cho_solve(factor, np.diag(root))
    pulls: Floats = weights @ (shifted / precision - mean)
    middle = mean + covariance @ pulls
    taken = (covariance @ weights * covariance).sum(axis=1)
    variance = np.maximum(np.diag(covariance) - taken, _LEAST_VARIANCE)
    left = 1.0 / np.maximum(1.0 / variance - precision, _LEAST_PRECISION)
    return pulls, weights, left, left * (middle / variance - shifted)


def mean_size_beyond(bounds: Floats) -> Floats:
    """The mean of the absolute value of a standard bell's part beyond each bound."""
    chance = np.maximum(ndtr(-bounds), _LEAST_MASS)
    density = _density(bounds)
    found: Floats = np.where(bounds < 0.0, 2.0 * _DENSITY - density, density) / chance
    return np.maximum(found, bounds)  # so far out that the chance is no number any more it is next to the bound


def _density(z: Floats) -> Floats:
    density: Floats = _DENSITY * np.exp(-0.5 * z * z)
    return density


def outlasting(seen: Mixture, bounds: Floats, weights: Floats, beyond: float) -> Mixture:
    """The distribution of which ``seen`` are the values that are known, its mass being their number, and ``bounds``
    what others, so many as their ``weights``, are known to exceed: each stands for what is larger, in proportion
    (Kaplan and Meier, JASA 1958). What exceeds everything seen lies ``beyond`` the largest."""
    if not len(bounds):
        return seen
    points = np.append(seen.points, max(float(seen.points[-1]), float(bounds.max())) + beyond)
    known = np.append(seen.weights, 0.0)
    order = np.argsort(bounds, kind="stable")
    passed = np.append(0.0, np.cumsum(weights[order]))[np.searchsorted(bounds[order], points, side="left")]
    others = float(weights.sum())
    at_risk = np.cumsum(known[::-1])[::-1] + others - passed
    stays = np.maximum(1.0 - known / np.maximum(at_risk, _LEAST_MASS), 0.0)
    stays[-1] = 0.0
    shares = -np.diff(np.cumprod(stays), prepend=1.0)
    return Mixture(points, np.maximum(shares * (seen.mass + others), _LEAST_MASS))
