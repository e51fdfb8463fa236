"""Moves that make broken nodes whole, tried out on a copy of a pool: every moved job has its new place in the copy
before anything is touched.

Two steps do it. *Clearing* empties a node whose jobs all find room on nodes that are broken anyway; *filling* puts a
job of one broken node into a hole of just its size on another. Each leaves fewer broken nodes than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand, Leaning
from schedmate.scheduler.movable import Movable, Mover
from schedmate.scheduler.placement.node import place_on_node
from schedmate.scheduler.placement.one import place_one
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.state import State
from schedmate.scheduler.types import Reservation

Bools = NDArray[np.bool_]
Counts = NDArray[np.int64]


class Move(NamedTuple):
    """A running job and its new place."""

    mover: Mover
    shares: Shares


class Merge:
    """A copy of one pool with moves made on it. ``moves`` are those that are to be kept. What is reserved is left free,
    but for the job in slot ``for_slot``, for which they make room."""

    __slots__ = ("_demands", "_for_slot", "_movable", "_plans", "_shares", "_withheld", "ahead", "moves")

    def __init__(self, state: State, pool: int, movable: Movable, for_slot: int = -1) -> None:
        self.ahead: Index = state.cluster.pools[pool].copy()
        self.moves: list[Move] = []
        self._movable = movable
        self._demands, self._shares = state.table.demands, state.table.shares
        self._plans: Sequence[Reservation] = state.reservations.get(pool, ())
        self._for_slot = for_slot
        self._withheld: dict[int, Bools] = {}

    def clear(self, movers: Sequence[Mover], allowed: Bools) -> list[Move] | None:
        """All of some movers of one node to nodes that are ``allowed``; None, and nothing changed, if not all find room
        there."""
        made: list[Move] = []
        for mover in movers:
            shares = self._place(mover, allowed)
            if shares is None:
                for move in made:
                    self.ahead.give(move.shares)
                return None
            self.ahead.take(shares)
            made.append(Move(mover, shares))
        for mover in movers:
            self.ahead.give(self._shares[mover.slot] or ())
        return made

    @property
    def cost_gpu_s(self) -> float:
        """What the moves cost."""
        return sum(move.mover.gpu_s for move in self.moves)

    def undo(self, moves: Sequence[Move]) -> None:
        """As if these, the last ones, had not been made."""
        for move in moves:
            self.ahead.take(self._shares[move.mover.slot] or ())
        for move in moves:
            self.ahead.give(move.shares)

    def keep(self, moves: Sequence[Move], wait: Sequence[Move] = ()) -> None:
        """They are to be made; their jobs stay where they go. The place of those that ``wait`` is kept free."""
        self.moves += moves
        for move in (*moves, *wait):
            self._movable.block(move.shares[0][0])
            self._movable.drop(move.mover)

    def _place(self, mover: Mover, allowed: Bools) -> Shares | None:
        """The tightest place for a job that its conditions and the plans of others allow."""
        if mover.late:
            allowed = allowed & ~self._needed_by(mover.late)
        if not allowed.any():
            return None
        demand = self._demands[mover.slot]
        if not isinstance(self.ahead, PoolIndex):
            return _pack(self.ahead.free, demand.gpus, allowed) if demand.is_plain else None
        return _place_in_detail(self.ahead, demand, allowed)

    def _needed_by(self, late: int) -> Bools:
        """The nodes that any of some plans (bits) needs."""
        found = self._withheld.get(late)
        if found is None:
            others = [plan for i, plan in enumerate(self._plans) if late >> i & 1 and plan.slot != self._for_slot]
            nodes = [share[0] for plan in others for share in plan.shares]
            found = np.zeros(nodes_of(self.ahead), dtype=np.bool_)
            found[nodes] = True
            self._withheld[late] = found
        return found


def nodes_of(index: Index) -> int:
    """How many nodes a pool has."""
    return index.layout.nodes if isinstance(index, PoolIndex) else index.nodes


def free_on(index: Index) -> Counts:
    """Free GPUs of each node, -1 where no work may go; shape (nodes,)."""
    if isinstance(index, PoolIndex):
        found: Counts = np.where(index.bucket < 0, -1, index.count)
        return found
    return np.array(index.free, dtype=np.int64)


def broken(index: Index) -> Bools:
    """Nodes that may take work and have something running on them, full ones included; shape (nodes,)."""
    if isinstance(index, PoolIndex):
        found: Bools = (index.bucket >= 0) & (index.bucket < index.capacity)
        return found
    return np.array(index.free, dtype=np.int64) < index.capacity


def _pack(free: Sequence[int], gpus: int, allowed: Bools) -> Shares | None:
    best = min(((free[node], node) for node in np.flatnonzero(allowed).tolist() if free[node] >= gpus), default=None)
    return None if best is None else ((best[1], gpus),)


def _place_in_detail(ahead: PoolIndex, demand: Demand, allowed: Bools) -> Shares | None:
    parts = ahead.layout.parts(demand)
    if isinstance(parts, str):
        return None
    eligible = ahead.layout.eligible(demand)
    mask = allowed if eligible is None else allowed & eligible
    if len(parts) == 1 and parts[0].replicas == 1 and demand.level not in ("node", "island"):
        return place_one(ahead, parts[0], mask, Leaning(None, False))
    shares = place_on_node(ahead, parts, mask, demand.level == "island")
    return shares if shares is not None or demand.required else place_on_node(ahead, parts, mask, False)
