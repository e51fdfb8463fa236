"""The switches above the nodes of a pool. Nodes are numbered so that every group is a run of consecutive numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Groups of nodes, the tightest first: scale-up domain (NVLink-class), nodes under one leaf, spine, superspine switch.
GROUP_LEVELS = ("hbd", "leaf", "spine", "superspine")

#: Everything that a job may ask to be kept inside of, the tightest first.
LEVELS = ("island", "node", *GROUP_LEVELS, "pool")


@dataclass(frozen=True, slots=True)
class Topology:
    """For each level the number of the first node of every group, ascending from 0; empty where there is no such level.

    Groups nest: where a wider one begins, so does a tighter one. ``ValueError`` if they do not.
    """

    hbd: tuple[int, ...] = ()
    leaf: tuple[int, ...] = ()
    spine: tuple[int, ...] = ()
    superspine: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        tighter: tuple[str, frozenset[int]] | None = None
        for level in self.levels:
            starts = self.starts(level)
            if starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
                raise ValueError(f"the {level} groups do not begin at node 0 and ascend")
            if tighter is not None and not tighter[1].issuperset(starts):
                raise ValueError(f"a {level} group begins inside a {tighter[0]} group")
            tighter = level, frozenset(starts)

    @classmethod
    def regular(cls, nodes: int, sizes: dict[str, int]) -> Topology:
        """Groups of ``sizes[level]`` nodes each; the last of a wider group holds what is left."""
        starts: dict[str, tuple[int, ...]] = {}
        wider: Sequence[int] = (0,)
        for level in reversed(GROUP_LEVELS):
            size = sizes.get(level)
            if size is None:
                continue
            if size < 1:
                raise ValueError(f"a {level} group of {size} nodes")
            ends = [*wider[1:], nodes]
            wider = [n for first, end in zip(wider, ends, strict=True) for n in range(first, end, size)]
            starts[level] = tuple(wider)
        return cls(**starts)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that there are, the tightest first."""
        return tuple(level for level in GROUP_LEVELS if self.starts(level))

    def starts(self, level: str) -> tuple[int, ...]:
        """Numbers of the first nodes of the groups of a level."""
        found: tuple[int, ...] = getattr(self, level)
        return found
