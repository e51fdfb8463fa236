"""Move running jobs so that a blocked one can start, or so that broken nodes become whole, within the budget.

Looked for every so often (`Disruption.every_s`), on one pool a cycle, after all that can start has been started. Moves
are found on a copy of the pool (`merging`), where every moved job has its new place before anything is touched, and are
made in one transaction: evicted with its checkpoint and started again in the same cycle. No move goes where a plan of
somebody else needs the place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from schedmate.scheduler.actions.admit import admit
from schedmate.scheduler.actions.fill import fill
from schedmate.scheduler.actions.plan import MANY_RUNNING, plan
from schedmate.scheduler.cluster import Index
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.merging import Bools, Merge, Move, broken, free_on
from schedmate.scheduler.movable import Movable, Mover
from schedmate.scheduler.placement import View
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.spending import Spending
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Trial

#: Nodes that are looked at in one go to be cleared or filled, and moves that are then made to make broken nodes whole,
#: so that no cycle takes long; the next look is soon.
MOST_NODES = 64
MOST_MOVES = 8

#: Nodes that are cleared at most to let one blocked job start, and groups in which that is tried.
MOST_CLEARED = 32
MOST_GROUPS = 3

MAKES_WHOLE = "fewer nodes are broken"
ROOM_MADE = "running jobs were moved to make room for it"


def defragment(state: State, tx: Transaction, now: float) -> None:
    """Comes last but for `settle`; what it makes room for starts in the same cycle."""
    layer, limits = state.layer, state.policy.defragment
    if layer is None or limits is None:
        return
    layer.migrated = ()
    pool = layer.ledger.due(len(state.cluster.pools), now - limits.every_s)
    if pool < 0:
        return
    layer.ledger = layer.ledger.looked(pool, now)
    if layer.look_s <= now:
        layer.look_s = math.inf
    spending = Spending(state, layer, limits, now)
    if spending.is_over:
        return
    look = _Look(state, tx, layer, limits, spending, pool, now)
    look.make_room()
    if state.cluster.pools[pool].fragmented_nodes() > limits.left_broken * state.cluster.spec.pools[pool].nodes:
        look.make_whole()
    if layer.migrated and sum(len(ends.order) for ends in layer.ends) < MANY_RUNNING:
        for action in (plan, admit, plan, fill):  # where many run the next cycle comes at once, and cycles stay short
            action(state, tx, now)


class _Look:
    """Looking for moves on one pool, once."""

    def __init__(
        self, state: State, tx: Transaction, layer: QueueLayer, limits: Disruption, spending: Spending, pool: int,
        now: float,
    ) -> None:  # fmt: skip
        self._state, self._tx, self._layer, self._limits = state, tx, layer, limits
        self._spending, self._pool, self._now = spending, pool, now
        self._nodes = state.cluster.spec.pools[pool].nodes
        self._capacity = state.cluster.spec.pools[pool].gpus_per_node

    def make_room(self) -> None:
        """Let the first job that has a reservation here start, if its GPUs are free but not where it needs them."""
        state, layer, index = self._state, self._layer, self._state.cluster.pools[self._pool]
        plans = state.reservations.get(self._pool, ())
        planned = {each.slot for each in plans} - {each.slot for each in plans if each.victims}
        slot = next((slot for slot in layer.reserved if slot in planned), None)
        if slot is None:
            return
        lane = state.table.queue_lanes[slot]
        demand, start_s = state.table.demands[slot], min(each.start_s for each in plans if each.slot == slot)
        trial = Trial(state, self._tx, self._now)
        if start_s <= self._now or index.free_gpus < demand.least_gpus or not trial.has_quota(slot, self._pool):
            return
        late, _ = trial.late(slot, plans)
        if lane is None or (layer.use is not None and not trial.has_later_quota(slot, lane, self._pool, late)):
            return
        beside = [each.spare for i, each in enumerate(plans) if late >> i & 1]

        def fits(ahead: Index) -> bool:
            view: View = ahead.restricted(beside) if beside else ahead
            return state.place(view, demand) is not None

        most_gpu_s = self._limits.price * demand.gpus * (start_s - self._now)
        for group in self._groups(slot):
            free = free_on(index)
            some = group & broken(index) & (np.ones_like(group) if not group.all() else free > 0)
            nodes = np.flatnonzero(some)[: 4 * MOST_NODES].tolist()
            movable = Movable(state, layer, self._pool, self._limits, self._now, nodes)
            merge = Merge(state, self._pool, movable, slot)
            cleared, target = 0, 1
            for movers in _clearable(movable):
                if merge.cost_gpu_s + sum(each.gpu_s for each in movers) > most_gpu_s or cleared == MOST_CLEARED:
                    break
                elsewhere = broken(merge.ahead) if group.all() else (free_on(merge.ahead) > 0) & ~group
                elsewhere[movers[0].node] = False
                moves = merge.clear(movers, elsewhere)
                if moves is None:
                    continue
                merge.moves += moves
                cleared += 1
                if cleared == target:
                    target *= 2
                    if fits(merge.ahead):
                        break
            if merge.moves and self._spending.allows([move.mover for move in merge.moves]) and fits(merge.ahead):
                job = state.table.jobs[slot]
                self._make(merge.moves, f"there is room for job {'' if job is None else job.job_id}")
                found = Trial(state, self._tx, self._now).find(slot)
                if found is not None:
                    Trial(state, self._tx, self._now).start(slot, found, ROOM_MADE)
                return

    def _groups(self, slot: int) -> Iterator[Bools]:
        """Where room may be made for a job: anywhere, or in one of the groups of the level that it must not leave,
        those with most nodes free as a whole first."""
        index, demand = self._state.cluster.pools[self._pool], self._state.table.demands[slot]
        if not (demand.required and isinstance(index, PoolIndex) and demand.level in index.layout.groups):
            yield np.ones(self._nodes, dtype=np.bool_)
            return
        layout = index.layout
        first = layout.cells[layout.groups[demand.level]]
        whole = np.add.reduceat(index.bucket >= layout.capacity, first)
        ends = (*first[1:].tolist(), layout.nodes)
        for group in np.argsort(-whole, kind="stable")[:MOST_GROUPS].tolist():
            inside = np.zeros(layout.nodes, dtype=np.bool_)
            inside[int(first[group]) : ends[group]] = True
            yield inside

    def make_whole(self) -> None:
        """Clear nodes and fill holes while that leaves fewer nodes broken than are let be."""
        index = self._state.cluster.pools[self._pool]
        free = free_on(index)
        some, full = (np.flatnonzero(broken(index) & each) for each in (free > 0, free == 0))
        donors = some[np.lexsort((some, -free[some]))].tolist()[:MOST_NODES]
        movable = Movable(self._state, self._layer, self._pool, self._limits, self._now, [*donors, *full.tolist()])
        merge = Merge(self._state, self._pool, movable)
        pinned = np.zeros(self._nodes, dtype=np.bool_)
        pinned[[node for node in donors if not movable.alone_on(node)]] = True
        for node in donors:
            self._clear(merge, movable, node, pinned)
        for target in reversed(donors):
            if len(merge.moves) < MOST_MOVES:
                self._fill(merge, movable, target, donors)
        for node in self._some_of(movable.shared(full.tolist())):
            self._clear(merge, movable, node, pinned)
        if merge.moves:
            self._make(merge.moves, MAKES_WHOLE)

    def _some_of(self, nodes: list[int]) -> list[int]:
        """As many as are looked at in one go, others each time."""
        if len(nodes) <= MOST_NODES:
            return nodes
        first = int(self._now / max(1.0, self._limits.every_s)) * MOST_NODES % len(nodes)
        return [*nodes[first:], *nodes[:first]][:MOST_NODES]

    def _clear(self, merge: Merge, movable: Movable, node: int, pinned: Bools) -> None:
        """Clear a node into the holes of fuller ones, or of such as can not be cleared themselves. A full one is not
        broken: clearing it must fill up others that are."""
        movers = movable.alone_on(node)
        if len(merge.moves) >= MOST_MOVES or not movers or not self._is_worth(movers):
            return
        free = free_on(merge.ahead)
        holes = broken(merge.ahead) & (free > 0) & ((free <= free[node]) | pinned)
        holes[node] = False
        moves = merge.clear(movers, holes)
        if moves and not free[node] and not (free_on(merge.ahead)[holes] == 0).any():
            merge.undo(moves)
            return
        self._keep(merge, moves)

    def _fill(self, merge: Merge, movable: Movable, target: int, donors: list[int]) -> None:
        """Fill the hole of a broken node with a job of a node that is no fuller."""
        free = free_on(merge.ahead)
        if not (free[target] > 0 and broken(merge.ahead)[target]):
            return
        allowed = np.zeros(self._nodes, dtype=np.bool_)
        allowed[target] = True
        for donor in donors:
            if donor == target or not free[target] <= free[donor] < self._capacity:
                continue
            for mover in movable.on(donor):
                if mover.gpus == free[target] and self._is_fresh(mover) and self._is_worth([mover]):
                    if self._keep(merge, merge.clear([mover], allowed)):
                        return
                    break

    def _keep(self, merge: Merge, moves: list[Move] | None) -> bool:
        """Keep moves if the budget allows them; else they are undone. Jobs that have not just saved their state wait
        for that where they are, with their new place kept for them during this look."""
        if not moves:
            return False
        fresh = [move for move in moves if self._is_fresh(move.mover)]
        if not self._spending.allows([move.mover for move in (*merge.moves, *fresh)]):
            merge.undo(moves)
            return False
        wait = [move for move in moves if not self._is_fresh(move.mover)]
        merge.keep(fresh, wait)
        self._layer.look_s = min(
            [self._layer.look_s, *(max(move.mover.next_s, self._now + self._limits.every_s) for move in wait)]
        )
        return True

    def _is_fresh(self, mover: Mover) -> bool:
        """Whether it has saved its state in this run, and lately."""
        return mover.saved_s > 0 and mover.redone_s <= self._limits.fresh_s

    def _is_worth(self, movers: list[Mover]) -> bool:
        """Whether jobs cost little, when they are moved, beside the whole node that is missing for as long as they are
        expected to run."""
        left_s, fresh_s = max(each.end_s for each in movers) - self._now, self._limits.fresh_s
        cost_gpu_s = sum(each.gpu_s - each.gpus * max(0.0, each.redone_s - fresh_s) for each in movers)
        return cost_gpu_s <= self._limits.price * self._capacity * left_s

    def _make(self, moves: list[Move], purpose: str) -> None:
        """All leave first: a new place may be what another one had."""
        for mover, _ in moves:
            self._tx.evict(mover.slot, self._now, mover.saved_s)
        for mover, shares in moves:
            reason = f"moved from node {mover.node}, so that {purpose}"
            self._tx.start(mover.slot, self._pool, shares, self._now, reason)
        self._layer.migrated = (*self._layer.migrated, *(mover.slot for mover, _ in moves))
        self._spending.spend([mover for mover, _ in moves])


def _clearable(movable: Movable) -> Iterator[list[Mover]]:
    """The movers of nodes with nothing else on them, the cheapest first."""
    found = [movers for node in movable.nodes if (movers := movable.alone_on(node))]
    found.sort(key=lambda movers: (sum(each.gpu_s for each in movers), movers[0].node))
    return iter(found)
