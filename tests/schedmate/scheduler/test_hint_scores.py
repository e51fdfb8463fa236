"""What an order is worth, against the sum over all pairs that it is meant to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.hint_scores import Others, ratio

SIZES = st.lists(st.integers(0, 20), max_size=12)


def by_pairs(key: float, size: float, others: list[int]) -> float:
    """Who stands before the other one makes it wait for as long as it takes."""
    return sum(size if key < other else other if key > other else (size + other) / 2 for other in others)


@given(SIZES, st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12))
def test_the_waiting_is_that_of_all_pairs(others: list[int], judged: list[tuple[int, int]]) -> None:
    keys, sizes = np.array(judged, dtype=float).T
    found = Others([float(each) for each in others]).waiting(keys, sizes)
    assert found == pytest.approx([by_pairs(key, size, others) for key, size in judged])


@given(SIZES, st.lists(st.integers(0, 20), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_no_order_is_better_than_the_true_one(others: list[int], sizes: list[int], random: object) -> None:
    true = np.array(sizes, dtype=float)
    shuffled = true.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    among = Others([float(each) for each in others])
    assert (among.waiting(true, true) <= among.waiting(shuffled, true) + 1e-9).all()


def test_below_one_is_better_and_nothing_is_no_ratio() -> None:
    sizes = np.array([1.0, 100.0])
    among = Others([10.0, 10.0])
    assert ratio(among, sizes, sizes[::-1], sizes) == pytest.approx((2 * 1 + 2 * 10) / (2 * 10 + 2 * 100))
    assert ratio(among, sizes, sizes, sizes) == 1.0
    assert ratio(Others([]), sizes, sizes, sizes) is None
    assert ratio(Others([0.0]), sizes * 0, sizes * 0, sizes * 0) is None
