"""The only way to change the state: begin, apply, then commit or discard whole.

Everything applied is written to a log, so a discard undoes exactly that, in reverse, and leaves no trace. There is
one transaction object per scheduler; opening it costs nothing that grows with the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappush
from typing import Any

from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.cluster_types import WHOLE_MILLI, PoolSpec, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.fair_share import Use
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.policies import Assumed
from schedmate.scheduler.queue_layer import QueueLayer, assumed_again
from schedmate.scheduler.state import State


class Transaction:
    """Changes to one `State`. Raises ``RuntimeError`` when opened twice or used while not open."""

    __slots__ = ("_log", "_saved", "_saved_layer", "_state", "is_open", "started")

    def __init__(self, state: State) -> None:
        self._state = state
        self._log: list[tuple[str, int, Any, float]] = []
        self._saved: tuple[object, ...] = ()
        self._saved_layer: tuple[object, ...] = ()
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
        self._saved_layer = state.layer.saved() if state.layer is not None else ()
        self.started = []

    def start(self, slot: int, pool: int, shares: Shares, now: float, reason: str) -> None:
        """Start the waiting job in ``slot`` on ``shares``."""
        state = self._state
        table, cluster = state.table, state.cluster
        cluster.pools[pool].take(shares)
        if table.demands[slot].elastic:
            table.gpus[slot] = sum(share[1] for share in shares)
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
        if state.layer is not None:
            self._enter(state.layer, slot, now)

    def stop(self, slot: int, now: float) -> None:
        """Take the running job in ``slot`` off its GPUs; the slot is free to be used again after the commit."""
        state = self._state
        table, cluster = state.table, state.cluster
        shares = table.shares[slot]
        if shares is None:
            raise ValueError(f"slot {slot} is not running")
        if state.layer is not None:
            self._leave(state.layer, slot, now)
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
        if state.layer is not None:
            state.layer.freed(cluster.pools[table.pools[slot]], table.pools[slot], shares)

    def evict(self, slot: int, now: float, saved_s: float) -> None:
        """Take the running job in ``slot`` off its GPUs and let it wait again, at the head of its class, with
        ``saved_s`` of the work of this run saved."""
        state, table, layer = self._state, self._state.table, self._state.layer
        job = table.jobs[slot]
        if job is None:
            raise ValueError(f"slot {slot} holds no job")
        self.stop(slot, now)
        self._log[-1] = ("unplace", *self._log[-1][1:])
        old = (table.pools[slot], table.done_s[slot], table.assumed[slot], table.entries[slot])
        self._log.append(("evict", slot, old, 0.0))
        table.done_s[slot] += saved_s
        table.evictions[slot] += 1
        table.assumed[slot] = assumed_again(state.policy.assume(job), table.done_s[slot], job.restart_s)
        table.pools[slot] = -1
        entry = table.entries[slot]
        # One object an entry: a second one of equal value would be taken for another job.
        state.enqueue(slot, entry if entry[0] == -math.inf else (-math.inf, entry[1], slot))
        if layer is not None:
            heappush(layer.waits, (job.submit_s + state.policy.starvation_bound_s, table.entries[slot][1], slot))
            layer.evicted = (*layer.evicted, slot)

    def withdraw(self, slot: int) -> None:
        """The waiting job in ``slot`` gives up; the slot is free to be used again after the commit."""
        state, table = self._state, self._state.table
        if table.live[slot] is None:
            raise ValueError(f"slot {slot} does not wait")
        self._log.append(("withdraw", slot, (), 0.0))
        table.live[slot] = None
        if slot in state.fresh:  # the slot may be another job's before the next cycle
            state.fresh = [other for other in state.fresh if other != slot]
        if state.layer is not None:
            lane = table.queue_lanes[slot]
            state.layer.gained |= lane.pool_bits if lane is not None else 0
            self._let_go(state.layer, slot)

    def hold(self, slot: int) -> None:
        """The waiting job in ``slot`` has got a reservation: it is in no lane any more."""
        state = self._state
        if state.layer is None:
            raise ValueError("this policy has no queue layer")
        old = state.table.entries[slot]
        self._log.append(("hold", slot, old, 0.0))
        state.layer.queue.reserved.add(slot)
        state.layer.looked_at.pop(slot, None)
        state.layer.reserved = (*state.layer.reserved, slot)
        state.enqueue(slot, (old[0], old[1], slot))

    def release(self, slot: int) -> None:
        """The waiting job in ``slot`` has no reservation any more: it waits in its lane again."""
        state, layer = self._state, self._state.layer
        if layer is None:
            raise ValueError("this policy has no queue layer")
        old = state.table.entries[slot]
        self._log.append(("release", slot, old, 0.0))
        layer.queue.reserved.discard(slot)
        layer.reserved = tuple(other for other in layer.reserved if other != slot)
        state.enqueue(slot, (old[0], old[1], slot))

    def change_lane(self, slot: int, lane: QueueLane) -> None:
        """Move the waiting job in ``slot`` to another lane, at the same place."""
        state, table = self._state, self._state.table
        old = table.entries[slot]
        self._log.append(("lane", slot, (table.queue_lanes[slot], old, table.since[slot]), 0.0))
        table.queue_lanes[slot], table.since[slot] = lane, state.cycles
        state.enqueue(slot, (old[0], old[1], slot))

    def waited(self, wait: tuple[float, int, int]) -> None:
        """An entry of the heap of those who wait has been taken from it, because they have waited too long."""
        self._log.append(("waited", wait[2], wait, 0.0))

    def move_expected_end(self, slot: int, end_s: float) -> None:
        """`move_end` for the full queue layer."""
        self._move_in("ends", slot, end_s)

    def must_leave(self, slot: int, by_s: float) -> None:
        """The running job in ``slot`` is to be evicted at ``by_s`` if it still runs then; infinite to let it run on."""
        layer = self._state.layer
        if layer is None:
            raise ValueError("this policy has no queue layer")
        leaving = layer.leaving
        self._log.append(("leave", slot, (), leaving.remove(slot) if slot in leaving.ends_s else math.inf))
        if by_s < math.inf:
            leaving.add(slot, by_s)
        table = self._state.table
        if layer.limits is not None:
            self._move_in("limits", slot, min(by_s, table.starts_s[slot] + table.assumed[slot].limit_s))

    def _move_in(self, kind: str, slot: int, end_s: float) -> None:
        ends = _kind(self._state, kind, self._state.table.pools[slot])
        self._log.append((kind, slot, (), ends.remove(slot)))
        ends.add(slot, end_s)

    def _enter(self, layer: QueueLayer, slot: int, now: float) -> None:
        """What the queue layer notes of a start."""
        table = self._state.table
        pool, assumed = table.pools[slot], table.assumed[slot]
        layer.ends[pool].add(slot, now + assumed.ends_s)
        if layer.limits is not None:
            layer.limits[pool].add(slot, now + assumed.limit_s)
        self._charge(layer, slot, 1, now)
        if layer.queue.reserved:
            self._let_go(layer, slot)

    def _leave(self, layer: QueueLayer, slot: int, now: float) -> None:
        """What the queue layer notes before a running job is taken away."""
        table = self._state.table
        pool = table.pools[slot]
        end_s = layer.ends[pool].remove(slot)
        limit_s = layer.limits[pool].remove(slot) if layer.limits is not None else math.inf
        by_s = layer.leaving.remove(slot) if slot in layer.leaving.ends_s else math.inf
        self._log.append(("left", slot, (pool, end_s, limit_s), by_s))
        bit = 1 << pool
        layer.gained |= bit
        plans = self._state.reservations.get(pool, ())
        alone = len({plan.slot for plan in plans}) == 1
        for plan in plans:
            assumed_s = limit_s if plan.guaranteed else end_s
            # Having left by the start of the only plan it was counted on already: leaving earlier brings nothing.
            if assumed_s != now and not (alone and assumed_s < plan.start_s):
                layer.stale |= bit
        self._charge(layer, slot, -1, now)

    def _charge(self, layer: QueueLayer, slot: int, sign: int, now: float) -> None:
        if layer.use is None or layer.fair is None:
            return
        table = self._state.table
        lane, pool = table.queue_lanes[slot], table.pools[slot]
        milli = sign * milli_of(table.demands[slot], table.shares[slot] or ())
        tenant = lane.tenant if lane is not None else 0
        layer.use.charge(tenant, pool, milli)
        before = layer.fair.charge(tenant, pool, milli, now)
        layer.standings_s = {}
        self._log.append(("charge", slot, (tenant, pool, milli, before), 0.0))

    def _let_go(self, layer: QueueLayer, slot: int) -> None:
        """The job in ``slot`` no longer needs the reservation that it may have."""
        if slot not in layer.queue.reserved:
            return
        self._log.append(("let_go", slot, (), 0.0))
        layer.queue.reserved.discard(slot)
        layer.reserved = tuple(other for other in layer.reserved if other != slot)
        if slot in layer.promised:
            layer.promised = {other: at for other, at in layer.promised.items() if other != slot}
        state = self._state
        for pool, plans in state.reservations.items():
            if any(plan.slot == slot for plan in plans):
                own = [plan for plan in plans if plan.slot == slot]
                kept = tuple(plan for plan in plans if plan.slot != slot)
                rest = {p: others for p, others in state.reservations.items() if p != pool}
                state.reservations = {**rest, pool: kept} if kept else rest
                layer.gained |= 1 << pool
                table = state.table
                if any((p.start_s, p.shares) != (table.starts_s[slot], table.shares[slot]) for p in own):
                    layer.stale |= 1 << pool
                break

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
            if kind in ("stop", "withdraw"):
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
        if state.layer is not None:
            state.layer.put_back(self._saved_layer)
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
    if state.layer is not None:
        pool = table.pools[slot]
        state.layer.ends[pool].remove(slot)
        if state.layer.limits is not None:
            state.layer.limits[pool].remove(slot)
        state.layer.freed(state.cluster.pools[pool], pool, shares)
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


def _undo_evict(state: State, slot: int, old: tuple[int, float, Assumed, Entry], _: float) -> None:
    table = state.table
    table.pools[slot], table.done_s[slot], table.assumed[slot], table.entries[slot] = old
    table.evictions[slot] -= 1
    table.live[slot] = None


def _undo_unplace(state: State, slot: int, shares: Shares, end_s: float) -> None:
    _undo_stop(state, slot, shares, end_s)


def _undo_left(state: State, slot: int, old: tuple[int, float, float], by_s: float) -> None:
    layer = _layer(state)
    pool, end_s, limit_s = old
    state.table.pools[slot] = pool
    layer.ends[pool].add(slot, end_s)
    if layer.limits is not None:
        layer.limits[pool].add(slot, limit_s)
    if by_s < math.inf:
        layer.leaving.add(slot, by_s)


def _undo_waited(state: State, slot: int, wait: tuple[float, int, int], _: float) -> None:
    heappush(_layer(state).waits, wait)


def _undo_charge(state: State, slot: int, what: tuple[int, int, int, list[tuple[int, Use]]], _: float) -> None:
    layer = _layer(state)
    tenant, pool, milli, before = what
    if layer.use is not None and layer.fair is not None:
        layer.use.charge(tenant, pool, -milli)
        layer.fair.restore(before, pool, milli)


def _undo_ends(state: State, slot: int, _: object, end_s: float) -> None:
    ends = _kind(state, "ends", state.table.pools[slot])
    ends.remove(slot)
    ends.add(slot, end_s)


def _undo_limits(state: State, slot: int, _: object, end_s: float) -> None:
    ends = _kind(state, "limits", state.table.pools[slot])
    ends.remove(slot)
    ends.add(slot, end_s)


def _undo_leave(state: State, slot: int, _: object, by_s: float) -> None:
    leaving = _layer(state).leaving
    if slot in leaving.ends_s:
        leaving.remove(slot)
    if by_s < math.inf:
        leaving.add(slot, by_s)


def _undo_hold(state: State, slot: int, entry: Entry, _: float) -> None:
    _layer(state).queue.reserved.discard(slot)
    state.enqueue(slot, entry)


def _undo_release(state: State, slot: int, entry: Entry, _: float) -> None:
    _layer(state).queue.reserved.add(slot)
    state.enqueue(slot, entry)


def _undo_let_go(state: State, slot: int, _: object, __: float) -> None:
    _layer(state).queue.reserved.add(slot)


def _undo_lane(state: State, slot: int, old: tuple[QueueLane, Entry, int], _: float) -> None:
    state.table.queue_lanes[slot], entry, state.table.since[slot] = old
    state.enqueue(slot, entry)


def _undo_withdraw(state: State, slot: int, _: object, __: float) -> None:
    state.enqueue(slot, state.table.entries[slot])


def _layer(state: State) -> QueueLayer:
    if state.layer is None:
        raise ValueError("this policy has no queue layer")
    return state.layer


def _kind(state: State, kind: str, pool: int) -> ExpectedEnds:
    layer = _layer(state)
    if kind == "ends":
        return layer.ends[pool]
    if layer.limits is None:
        raise ValueError("this policy keeps no hard limits")
    return layer.limits[pool]


def asked_milli(demand: Demand, pool: PoolSpec) -> int:
    """What a demand would count on a pool at most, in thousandths of a GPU: slices have their size there."""
    parts = [(role.profile, role.replicas) for role in demand.roles if role.profile is not None]
    if not parts:
        return demand.gpu_milli
    sizes = {profile.name: profile.milli for profile in pool.profiles}
    return demand.gpu_milli + sum(sizes.get(profile, 0) * replicas for profile, replicas in parts)


def milli_of(demand: Demand, shares: Shares) -> int:
    """What a placement counts in its tenant's quota, in thousandths of a GPU."""
    if not demand.roles:
        return demand.gpu_milli
    return sum(share[1] * WHOLE_MILLI + (share[3] if len(share) > 3 else 0) for share in shares)


_UNDO: dict[str, Callable[[State, int, Any, float], None]] = {
    "start": _undo_start,
    "stop": _undo_stop,
    "move": _undo_move,
    "promote": _undo_promote,
    "evict": _undo_evict,
    "unplace": _undo_unplace,
    "left": _undo_left,
    "charge": _undo_charge,
    "ends": _undo_ends,
    "limits": _undo_limits,
    "leave": _undo_leave,
    "hold": _undo_hold,
    "let_go": _undo_let_go,
    "release": _undo_release,
    "waited": _undo_waited,
    "lane": _undo_lane,
    "withdraw": _undo_withdraw,
}
