"""Small models use one thread while they learn and predict, and leave the setting as it was."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.ensemble
from threadpoolctl import threadpool_info

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from predictors import Predictor, effects
from predictors.boosted import BoostedShares
from predictors.stacked import StackedDurations
from predictors.threads import MANY_ROWS, few_threads, small_matrices


def _threads(user_api: str = "openmp") -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == user_api}


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


def test_small_matrices_use_one_thread_and_leave_the_setting() -> None:
    before = _threads("blas")
    with small_matrices():
        assert _threads("blas") == {1}
    assert _threads("blas") == before


def test_a_prediction_and_a_replay_do_their_algebra_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    inner = effects.cho_factor

    def spied(*args, **keywords):
        seen.append(_threads("blas"))
        return inner(*args, **keywords)

    monkeypatch.setattr(effects, "cho_factor", spied)
    ended = [JobRecord(f"j{i}", 100.0 * i, 50.0 + i % 7, 1, user=f"u{i % 3}", start_s=100.0 * i) for i in range(40)]
    Predictor(MemoryHistoryStore(ended)).predict(
        Submission("python train.py", user="u1", gpus=1, submit_s=9e3), SourceFacts()
    )
    asked = len(seen)
    StackedDurations().replay(ended)
    assert 0 < asked < len(seen)
    assert set(map(frozenset, seen)) == {frozenset({1})}
