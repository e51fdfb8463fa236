"""Best-fit packing: worked examples, and an independent plain implementation of the same rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.cluster_types import PoolSpec
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.placement import pack, why_not


def index_with(free: list[int], capacity: int) -> FreeIndex:
    index = FreeIndex(len(free), capacity)
    for node, left in enumerate(free):
        if left < capacity:
            index.take(((node, capacity - left),))
    return index


def plain_pack(free: list[int], capacity: int, gpus: int) -> tuple[tuple[int, int], ...] | None:
    if gpus <= capacity:
        fitting = [(left, node) for node, left in enumerate(free) if left >= gpus]
        return ((min(fitting)[1], gpus),) if fitting else None
    whole = [node for node, left in enumerate(free) if left == capacity][: gpus // capacity]
    if len(whole) < gpus // capacity:
        return None
    shares = [(node, capacity) for node in whole]
    rest = gpus % capacity
    if rest:
        others = [(-left, node) for node, left in enumerate(free) if node not in whole and left >= rest]
        if not others:
            return None
        shares.append((min(others)[1], rest))
    return tuple(shares)


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([8, 8, 8], 3, ((0, 3),)),
        ([8, 5, 3], 3, ((2, 3),)),
        ([8, 5, 5], 4, ((1, 4),)),
        ([8, 2, 8], 16, ((0, 8), (2, 8))),
        ([8, 7, 6, 8], 10, ((0, 8), (3, 2))),
        ([8, 3, 6, 6], 12, ((0, 8), (2, 4))),
        ([8, 3, 3, 3], 12, None),
        ([7, 7, 7, 7], 8, None),
        ([0, 0, 0, 0], 1, None),
    ],
)
def test_worked_examples(free: list[int], gpus: int, expected: tuple[tuple[int, int], ...] | None) -> None:
    assert pack(index_with(free, 8), Demand.plain(gpus)) == expected


@given(st.data(), st.integers(1, 6), st.integers(1, 8))
def test_same_as_the_rule_written_plainly(data: st.DataObject, nodes: int, capacity: int) -> None:
    free = data.draw(st.lists(st.integers(0, capacity), min_size=nodes, max_size=nodes))
    gpus = data.draw(st.integers(1, nodes * capacity))
    shares = pack(index_with(free, capacity), Demand.plain(gpus))
    assert shares == plain_pack(free, capacity, gpus)
    if shares is not None:
        assert sum(taken for _, taken in shares) == gpus
        assert len({node for node, _ in shares}) == len(shares)


@pytest.mark.parametrize(
    ("free", "gpus", "words"),
    [
        ([4, 4], 9, "needs 9 GPUs, 8 of pool p are free"),
        ([4, 4], 5, "needs 5 GPUs on one node; pool p has 8 free, at most 4 on a node"),
        ([8, 7], 15, None),
        ([4, 7], 10, "needs 1 whole free nodes and 2 GPUs on another; 11 GPUs of pool p are free, 0 nodes"),
        ([8, 8], 17, "asks for 17 GPUs, pool p has 16"),
    ],
)
def test_the_reason_names_what_is_missing(free: list[int], gpus: int, words: str | None) -> None:
    index = index_with(free, 8)
    if words is None:
        assert pack(index, Demand.plain(gpus)) is not None
    else:
        assert why_not(PoolSpec("p", len(free), 8), index, Demand.plain(gpus)).startswith(words)
