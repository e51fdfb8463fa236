"""How long a running job still will: what is left of its distribution, and what its log says of its progress."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from predictors.mixture import Mixture, bells, mix
from predictors.types import Quantiles

_Z_80 = 1.2816
_LEAST_SPREAD = 0.05
#: What stands in the log counts for so much of the chance that the run goes on to its end.
_SHARE_OF_PROGRESS = 0.9
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """A job that has run for ``elapsed_s`` seconds. ``left_s``: what its log says is left, in four of five runs within
    ``left_range_s``; None where it does not."""

    elapsed_s: float
    left_s: float | None = None
    left_range_s: tuple[float, float] | None = None


def still_runs(whole: Mixture, running: Running, ends_well: float, limit_s: float | None) -> Quantiles:
    """Quantiles of the seconds from now until it ends for whatever reason, never beyond what ``limit_s`` leaves.

    ``whole``: the runtime as predicted before; ``ends_well``: the probability that a job as this one completes.
    """
    rest = _beyond(whole, running.elapsed_s)
    if running.left_s is not None and running.left_s > 0:
        low, high = running.left_range_s or (0.7 * running.left_s, 1.5 * running.left_s)
        spread = max(_LEAST_SPREAD, float(np.log(max(high, _LEAST_S) / max(low, _LEAST_S))) / (2 * _Z_80))
        goes_on = bells([running.left_s], [spread], [1.0]).scaled(_SHARE_OF_PROGRESS * ends_well)
        # Who does not go on to the end stops before it; when, the distribution tells.
        stops = Mixture(np.minimum(rest.points, np.log(max(running.left_s, _LEAST_S))), rest.weights)
        rest = mix([goes_on, stops.scaled(1.0 - _SHARE_OF_PROGRESS * ends_well)])
    left_s = None if not limit_s else max(_LEAST_S, limit_s - running.elapsed_s)
    return rest.quantiles(left_s)


def _beyond(whole: Mixture, elapsed_s: float) -> Mixture:
    """Seconds left of what lasts longer; who has outlived everything is taken to last as long again."""
    seconds = np.exp(whole.points) - elapsed_s
    going = seconds > 0
    if not going.any() or whole.weights[going].sum() <= 1e-6 * whole.mass:
        return bells([max(_LEAST_S, elapsed_s)], [1.0], [1.0])
    return Mixture(np.log(np.maximum(seconds[going], _LEAST_S)), whole.weights[going])
