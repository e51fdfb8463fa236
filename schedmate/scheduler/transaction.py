"""The only way to change the state: begin, apply, then commit or discard whole.

Everything applied is written to a log, so a discard undoes exactly that, in reverse, and leaves no trace. There is
one transaction object per scheduler; opening it costs nothing that grows with the cluster.
"""

from __future__ import annotations

from schedmate.scheduler.state import State
from schedmate.scheduler.types import Shares


class Transaction:
    """Changes to one `State`. Raises ``RuntimeError`` when opened twice or used while not open."""

    __slots__ = ("_log", "_saved", "_state", "is_open", "started")

    def __init__(self, state: State) -> None:
        self._state = state
        self._log: list[tuple[str, int, Shares, float]] = []
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
            state.ends.add(slot, now + table.assumed_s[slot])
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
        for kind, slot, shares, end_s in reversed(self._log):
            if kind == "start":
                self._undo_start(slot, shares)
            elif kind == "stop":
                state.cluster.pools[state.table.pools[slot]].take(shares)
                state.cluster.allocated_gpus += state.table.gpus[slot]
                state.table.shares[slot] = shares
                if state.ends is not None:
                    state.ends.add(slot, end_s)
            elif state.ends is not None:
                state.ends.remove(slot)
                state.ends.add(slot, end_s)
        (
            state.reservations, state.reserved_for, state.blocked, state.fresh, state.stale, state.gained,
        ) = self._saved  # type: ignore[assignment]  # fmt: skip
        self._log.clear()
        self.started = []
        self.is_open = False

    def _undo_start(self, slot: int, shares: Shares) -> None:
        state = self._state
        table = state.table
        if state.ends is not None:
            state.ends.remove(slot)
        state.cluster.pools[table.pools[slot]].give(shares)
        state.cluster.allocated_gpus -= table.gpus[slot]
        table.shares[slot] = None
        table.pools[slot] = -1
        table.reasons[slot] = ""
        entry, lane = table.entries[slot], table.lanes[slot]
        table.live[slot] = entry
        if lane is not None:
            state.queue.add(lane, entry, table.gpus[slot], table.bound_s[slot])
