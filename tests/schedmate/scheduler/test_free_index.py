"""The index of free GPUs, against plain lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.free_index import FreeIndex, RestrictedView

sizes = st.tuples(st.integers(1, 70), st.integers(1, 9))


def levels_and_masks(free: list[int], capacity: int) -> tuple[int, list[int]]:
    masks = [sum(1 << n for n, f in enumerate(free) if f == level) for level in range(capacity + 1)]
    return sum(1 << level for level, mask in enumerate(masks) if mask), masks


@given(st.data(), sizes)
def test_index_equals_plain_lists_after_any_takes_and_gives(data: st.DataObject, size: tuple[int, int]) -> None:
    nodes, capacity = size
    index, free, taken = FreeIndex(nodes, capacity), [capacity] * nodes, []
    for _ in range(data.draw(st.integers(0, 20))):
        if taken and data.draw(st.booleans()):
            node, gpus = taken.pop(data.draw(st.integers(0, len(taken) - 1)))
            index.give(((node, gpus),))
            free[node] += gpus
        else:
            node = data.draw(st.integers(0, nodes - 1))
            gpus = data.draw(st.integers(1, capacity))
            if gpus > free[node]:
                with pytest.raises(ValueError, match="free GPUs"):
                    index.take(((node, gpus),))
                return
            index.take(((node, gpus),))
            free[node] -= gpus
            taken.append((node, gpus))
        assert index.free == free
        assert (index.levels, index.masks) == levels_and_masks(free, capacity)
        assert index.free_gpus == sum(free)
        assert index.fragmented_nodes() == sum(0 < f < capacity for f in free)


def test_giving_back_more_than_the_node_has_is_refused() -> None:
    index = FreeIndex(2, 4)
    index.take(((1, 2),))
    with pytest.raises(ValueError, match="given back"):
        index.give(((1, 3),))


def test_a_copy_is_independent() -> None:
    index = FreeIndex(3, 4)
    copy = index.copy()
    assert copy == index
    copy.take(((0, 1),))
    assert copy != index
    assert index.free == [4, 4, 4]


@given(st.data(), sizes)
def test_restricted_view_is_the_smaller_of_free_and_cap(data: st.DataObject, size: tuple[int, int]) -> None:
    nodes, capacity = size
    index = FreeIndex(nodes, capacity)
    for node in range(nodes):
        used = data.draw(st.integers(0, capacity))
        if used:
            index.take(((node, used),))
    caps = data.draw(st.dictionaries(st.integers(0, nodes - 1), st.integers(0, capacity)))
    view = RestrictedView(index, caps)
    seen = [min(free, caps.get(node, capacity)) for node, free in enumerate(index.free)]
    levels, masks = levels_and_masks(seen, capacity)
    # Nodes with nothing to use are not listed: no gang asks for nothing.
    assert view.levels & ~1 == levels & ~1
    assert view.masks[1:] == masks[1:]
