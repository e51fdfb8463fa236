"""How a job will end, by gradient boosting of the same rows that durations are predicted from.

Log loss is a proper score: what minimises it are the probabilities themselves, so few and small trees are calibrated as
they are; how well is measured (docs/prediction.md), not assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord
from predictors.boosted import SMALL_TREES
from predictors.duration import hit_its_limit
from predictors.features import EARLY_S
from predictors.merged_trees import BoostedModels
from predictors.threads import few_threads
from predictors.types import OutcomeProbabilities

_LEAST_OF_A_KIND = 20
_NO_KIND = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job will end. ``fails_early``: the chance that it fails within `EARLY_S`, part of ``outcome.failed``."""

    outcome: OutcomeProbabilities
    fails_early: float


def kind_of_end(record: JobRecord) -> str:
    """completed, failed, cancelled, timeout, or "" where the history does not say."""
    if record.outcome is None:
        return _NO_KIND
    return "timeout" if hit_its_limit(record) else record.outcome


class BoostedOutcomes:
    """``fit(rows, kinds, duration_s)``, then ``predict(rows)`` -> one `Ending` a row."""

    #: Of the class, so that one that was kept on disk by an earlier release has it too.
    _together: BoostedModels | None = None

    def __init__(self, trees: int = 40, seed: int = 0) -> None:
        self.trees = trees
        self.seed = seed
        self._kinds: Any = None
        self._early: Any = None

    def fit(self, rows: NDArray[np.float32], kinds: list[str], duration_s: NDArray[np.float64]) -> BoostedOutcomes:
        """``rows`` (jobs, numbers), ``kinds`` as `kind_of_end` says (jobs,), ``duration_s`` (jobs,)."""
        self._kinds = self._early = self._together = None
        named = np.asarray(kinds)
        usual = [kind for kind in np.unique(named) if kind and (named == kind).sum() >= _LEAST_OF_A_KIND]
        used = np.isin(named, usual)
        self._columns = np.flatnonzero(rows.max(axis=0) > rows.min(axis=0)) if len(rows) else np.array([], dtype=int)
        if not usual or self._columns.size == 0:
            return self
        chosen, named = rows[used][:, self._columns], named[used]
        if len(usual) > 1:
            self._kinds = self._fitted(chosen, named)
        early = (named == "failed") & (duration_s[used] <= EARLY_S)
        self._rate = float(early.mean())
        if early.sum() >= _LEAST_OF_A_KIND:
            self._early = self._fitted(chosen, early)
        return self

    @property
    def ready(self) -> bool:
        """Whether the history says how jobs end, in more than one way."""
        return self._kinds is not None

    def predict(self, rows: NDArray[np.float32]) -> list[Ending]:
        """One `Ending` a row; only where `ready`."""
        if self._together is None:
            self._together = BoostedModels([self._kinds] if self._early is None else [self._kinds, self._early])
        shares, *others = self._together.predict(rows[:, self._columns])
        early = others[0][:, 1] if others else np.full(len(rows), self._rate)
        found = []
        for row, fails_early in zip(shares, early, strict=True):
            by_kind = dict.fromkeys(("completed", "failed", "cancelled", "timeout"), 0.0)
            by_kind |= {str(kind): float(share) for kind, share in zip(self._kinds.classes_, row, strict=True)}
            found.append(Ending(OutcomeProbabilities(**by_kind), min(float(fails_early), by_kind["failed"])))
        return found

    def _fitted(self, rows: NDArray[np.float32], classes: NDArray[Any]) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = HistGradientBoostingClassifier(
            max_iter=self.trees,
            learning_rate=0.1,
            random_state=self.seed,
            **SMALL_TREES,
        )
        with few_threads(len(rows)):
            return model.fit(rows, classes)
