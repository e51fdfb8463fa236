"""Merged trees answer as the models do, to the last bit; models that look otherwise are asked themselves."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from predictors.boosted import BoostedShares
from predictors.boosted_outcome import BoostedOutcomes
from predictors.merged_trees import FEW_ROWS, BoostedModels, MergedTrees, merged
from predictors.threads import few_threads

_WIDTH = 6


def _jobs(count: int = 400) -> NDArray[np.float64]:
    """Rows with ties, gaps and numbers of any size."""
    draws = np.random.default_rng(1)
    rows = draws.normal(0.0, 3.0, (count, _WIDTH))
    rows[:, 1] = draws.integers(0, 4, count)
    rows[:, 2] = np.exp(draws.normal(0.0, 40.0, count))
    rows[:, 3] = np.where(draws.random(count) < 0.3, np.inf, rows[:, 3])
    rows[draws.random(rows.shape) < 0.1] = np.nan
    return rows


def _fitted() -> list[Any]:
    """Regressors and classifiers of two and of four classes, with more trees and fewer, one of them without a split."""
    rows = _jobs()
    known = np.nan_to_num(rows, posinf=5.0)
    took = known[:, 0] + known[:, 1] ** 2 + np.random.default_rng(2).normal(size=len(rows))
    kinds = np.digitize(took, np.quantile(took, (0.3, 0.6, 0.8)))
    small: dict[str, Any] = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "early_stopping": False, "random_state": 0}
    return [
        *(
            HistGradientBoostingRegressor(loss="quantile", quantile=level, max_iter=trees, **small).fit(rows, took)
            for level, trees in ((0.1, 20), (0.7, 31))
        ),
        HistGradientBoostingClassifier(max_iter=12, **small).fit(rows, kinds),
        HistGradientBoostingClassifier(max_iter=7, **small).fit(rows, kinds > 1),
        HistGradientBoostingRegressor(max_iter=3, **(small | {"min_samples_leaf": 300})).fit(rows, took),
    ]


@pytest.fixture(scope="module")
def models() -> list[Any]:
    return _fitted()


def _own_answers(models: list[Any], rows: NDArray[Any]) -> list[NDArray[np.float64]]:
    with few_threads(1):
        return [
            each.predict_proba(rows) if isinstance(each, HistGradientBoostingClassifier) else each.predict(rows)
            for each in models
        ]


def _alike(one: list[NDArray[np.float64]], other: list[NDArray[np.float64]]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and (a == b).all() for a, b in zip(one, other, strict=True)
    )


numbers = st.one_of(
    st.floats(-10.0, 10.0), st.floats(), st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 1e300, -1e300])
)


@pytest.fixture(scope="module")
def trees(models: list[Any]) -> MergedTrees:
    found = merged(models)
    assert found is not None
    return found


@given(data=st.data(), count=st.integers(1, FEW_ROWS))
def test_every_answer_is_that_of_the_models_to_the_last_bit(
    models: list[Any], trees: MergedTrees, data: st.DataObject, count: int
) -> None:
    each = st.one_of(numbers, st.sampled_from(trees.threshold.tolist()))
    rows = np.array(data.draw(st.lists(st.lists(each, min_size=6, max_size=6), min_size=count, max_size=count)))
    for asked in (rows, np.asfortranarray(rows), np.clip(rows, -1e30, 1e30).astype(np.float32)):
        assert _alike(trees.predict(asked), _own_answers(models, asked))


def test_the_jobs_that_were_learned_from_too(models: list[Any]) -> None:
    together, rows = BoostedModels(models), _jobs()
    one_by_one = [np.concatenate(each) for each in zip(*(together.predict(row[None]) for row in rows), strict=True)]
    assert _alike(one_by_one, _own_answers(models, rows))
    assert _alike(together.predict(rows), _own_answers(models, rows))
    assert BoostedModels([]).predict(rows[:1]) == []


def test_single_rows_are_walked_and_many_are_not(models: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    together, rows, asked = BoostedModels(models), _jobs(), []
    together.predict(rows[:1])
    for kind in (HistGradientBoostingRegressor, HistGradientBoostingClassifier):
        inner = kind._raw_predict

        def spied(self: Any, rows: NDArray[Any], inner: Any = inner) -> Any:
            asked.append(len(rows))
            return inner(self, rows)

        monkeypatch.setattr(kind, "_raw_predict", spied)
    together.predict(rows[:FEW_ROWS])
    assert not asked
    together.predict(rows[: FEW_ROWS + 1])
    assert asked == [FEW_ROWS + 1] * len(models)


@pytest.mark.parametrize("width", [_WIDTH - 1, _WIDTH + 1])
def test_rows_of_another_width_are_refused_as_the_models_do(models: list[Any], width: int) -> None:
    """A walk would read on in the next row."""
    together = BoostedModels(models)
    for _ in range(2):
        with pytest.raises(ValueError, match="features"):
            together.predict(np.zeros((2, width)))
    assert _alike(together.predict(_jobs(1)), _own_answers(models, _jobs(1)))


def _without_predictors(model: Any) -> None:
    model._predictors = None


def _without_a_field(model: Any) -> None:
    tree = model._predictors[0][0]
    tree.nodes = tree.nodes[[name for name in tree.nodes.dtype.names if name != "missing_go_to_left"]]


def _of_other_values(model: Any) -> None:
    """As if the leaves held something else than what is summed."""
    inner = model.predict
    model.predict = lambda rows: 2.0 * inner(rows)


def _of_other_ties(model: Any) -> None:
    """As if a number at the threshold went right."""
    inner = model.predict
    model.predict = lambda rows: inner(np.nextafter(rows, np.inf))


def _with_a_loop(model: Any) -> None:
    nodes = model._predictors[0][0].nodes
    nodes["left"][~nodes["is_leaf"].astype(bool)] = 0


def _with_categories(model: Any) -> None:
    model.is_categorical_ = np.zeros(_WIDTH, dtype=bool)


@pytest.mark.parametrize(
    "changed",
    [_without_predictors, _without_a_field, _of_other_values, _of_other_ties, _with_a_loop, _with_categories],
)
def test_models_that_are_not_as_expected_are_not_merged(changed: Any) -> None:
    models = _fitted()[:1]
    assert merged(models) is not None
    changed(models[0])
    assert merged(models) is None


@pytest.mark.parametrize("changed", [_of_other_values, _with_categories])
def test_they_are_asked_themselves(changed: Any) -> None:
    models, rows = _fitted()[:2], _jobs()[:3]
    changed(models[1])
    together = BoostedModels(models)
    assert _alike(together.predict(rows), _own_answers(models, rows))
    assert _alike(together.predict(rows), _own_answers(models, rows))


def test_real_categories_are_asked_of_the_models() -> None:
    rows = _jobs()
    rows[:, 1] = np.nan_to_num(rows[:, 1])
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(rows, rows[:, 1] % 2)
    assert merged([model]) is None
    assert _alike(BoostedModels([model]).predict(rows[:2]), [model.predict(rows[:2])])


def test_a_model_fitted_anew_answers_anew_and_none_is_kept_on_disk_twice() -> None:
    draws = np.random.default_rng(3)
    rows = draws.random((300, 4), dtype=np.float32)
    took, scale = draws.random(300) * 1e4, np.full(300, 1e4)
    kinds = ["failed" if row[0] < 0.4 else "completed" for row in rows]
    shares, ends = BoostedShares(trees=4).fit(rows, scale, took), BoostedOutcomes(trees=4).fit(rows, kinds, took)
    size = len(pickle.dumps((shares, ends)))
    one = rows[:1]
    first, ending = shares.predict(one, scale[:1]), ends.predict(one)
    assert len(pickle.dumps((shares, ends))) < 1.01 * size + 500
    copied = pickle.loads(pickle.dumps((shares, ends)))
    assert (copied[0].predict(one, scale[:1]) == first).all() and copied[1].predict(one) == ending
    for each in (shares, ends):  # as an earlier release kept them
        del each.__dict__["_together"]
    older = pickle.loads(pickle.dumps((shares, ends)))
    assert (older[0].predict(one, scale[:1]) == first).all() and older[1].predict(one) == ending
    anew = older[0].fit(rows, scale, took[::-1])
    many = np.repeat(one, FEW_ROWS + 1, axis=0)
    assert (anew.predict(one, scale[:1]) == anew.predict(many, np.repeat(scale[:1], len(many)))[:1]).all()
    assert (anew.predict(one, scale[:1]) != first).any()
    other_ends = older[1].fit(rows, kinds[::-1], took)
    assert other_ends.predict(one) == other_ends.predict(many)[:1] != ending
