"""What may still be spent on moves: the budgets of the last hour, of the cluster and of every tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedmate.scheduler.disruption import HOUR_S, Disruption, Paid
from schedmate.scheduler.movable import Mover
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State


class Spending:
    """Of one look for moves at ``now``."""

    __slots__ = ("_gpu_s", "_layer", "_limits", "_moves", "_now", "_state")

    def __init__(self, state: State, layer: QueueLayer, limits: Disruption, now: float) -> None:
        self._state, self._layer, self._limits, self._now = state, layer, limits, now
        gpus = state.cluster.spec.gpus
        self._moves, self._gpu_s = limits.moves_per_hour(gpus), limits.lost_share * gpus * HOUR_S

    @property
    def is_over(self) -> bool:
        """Whether not a single move is left."""
        return len(self._paid) >= self._moves

    @property
    def _paid(self) -> tuple[Paid, ...]:
        return self._layer.ledger.since(self._now - HOUR_S)

    def allows(self, movers: Sequence[Mover]) -> bool:
        """Whether moving all of these stays within the budgets."""
        paid = self._paid
        if len(paid) + len(movers) > self._moves:
            return False
        if sum(each.gpu_s for each in paid) + sum(each.gpu_s for each in movers) > self._gpu_s:
            return False
        before, more = Counter(each.tenant for each in paid), Counter(each.tenant for each in movers)
        return all(before[tenant] + count <= self._most_moves(tenant) for tenant, count in more.items())

    def spend(self, movers: Sequence[Mover]) -> None:
        """They are moved."""
        table, now = self._state.table, self._now
        running = {slot: table.entries[slot][1] for slot in self._layer.ledger.jobs if table.shares[slot] is not None}
        moves = [(each.slot, table.entries[each.slot][1], Paid(now, each.tenant, each.gpu_s)) for each in movers]
        self._layer.ledger = self._layer.ledger.entered(moves, running, now)

    def _most_moves(self, tenant: int) -> float:
        """A tenant's share of the budget; one move may be anybody's."""
        fair, used = self._layer.fair, self._state.cluster.allocated_gpus
        if fair is None or not used:
            return self._moves
        held = sum(fair.held[tenant]) / 1000 / used
        return max(1.0, self._limits.tenant_share * held * self._moves)
