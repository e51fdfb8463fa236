"""Which running jobs may be moved, what moving each costs, and which of them share a node."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

from schedmate.scheduler.assumptions import Assumed
from schedmate.scheduler.cluster_types import WHOLE_MILLI
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.queue_layer import QueueLayer, assumed_again
from schedmate.scheduler.state import State


class Mover(NamedTuple):
    """A running job, all of it on ``node``, that may be moved.

    ``gpu_s`` is what that costs, ``redone_s`` the work of this run that would have to be done again and ``saved_s``
    what is kept; ``next_s`` when it will save its state next and ``end_s`` when it is expected to end where it is.
    ``late`` are the plans of its pool (bits) that it would run beyond afterwards.
    """

    slot: int
    node: int
    gpus: float
    gpu_s: float
    redone_s: float
    saved_s: float
    next_s: float
    end_s: float
    tenant: int
    late: int


class Movable:
    """What may be moved on one pool, found out node by node when it is asked for."""

    __slots__ = ("_layer", "_limits", "_movers", "_now", "_pool", "_slots", "_state")

    def __init__(
        self, state: State, layer: QueueLayer, pool: int, limits: Disruption, now: float, nodes: Collection[int]
    ) -> None:
        """Of some ``nodes`` only."""
        self._state, self._layer, self._pool, self._limits, self._now = state, layer, pool, limits, now
        self._movers: dict[int, tuple[list[Mover], bool]] = {}
        self._slots: dict[int, list[int]] = {node: [] for node in nodes}
        shares_of, slots = state.table.shares, self._slots
        for _, slot in layer.ends[pool].order:
            for share in shares_of[slot] or ():
                if share[0] in slots:
                    slots[share[0]].append(slot)

    @property
    def nodes(self) -> list[int]:
        """Those nodes, in order."""
        return sorted(self._slots)

    def shared(self, nodes: Iterable[int]) -> list[int]:
        """Those of some nodes that several jobs are on."""
        return [node for node in nodes if len(self._slots.get(node, ())) > 1]

    def on(self, node: int) -> list[Mover]:
        """The movers of a node, the largest first."""
        return self._found(node)[0]

    def alone_on(self, node: int) -> list[Mover]:
        """The movers of a node, none if there is anything else on it."""
        movers, alone = self._found(node)
        return movers if alone else []

    def drop(self, mover: Mover) -> None:
        """A mover leaves its node, or has left it."""
        movers, alone = self._found(mover.node)
        self._movers[mover.node] = [each for each in movers if each.slot != mover.slot], alone

    def block(self, node: int) -> None:
        """Something was moved to this node: it is not cleared."""
        self._movers[node] = self._found(node)[0], False

    def _found(self, node: int) -> tuple[list[Mover], bool]:
        found = self._movers.get(node)
        if found is None:
            slots = sorted(set(self._slots.get(node, ())))
            movers = [mover for slot in slots if (mover := self._mover(slot)) is not None]
            movers.sort(key=lambda each: (-each.gpus, each.slot))
            found = self._movers[node] = movers, len(movers) == len(slots)
        return found

    def _mover(self, slot: int) -> Mover | None:
        """None if the job is not to be moved. It must save its state by itself, and be one that may be evicted; what
        was let in for a while only (``layer.leaving``) is gone soon anyway."""
        table, layer, limits, now = self._state.table, self._layer, self._limits, self._now
        job, demand = table.jobs[slot], table.demands[slot]
        if job is None or not job.preemptible or job.checkpoint_s is None or job.kind != "training":
            return None
        shares = table.shares[slot] or ()
        if demand.elastic or demand.spread or slot in layer.leaving.ends_s or len({share[0] for share in shares}) != 1:
            return None
        moved = layer.ledger.of(slot, table.entries[slot][1])
        rest_s = max(limits.rest_s if moved.times else 0.0, job.min_run_s)
        ran_s = now - table.starts_s[slot]
        if moved.times >= limits.moves_per_job or ran_s < rest_s or not ran_s > 0:  # started in this very cycle
            return None
        end_s, lane = layer.ends[self._pool].ends_s[slot], table.queue_lanes[slot]
        work_s, saved_s = table.work_s(slot, now), table.saved_s(slot, now, told=False)
        after = assumed_again(self._state.policy.assume(job), table.done_s[slot] + saved_s, job.restart_s)
        late = self._late(after)
        if layer.use is not None and late & ~self._late_as_it_is(slot, end_s):
            return None  # plans count on its quota
        gpus = demand.gpu_milli / WHOLE_MILLI or float(table.gpus[slot])
        tenant = 0 if lane is None else lane.tenant
        redone_s = work_s - saved_s
        cost_gpu_s = gpus * (redone_s + job.restart_s)
        next_s = now + job.checkpoint_s - redone_s
        return Mover(slot, shares[0][0], gpus, cost_gpu_s, redone_s, saved_s, next_s, end_s, tenant, late)

    def _late(self, after: Assumed) -> int:
        late, now = 0, self._now
        for i, plan in enumerate(self._state.reservations.get(self._pool, ())):
            stays_s = after.limit_s if plan.guaranteed or plan.locked else max(after.within_s, after.ends_s)
            late |= (bool(plan.victims) or now + stays_s > plan.start_s) << i
        return late

    def _late_as_it_is(self, slot: int, end_s: float) -> int:
        limits = self._layer.limits
        late, limit_s = 0, math.inf if limits is None else limits[self._pool].ends_s[slot]
        for i, plan in enumerate(self._state.reservations.get(self._pool, ())):
            late |= ((limit_s if plan.guaranteed or plan.locked else end_s) > plan.start_s) << i
        return late
