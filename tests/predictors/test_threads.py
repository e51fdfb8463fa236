"""Small models use one thread while they learn and predict, and leave the setting as it was."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.ensemble
from threadpoolctl import threadpool_info

from predictors.boosted import BoostedShares
from predictors.threads import MANY_ROWS, few_threads


def _threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}


def test_one_thread_for_few_rows_and_what_is_configured_for_many() -> None:
    before = _threads()
    with few_threads(10):
        assert _threads() == {1}
    assert _threads() == before
    with few_threads(MANY_ROWS):
        assert _threads() == before


def test_a_model_learns_and_predicts_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    for name in ("fit", "predict"):
        inner = getattr(sklearn.ensemble.HistGradientBoostingRegressor, name)

        def spied(self, *args, inner=inner, **keywords):
            seen.append(_threads())
            return inner(self, *args, **keywords)

        monkeypatch.setattr(sklearn.ensemble.HistGradientBoostingRegressor, name, spied)
    draws = np.random.default_rng(0)
    rows, ones = draws.random((100, 3), dtype=np.float32), np.ones(100)
    BoostedShares(trees=2).fit(rows, ones, draws.random(100)).predict(rows, ones)
    assert seen and set(map(frozenset, seen)) == {frozenset({1})}
