"""How long one job will run, as quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np

from predictors.boosted_outcome import Ending
from predictors.conformal import LEVELS

#: Quantiles of the published intervals with the point prediction in the middle.
FORECAST_LEVELS = (*LEVELS[: len(LEVELS) // 2], 0.5, *LEVELS[len(LEVELS) // 2 :])


@dataclass(frozen=True, slots=True)
class Forecast:
    """``values_s`` at ``levels``: seconds, never decreasing. ``point_s``: what to plan with, the 50 % quantile.

    ``ending``: how it will end, where the history says how jobs do.
    """

    point_s: float
    values_s: tuple[float, ...]
    levels: tuple[float, ...] = FORECAST_LEVELS
    ending: Ending | None = None

    def interval_s(self, share: float) -> tuple[float, float]:
        """The interval that holds ``share`` (0..1) of such jobs, with as many below as above it."""
        return self.quantile_s((1.0 - share) / 2), self.quantile_s((1.0 + share) / 2)

    def quantile_s(self, level: float) -> float:
        """One quantile in seconds, interpolated on the log scale, held at the ends."""
        return exp(float(np.interp(level, self.levels, [log(value) for value in self.values_s])))

    def share_above(self, seconds: float) -> float:
        """The probability of running longer than that; beyond the ends of `levels` the nearest end's."""
        logs = np.asarray([log(value) for value in self.values_s])
        # Equal values (several quantiles at the limit): the last of them counts.
        reached = np.interp(log(max(1.0, seconds)), logs + 1e-12 * np.arange(len(logs)), self.levels)
        return 1.0 - float(reached)
