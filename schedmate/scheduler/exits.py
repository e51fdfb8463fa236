"""When each node of a pool is expected to be empty if nothing is added: the latest expected end of what runs there."""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import Shares


class Exits:
    """Expected ends by node. ``exit_s``: the latest of each node, -inf where none is known; shape (nodes,)."""

    __slots__ = ("_ends_s", "exit_s")

    def __init__(self, nodes: int) -> None:
        self._ends_s: dict[int, list[float]] = {}
        self.exit_s: NDArray[np.float64] = np.full(nodes, -np.inf)

    @property
    def known(self) -> bool:
        """Whether the expected end of anything is known."""
        return bool(self._ends_s)

    def add(self, shares: Shares, end_s: float) -> None:
        """A job on ``shares`` is expected to end at ``end_s``."""
        for node in {share[0] for share in shares}:
            ends_s = self._ends_s.setdefault(node, [])
            insort(ends_s, end_s)
            self.exit_s[node] = ends_s[-1]

    def remove(self, shares: Shares, end_s: float) -> None:
        """The job that was added like this has gone, or its expected end moves. ``ValueError`` if it was not added."""
        for node in {share[0] for share in shares}:
            ends_s = self._ends_s.get(node, [])
            ends_s.remove(end_s)
            if not ends_s:
                del self._ends_s[node]
            self.exit_s[node] = ends_s[-1] if ends_s else -np.inf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exits) and self._ends_s == other._ends_s

    __hash__ = None  # type: ignore[assignment]
