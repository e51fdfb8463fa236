"""Elastic gangs give back what they have grown by when a blocked job of their class or a higher one starts by it.

Nobody is evicted for that, and what a gang started with stays its own. A job that can not be helped so is not looked at
again before something has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.scheduler.elastic import counts
from schedmate.scheduler.placement.elastic import shrunk
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.trial import Found, Trial

GIVEN_BACK = "fits after elastic gangs gave back what they had grown by"

#: So many gangs are looked at for one job, those that have grown last first.
MOST_LENDERS = 16


def give_back(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`, for the jobs that it left blocked."""
    layer, table = state.layer, state.table
    if layer is None or not table.phases or not state.blocked or state.policy.starts_by_plan:
        return
    leaving = layer.leaving.ends_s
    loans = {slot: on_loan for slot in table.phases if slot not in leaving and (on_loan := _loan(state, slot))}
    for slot in state.blocked if loans else ():
        known = _known(state, layer, slot)
        if layer.asked_back.get(slot) == known:
            continue
        lenders = _lenders(state, slot, loans)
        found = _Lent(state, tx, slot, now).start(lenders) if lenders else False
        if found:
            loans = {other: on_loan for other in loans if (on_loan := _loan(state, other))}
            state.blocked = [other for other in state.blocked if other != slot]
        else:
            layer.asked_back = {**_present(layer), slot: _known(state, layer, slot)}


def _present(layer: QueueLayer) -> dict[int, tuple[object, ...]]:
    return {} if len(layer.asked_back) > 256 else layer.asked_back


def _known(state: State, layer: QueueLayer, slot: int) -> tuple[object, ...]:
    """What a refusal rests on: what has been freed, the plans (by identity), which job it is."""
    lane = state.table.queue_lanes[slot]
    pools = () if lane is None else lane.pools
    plans = tuple(state.reservations.get(pool, ()) for pool in pools)
    return state.table.entries[slot][1], *(layer.verdicts[pool].clock for pool in pools), *map(id, plans), plans


def _loan(state: State, slot: int) -> int:
    """Replicas that a gang has beyond those it started with."""
    have = counts(state.table.demands[slot], state.table.shares[slot] or ())
    return sum(max(0, n - own) for n, own in zip(have, state.table.phases[slot].own, strict=True))


def _lenders(state: State, slot: int, loans: dict[int, int]) -> list[int]:
    """Who might help: enough of them on one of the job's pools, of its class or a lower one."""
    table, lane = state.table, state.table.queue_lanes[slot]
    found: list[int] = []
    for pool in () if lane is None else lane.pools:
        here = [
            other
            for other in loans
            if table.pools[other] == pool
            and (theirs := table.queue_lanes[other]) is not None
            and lane is not None
            and theirs.rank >= lane.rank
        ]
        here.sort(key=lambda other: (-table.phases[other].since_s, other))
        lent = sum(table.gpus[other] for other in here[:MOST_LENDERS])
        if state.cluster.pools[pool].free_gpus + lent >= table.demands[slot].least_gpus:
            found += here[:MOST_LENDERS]
    return found


class _Lent:
    """One blocked job and what could be given back for it."""

    def __init__(self, state: State, tx: Transaction, slot: int, now: float) -> None:
        self._state, self._tx, self._slot, self._now = state, tx, slot, now

    def start(self, lenders: Sequence[int]) -> bool:
        """Start the job by as few replicas given back as will do; False, and nothing changed, if all are too few."""
        given = {other: _loan(self._state, other) for other in lenders}
        if not self._suffices(given):
            return False
        for other in lenders:
            low, high = -1, given[other]  # `high` suffices
            while high - low > 1:
                middle = (low + high) // 2
                if self._suffices({**given, other: middle}):
                    high = middle
                else:
                    low = middle
            given[other] = high
        found = self._find(given)
        if found is None:
            raise RuntimeError("what was found to suffice does not")
        Trial(self._state, self._tx, self._now).start(self._slot, found, GIVEN_BACK)
        return True

    def _suffices(self, given: dict[int, int]) -> bool:
        point = self._tx.savepoint()
        found = self._find(given)
        self._tx.back_to(point)
        return found is not None

    def _find(self, given: dict[int, int]) -> Found | None:
        """A start of the job when so many replicas are given back by each; these are."""
        for other, replicas in given.items():
            if replicas:
                self._shrink(other, replicas)
        return Trial(self._state, self._tx, self._now).find(self._slot)

    def _shrink(self, other: int, replicas: int) -> None:
        table = self._state.table
        index, demand, shares = self._state.cluster.pools[table.pools[other]], table.demands[other], table.shares[other]
        if not isinstance(index, PoolIndex) or shares is None:
            raise ValueError(f"slot {other} runs no elastic job")
        keep = list(counts(demand, shares))
        for role in reversed(range(len(keep))):  # those that grow last shrink first
            fewer = min(replicas, max(0, keep[role] - table.phases[other].own[role]))
            keep[role] -= fewer
            replicas -= fewer
        self._tx.resize(other, shrunk(index, demand, shares, keep), self._now)
