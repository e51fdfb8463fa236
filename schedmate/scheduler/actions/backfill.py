"""Start later jobs that delay no reserved start.

A waiting job may start now when it fits and, for every reservation on that pool, either ends no later than its shadow
time or has a placement beside it: one that leaves every reserved GPU free at the shadow time. Against an expected
start counts the job's own estimate, against a guaranteed one its hard limit. Jobs are taken in the order of the queue,
or by `Policy.backfill_by`, until none qualifies. Capacity only shrinks on the way, so this is the same as one walk
through the queue; jobs of one size share the verdict "does it fit".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from schedmate.scheduler.actions.allocate import allocate
from schedmate.scheduler.actions.reserve import reserve
from schedmate.scheduler.assumptions import Assumed
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pending import Entry, SizeClass
from schedmate.scheduler.placement import View
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Reservation

IN_TIME = "backfilled: it ends before the reserved start"
BESIDE = "backfilled: it takes nothing that the reservation needs"
NOTHING_RESERVED = "passed a blocked job that is not due yet, or does not want that pool"

#: Which field of `Assumed` counts against an expected and against a guaranteed start.
_BOUND = {False: Assumed._fields.index("within_s"), True: Assumed._fields.index("limit_s")}

#: An entry of the queue, the pool, the GPUs, and the reservations (one bit each) beside which it runs on.
Found = tuple[Entry, int, Shares, int]


def backfill(state: State, tx: Transaction, now: float) -> None:
    """Runs after `reserve`. Without gained capacity only the jobs that are new since the last cycle are looked at.

    A blocked head may start on another pool than the one where it has its plan. That plan is gone then, and who stands
    behind it is the head: the heads are looked at and reserved for anew.
    """
    while _start_until_head(state, tx, now):
        allocate(state, tx, now)
        reserve(state, tx, now)


def _start_until_head(state: State, tx: Transaction, now: float) -> bool:
    """Start what may start, as long as that is no blocked head; whether it was one."""
    fresh = state.fresh
    if fresh:
        state.fresh = []
    if not state.blocked:
        state.gained = False
    elif state.gained:
        while (found := first_startable(state, now)) is not None:
            start_found(state, tx, now, found)
            if found[0][2] in state.blocked:
                return True
        state.gained = False
    elif fresh:
        passing = state.table.passing
        for entry in sorted(entry for slot in fresh if (entry := passing[slot]) is not None):
            one = startable(state, now, entry)
            if one is not None:
                start_found(state, tx, now, one)
                if entry[2] in state.blocked:
                    state.gained = True  # the other new ones have not been looked at
                    return True
    return False


def start_found(state: State, tx: Transaction, now: float, found: Found) -> None:
    """Start what may start; the plans beside which it runs on have that much less to spare."""
    entry, pool, shares, beside = found
    reservations = state.reservations.get(pool, ())
    reason = BESIDE if beside else IN_TIME if reservations else NOTHING_RESERVED
    tx.start(entry[2], pool, shares, now, reason)
    if beside:
        less = state.cluster.pools[pool].less
        kept = tuple(
            replace(r, spare=less(r.spare, shares)) if beside >> i & 1 else r for i, r in enumerate(reservations)
        )
        state.reservations = {**state.reservations, pool: kept}


class _Verdicts:
    """Placements of one demand on one pool, for each set of reservations (bits) beside which the job would run on."""

    __slots__ = ("_by_set", "_demand", "_pool", "_state", "_views")

    def __init__(
        self, state: State, pool: int, demand: Demand, unreserved: Shares, views: dict[tuple[int, int], View]
    ) -> None:
        self._state, self._pool, self._demand, self._views = state, pool, demand, views
        self._by_set: dict[int, Shares | None] = {0: unreserved}

    def __call__(self, late: int) -> Shares | None:
        if late not in self._by_set:
            self._by_set[late] = self._state.place(self._view(late), self._demand)
        return self._by_set[late]

    def _view(self, late: int) -> View:
        key = (self._pool, late)
        if key not in self._views:
            plans = enumerate(self._state.reservations[self._pool])
            spares = [reservation.spare for i, reservation in plans if late >> i & 1]
            self._views[key] = self._state.cluster.pools[self._pool].restricted(spares)
        return self._views[key]


def runs_beyond(plan: Reservation, assumed: Assumed, now: float) -> bool:
    """Whether a job that starts now would not have ended when a plan begins, by what counts against that."""
    return now + assumed[_BOUND[plan.guaranteed]] > plan.start_s


def _late(reservations: tuple[Reservation, ...], assumed: Assumed, now: float) -> int:
    """One bit for each reservation that the job would run beyond."""
    late, bit = 0, 1
    for reservation in reservations:
        if runs_beyond(reservation, assumed, now):
            late |= bit
        bit <<= 1
    return late


def first_startable(state: State, now: float, last: Entry | None = None) -> Found | None:
    """The first job, in the order of those who pass, that may start now; with ``last``, up to that entry."""
    best: Found | None = None
    views: dict[tuple[int, int], View] = {}
    pools, place = state.cluster.pools, state.place
    for lane in state.queue.lanes:
        free_gpus = max(pools[pool].free_gpus for pool in lane.pools)
        for demand, sized in (lane.by_size or {}).items() if free_gpus else ():
            if demand.gpus > free_gpus:
                continue
            first = sized.first()
            if first is None or (best is not None and best[0] < first) or (last is not None and last < first):
                continue
            for pool in lane.pools:
                shares = place(pools[pool], demand)
                if shares is not None:
                    verdict = _Verdicts(state, pool, demand, shares, views)
                    found = _in_class(state, now, sized, first, pool, verdict)
                    if found is not None and (best is None or found[0] < best[0]):
                        best = found
    return best if best is None or last is None or best[0] <= last else None


def _in_class(state: State, now: float, sized: SizeClass, first: Entry, pool: int, verdict: _Verdicts) -> Found | None:
    """The first job of one size that may start now on the pool."""
    found = _among(state, now, (first,), pool, verdict)
    reservations = state.reservations.get(pool, ())
    if found is not None or not reservations or now + sized.shortest_s > max(r.start_s for r in reservations):
        return found
    starts_s = [(_BOUND[r.guaranteed], r.start_s) for r in reservations]
    picked = sized.first_admitted(state.table.assumed, starts_s, now, lambda late: verdict(late) is not None)
    if picked is None:
        return None
    entry, late = picked
    shares = verdict(late)
    return None if shares is None else (entry, pool, shares, late)


def startable(state: State, now: float, entry: Entry) -> Found | None:
    """Whether this one job may start now."""
    lane, demand = state.table.lanes[entry[2]], state.table.demands[entry[2]]
    for pool in lane.pools if lane is not None else ():
        shares = state.place(state.cluster.pools[pool], demand)
        if shares is not None:
            found = _among(state, now, (entry,), pool, _Verdicts(state, pool, demand, shares, {}))
            if found is not None:
                return found
    return None


def _among(state: State, now: float, entries: Iterable[Entry], pool: int, verdict: _Verdicts) -> Found | None:
    reservations, assumed = state.reservations.get(pool, ()), state.table.assumed
    for entry in entries:
        late = _late(reservations, assumed[entry[2]], now)
        shares = verdict(late)
        if shares is not None:
            return entry, pool, shares, late
    return None
