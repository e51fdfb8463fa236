"""The only way to change the state: begin, apply, then commit or discard whole.

Everything applied is written to a log, so a discard undoes exactly that, in reverse, and leaves no trace. There is
one transaction object per scheduler; opening it costs nothing that grows with the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.state import State


class Transaction:
    """Changes to one `State`. Raises ``RuntimeError`` when opened twice or used while not open."""

    __slots__ = ("_log", "_saved", "_state", "is_open", "started")

    def __init__(self, state: State) -> None:
        self._state = state
        self._log: list[tuple[str, int, Any, float]] = []
        self._saved: tuple[object, ...] = ()
        self.started: list[int] = []
        self.is_open = False

    def begin(self) -> None:
        """Open it."""
        if self.is_open:
            raise RuntimeError("a transaction is open already")
        self.is_open = True
        state = self._state
        self._saved = (
            state.reservations, state.reserved_for, state.blocked, state.fresh, state.stale, state.gained,
        )  # fmt: skip
        self.started = []

    def start(self, slot: int, pool: int, shares: Shares, now: float, reason: str) -> None:
        """Start the waiting job in ``slot`` on ``shares``."""
        state = self._state
        table, cluster = state.table, state.cluster
        cluster.pools[pool].take(shares)
        cluster.allocated_gpus += table.gpus[slot]
        table.live[slot] = None
        table.shares[slot] = shares
        table.pools[slot] = pool
        table.starts_s[slot] = now
        table.reasons[slot] = reason
        if state.ends is not None:
            state.ends.add(slot, now + table.assumed[slot].ends_s)
        if state.limits is not None:
            state.limits.add(slot, now + table.assumed[slot].limit_s)
        self.started.append(slot)
        self._log.append(("start", slot, shares, 0.0))

    def stop(self, slot: int, now: float) -> None:
        """Take the running job in ``slot`` off its GPUs; the slot is free to be used again after the commit."""
        state = self._state
        table, cluster = state.table, state.cluster
        shares = table.shares[slot]
        if shares is None:
            raise ValueError(f"slot {slot} is not running")
        end_s = 0.0
        if state.ends is not None:
            end_s = state.ends.remove(slot)
            if end_s != now:
                state.stale = True
        if state.limits is not None:
            state.limits.remove(slot)
        cluster.pools[table.pools[slot]].give(shares)
        cluster.allocated_gpus -= table.gpus[slot]
        table.shares[slot] = None
        state.gained = True
        self._log.append(("stop", slot, shares, end_s))

    def move_end(self, slot: int, end_s: float) -> None:
        """Change when the running job in ``slot`` is expected to end."""
        ends = self._state.ends
        if ends is None:
            raise ValueError("this policy keeps no expected ends")
        self._log.append(("move", slot, (), ends.remove(slot)))
        ends.add(slot, end_s)

    def promote(self, slot: int) -> None:
        """Move the waiting job in ``slot`` before all that were not promoted."""
        state = self._state
        old = state.table.entries[slot]
        self._log.append(("promote", slot, old, 0.0))
        state.enqueue(slot, (-math.inf, old[1], slot))

    def commit(self) -> list[int]:
        """Keep everything; returns the slots that were started."""
        table = self._state.table
        for kind, slot, _, _ in self._log:
            if kind == "stop":
                table.jobs[slot] = None
                table.free.append(slot)
        self._log.clear()
        self.is_open = False
        return self.started

    def discard(self) -> None:
        """Undo everything."""
        state = self._state
        for kind, slot, what, end_s in reversed(self._log):
            _UNDO[kind](state, slot, what, end_s)
        (
            state.reservations, state.reserved_for, state.blocked, state.fresh, state.stale, state.gained,
        ) = self._saved  # type: ignore[assignment]  # fmt: skip
        self._log.clear()
        self.started = []
        self.is_open = False


def _undo_start(state: State, slot: int, shares: Shares, end_s: float) -> None:
    table = state.table
    if state.ends is not None:
        state.ends.remove(slot)
    if state.limits is not None:
        state.limits.remove(slot)
    state.cluster.pools[table.pools[slot]].give(shares)
    state.cluster.allocated_gpus -= table.gpus[slot]
    table.shares[slot] = None
    table.pools[slot] = -1
    table.reasons[slot] = ""
    state.enqueue(slot, table.entries[slot])


def _undo_stop(state: State, slot: int, shares: Shares, end_s: float) -> None:
    table = state.table
    state.cluster.pools[table.pools[slot]].take(shares)
    state.cluster.allocated_gpus += table.gpus[slot]
    table.shares[slot] = shares
    if state.ends is not None:
        state.ends.add(slot, end_s)
    if state.limits is not None:
        state.limits.add(slot, table.starts_s[slot] + table.assumed[slot].limit_s)


def _undo_move(state: State, slot: int, _: object, end_s: float) -> None:
    if state.ends is not None:
        state.ends.remove(slot)
        state.ends.add(slot, end_s)


def _undo_promote(state: State, slot: int, entry: Entry, _: float) -> None:
    state.enqueue(slot, entry)


_UNDO: dict[str, Callable[[State, int, Any, float], None]] = {
    "start": _undo_start,
    "stop": _undo_stop,
    "move": _undo_move,
    "promote": _undo_promote,
}
