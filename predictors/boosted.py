"""Gradient boosting of the share of its request that a job will use, at a few quantiles.

The share, weighted by the request, and not the seconds: a tree then needs no split to tell that a job of an hour's
limit and one of a day's both end halfway, while the loss stays that of the error in seconds. Where a job has no request
the caller gives a constant for it, which makes it the plain loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictors.merged_trees import BoostedModels
from predictors.threads import few_threads

Floats = NDArray[np.float64]
#: Many small trees that each see few columns, for durations and for how jobs end.
SMALL_TREES: dict[str, Any] = {
    "max_bins": 63, "max_leaf_nodes": 8, "min_samples_leaf": 30, "max_features": 0.3, "early_stopping": False,
}  # fmt: skip
#: 10 and 90 % give the width; between the 40 and 70 % quantile the experts' own answer stands (see `stacked`).
BOOSTED_LEVELS = (0.1, 0.4, 0.7, 0.9)


class BoostedShares:
    """``fit(rows, scale_s, duration_s)``, then ``predict(rows, scale_s)`` -> (jobs, levels) in seconds."""

    #: Of the class, so that one that was kept on disk by an earlier release has it too.
    _together: BoostedModels | None = None

    def __init__(self, trees: int = 80, seed: int = 0) -> None:
        self.trees = trees
        self.seed = seed
        self._models: list[Any] = []

    def fit(self, rows: NDArray[np.float32], scale_s: Floats, duration_s: Floats) -> BoostedShares:
        """``rows`` (jobs, numbers), ``scale_s`` the request in seconds (jobs,), ``duration_s`` what came (jobs,)."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        # A column that never varies tells nothing, and the binning of scikit-learn needs two values.
        self._columns = np.flatnonzero(rows.max(axis=0) > rows.min(axis=0))
        self._models, self._together = [], None
        if self._columns.size == 0:
            return self
        for level in BOOSTED_LEVELS:
            model = HistGradientBoostingRegressor(
                loss="quantile",
                quantile=level,
                max_iter=self.trees,
                learning_rate=0.12,
                random_state=self.seed,
                **SMALL_TREES,
            )
            with few_threads(len(rows)):
                model.fit(rows[:, self._columns], duration_s / scale_s, sample_weight=scale_s / scale_s.mean())
            self._models.append(model)
        return self

    @property
    def ready(self) -> bool:
        """Whether there is anything to predict with."""
        return bool(self._models)

    def predict(self, rows: NDArray[np.float32], scale_s: Floats) -> Floats:
        """Seconds at `BOOSTED_LEVELS`, (jobs, levels), never decreasing along a row."""
        if self._together is None:
            self._together = BoostedModels(self._models)
        shares = np.column_stack(self._together.predict(rows[:, self._columns]))
        return np.sort(np.maximum(shares * scale_s[:, None], 1.0), axis=1)
