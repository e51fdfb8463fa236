"""The trees of several boosted models of scikit-learn, walked together: a single row costs a fraction of a millisecond.

For a single row scikit-learn checks its input for each model and starts its threads for each tree, which takes
milliseconds. Here all trees stand in one table of nodes and go down one level at a time, all at once. The answers are
the same to the last bit: each model's leaves are summed in the order in which it sums them.

What is read of a fitted model (``_predictors``, ``_baseline_prediction``, ``_loss``) is no part of scikit-learn's
promises, so nothing is taken for granted: models that do not look as expected, or do not answer as what is made of
them does, are asked themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictors.threads import few_threads

Floats = NDArray[np.float64]
#: Up to so many rows are walked; for more, the compiled loop of scikit-learn is the faster one.
FEW_ROWS = 16
#: So many made rows, many of their numbers at the very thresholds, are answered both ways before a walk is trusted.
_TRIED_ROWS = 64
_SHARE_AT_THRESHOLDS, _SHARE_MISSING = 0.7, 0.1


class BoostedModels:
    """Fitted `HistGradientBoostingRegressor` and `HistGradientBoostingClassifier` of the same features, asked together.

    Their trees are merged when a few rows are first asked about. A copy, or what is kept on disk, is of the models.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self._models = tuple(models)
        self._merged: MergedTrees | None = None
        self._tried = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_models": self._models, "_merged": None, "_tried": False}

    def predict(self, rows: NDArray[Any]) -> list[Floats]:
        """Of each model its ``predict``, (rows,), or ``predict_proba`` where it has one, (rows, classes).

        ``rows``: (rows, features), NaN where not known.
        """
        if len(rows) <= FEW_ROWS:
            if not self._tried:
                self._merged, self._tried = merged(self._models), True
            if self._merged is not None and rows.shape[1:] == (self._merged.width,):
                return self._merged.predict(rows)
        return _asked(self._models, rows)


@dataclass(frozen=True, slots=True)
class MergedTrees:
    """The nodes of all trees, numbered through. A leaf leads to itself."""

    feature: NDArray[np.intp]
    threshold: Floats
    missing_right: NDArray[np.bool_]
    #: The left and the right one of each node, one after the other.
    children: NDArray[np.intp]
    value: Floats
    #: Outputs x trees, of fewer filled up with trees of a single leaf that adds nothing; a classifier of more than two
    #: classes has an output for each.
    roots: NDArray[np.intp]
    #: Of each output, before its first tree.
    baseline: Floats
    #: How many features a row has: of another number scikit-learn says so, the walk would read the next row's.
    width: int
    #: The most steps from a root to a leaf.
    depth: int
    #: Of each model what makes its answer of its outputs, and which those are.
    losses: tuple[Any, ...]
    outputs: tuple[slice, ...]

    def predict(self, rows: NDArray[Any]) -> list[Floats]:
        """As `BoostedModels.predict`."""
        raw = self._raw(np.ascontiguousarray(rows, dtype=np.float64))
        return [
            loss.predict_proba(raw[:, at]) if hasattr(loss, "predict_proba") else loss.link.inverse(raw[:, at].ravel())
            for loss, at in zip(self.losses, self.outputs, strict=True)
        ]

    def _raw(self, rows: Floats) -> Floats:
        """Rows x outputs."""
        count, width = rows.shape
        numbers, missing = rows.ravel(), bool(np.isnan(rows).any())
        begins = (np.arange(count) * width)[:, None, None]
        at = np.broadcast_to(self.roots, (count, *self.roots.shape))
        for _ in range(self.depth):
            number = numbers[begins + self.feature[at]]
            right = number > self.threshold[at]
            if missing:
                right |= np.isnan(number) & self.missing_right[at]
            at = self.children[2 * at + right]
        leaves = self.value[at]
        leaves[:, :, 0] += self.baseline
        return np.asfortranarray(leaves.cumsum(axis=2)[:, :, -1])  # one by one: a plain sum is by pairs, and rounds so


def merged(models: Sequence[Any]) -> MergedTrees | None:
    """The trees of fitted models in one; None where these are not laid out as expected, or the answers differ."""
    try:
        found = _read(models)
        rows = _rows_to_try(found)
        alike = all(map(np.array_equal, found.predict(rows), _asked(models, rows)))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # of another release
        return None
    return found if alike else None


def _asked(models: Sequence[Any], rows: NDArray[Any]) -> list[Floats]:
    with few_threads(len(rows)):
        return [
            model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows) for model in models
        ]


def _read(models: Sequence[Any]) -> MergedTrees:
    """`ValueError`, or what a missing attribute or field raises, where a model is not as expected."""
    if any(model.is_categorical_ is not None for model in models):
        raise ValueError("categories are compared in another way")
    by_output = [
        [trees[output].nodes for trees in model._predictors]
        for model in models
        for output in range(model.n_trees_per_iteration_)
    ]
    lone_leaf = np.zeros(1, dtype=by_output[0][0].dtype)
    lone_leaf["is_leaf"] = 1
    longest = max(len(trees) for trees in by_output)
    trees = [tree for each in by_output for tree in (*each, *[lone_leaf] * (longest - len(each)))]
    sizes = np.array([len(tree) for tree in trees])
    begins = np.cumsum(sizes) - sizes
    nodes, begin_of, place = np.concatenate(trees), np.repeat(begins, sizes), np.arange(sizes.sum())
    leaf = nodes["is_leaf"].astype(bool)
    children = np.column_stack([np.where(leaf, place, begin_of + nodes[side]) for side in ("left", "right")])
    roots = begins.reshape(len(by_output), longest)
    widths = np.cumsum([0, *(model.n_trees_per_iteration_ for model in models)]).tolist()
    return MergedTrees(
        feature=np.where(leaf, 0, nodes["feature_idx"]),
        threshold=nodes["num_threshold"].copy(),
        missing_right=nodes["missing_go_to_left"] == 0,
        children=children.ravel(),
        value=nodes["value"].copy(),
        roots=roots,
        baseline=np.concatenate([model._baseline_prediction.ravel() for model in models]),
        width=models[0].n_features_in_,
        depth=_depth(children, leaf, begins),
        losses=tuple(model._loss for model in models),
        outputs=tuple(slice(low, high) for low, high in pairwise(widths)),
    )


def _depth(children: NDArray[np.intp], leaf: NDArray[np.bool_], roots: NDArray[np.intp]) -> int:
    """The most steps from a root to a leaf; `ValueError` where a way does not end."""
    reached, depth = roots[~leaf[roots]], 0
    while len(reached):
        below = children[reached].ravel()
        reached, depth = np.unique(below[~leaf[below]]), depth + 1
        if depth > len(leaf):
            raise ValueError("a node leads back to itself")
    return depth


def _rows_to_try(trees: MergedTrees) -> Floats:
    """Made rows, the same ones every time."""
    draws = np.random.default_rng(0)
    rows = draws.normal(0.0, 10.0, (_TRIED_ROWS, trees.width))
    inner = np.flatnonzero(trees.children[::2] != np.arange(len(trees.value)))
    for feature in np.unique(trees.feature[inner]):
        known = trees.threshold[inner[trees.feature[inner] == feature]]
        at = draws.random(_TRIED_ROWS) < _SHARE_AT_THRESHOLDS
        rows[at, feature] = draws.choice(known, int(at.sum()))
    rows[draws.random(rows.shape) < _SHARE_MISSING] = np.nan
    return rows
