"""Whether one waiting job may start now, under every rule of the full queue layer.

The rules: the queue of its tenant is not barred on the pool; quota allows it; it fits; and for every reservation that
binds it (of its class or a higher one, or promised before it came) it has left when that begins, or takes nothing that
it needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.beside import Beside
from schedmate.scheduler.classes import QueueLane, Seen, Settled
from schedmate.scheduler.cluster_types import UNLIMITED, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.fair_share import FairShare
from schedmate.scheduler.faults import SUSPECT, VERY_SUSPECT, is_long_or_wide
from schedmate.scheduler.leaning import leaning
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.placement import View, best_offer
from schedmate.scheduler.placement.elastic import within
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.promises import binds
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, asked_milli, milli_of
from schedmate.scheduler.types import Hints, Reservation

HEAD = "first in the queue and it fits"
IN_TIME = "backfilled: it ends before the reserved start"
BESIDE = "backfilled: it takes nothing that the reservation needs"
ON_HINT = "backfilled: it is expected to end before the reserved start, and is evicted at {:.0f} s if it does not"
NOTHING_RESERVED = "passed a blocked job that is not due yet, does not want that pool, or lets others pass"

#: An order among waiting jobs: rank of the class, seconds, sequence.
Place = tuple[float, float, int]


class Found(NamedTuple):
    """A start: where, beside which plans of the pool (bits), and when it must have left."""

    pool: int
    shares: Shares
    late: int
    leave_s: float


class Trial:
    """Starts jobs one after the other at ``now``; every one sees what those before it took."""

    __slots__ = ("_grown", "_looser", "_now", "_rooms", "_tx", "beside", "layer", "state")

    def __init__(self, state: State, tx: Transaction, now: float) -> None:
        layer = state.layer
        if layer is None:
            raise ValueError("this policy has no queue layer")
        self.layer: QueueLayer = layer
        self.state, self._tx, self._now = state, tx, now
        #: The pools beside some of their plans.
        self.beside = Beside(state, layer)
        #: Whether the second of two sets of plans may allow more than the first, with both.
        self._looser: dict[tuple[int, int], tuple[object, object, bool]] = {}
        #: By pool, what quota leaves, with the objects from which it was made.
        self._rooms: dict[int, tuple[object, object, NDArray[np.int64]]] = {}
        #: Whether some room has grown from less than so much to as much, with the rooms that were compared.
        self._grown: dict[tuple[int, int, int], tuple[object, object, bool]] = {}

    def place_of(self, lane: QueueLane, entry: Entry) -> Place:
        """Where an entry stands in the order of all that wait."""
        layer = self.layer
        if layer.fair is None:
            return lane.rank, entry[0] - lane.shift_s, entry[1]
        return lane.rank, entry[0] + self._standing_s(layer.fair, lane.tenant) - lane.shift_s, entry[1]

    def _standing_s(self, fair: FairShare, tenant: int) -> float:
        """How far a tenant stands back."""
        known_s = self.layer.standings_s
        standing_s = known_s.get(tenant)
        if standing_s is None:
            standing_s = known_s[tenant] = fair.standing(tenant, self._now) * self.state.policy.fair_share_s
        return standing_s

    def standings_s(self, tenants: Iterable[int]) -> NDArray[np.float64]:
        """How far some tenants stand back, by number of all; 0 for the others. Shape (tenants,)."""
        found, fair = np.zeros(len(self.layer.tree.names)), self.layer.fair
        if fair is not None:
            for tenant in tenants:
                found[tenant] = self._standing_s(fair, tenant)
        return found

    def find(self, slot: int, pools: Sequence[int] | None = None) -> Found | None:
        """A start of the waiting job in ``slot`` now, on the best of its pools (of some of them) that have one: see
        `best_offer`."""
        table = self.state.table
        lane, job, demand = table.queue_lanes[slot], table.jobs[slot], table.demands[slot]
        if lane is None or job is None:
            return None
        in_order = bool(
            len(lane.pools) == 1
            or job.gpu_types
            or demand.gpu_types
            or (job.hints is not None and job.hints.gpu_memory_mib is not None)
        )
        return best_offer(self._offers(slot, lane, lane.pools if pools is None else pools), demand, in_order)

    def _offers(self, slot: int, lane: QueueLane, pools: Sequence[int]) -> Iterator[tuple[Found, View, Shares]]:
        """Starts of the waiting job in ``slot``, one a pool."""
        state, layer, demand = self.state, self.layer, self.state.table.demands[slot]
        barred = layer.barred if slot not in layer.queue.reserved else {}
        for pool in pools:
            if (barred and barred.get((lane.tenant, pool), math.inf) <= lane.rank) or self.beside.is_no(pool, demand):
                continue
            if layer.use is not None and layer.use.bound(lane.tenant, pool, self._asked(slot, pool)) >= 0:
                continue
            plans = state.reservations.get(pool, ())
            late, leave_s = self.late(slot, plans) if plans else (0, math.inf)
            if late and layer.use is not None and not self.has_later_quota(slot, lane, pool, late):
                continue
            if self.beside.told(pool, demand, late) is False:
                continue
            view = self.beside.view(pool, late)
            shares = self._place(slot, pool, view, demand)
            if shares is not None:
                yield Found(pool, self.within_quota(slot, pool, shares), late, leave_s), view, shares
            else:
                self.beside.note_no(pool, demand, late)

    def _place(self, slot: int, pool: int, view: View, demand: Demand) -> Shares | None:
        """Beside the nodes that are suspected; on them where there is no other place."""
        leans = leaning(self._hints(slot), self._now)
        avoided = self._avoided(slot, pool)
        if avoided and isinstance(view, PoolIndex):
            shares = self.state.place(view.without(avoided), demand, leans)
            if shares is not None:
                return shares
        return self.state.place(view, demand, leans)

    def _avoided(self, slot: int, pool: int) -> list[int]:
        """The nodes that are too suspect for a job."""
        index, table = self.state.cluster.pools[pool], self.state.table
        if not isinstance(index, PoolIndex) or not index.faults:
            return []
        careful = is_long_or_wide(
            table.jobs[slot], table.assumed[slot].within_s, table.demands[slot].gpus, index.capacity
        )
        least, half_life_s = SUSPECT if careful else VERY_SUSPECT, self.state.policy.suspect_half_life_s
        return [node for node, faults in index.faults.items() if faults.by(self._now, half_life_s) >= least]

    def _hints(self, slot: int) -> Hints | None:
        job = self.state.table.jobs[slot]
        return job.hints if job is not None else None

    def _asked(self, slot: int, pool: int) -> int:
        return asked_milli(self.state.table.demands[slot], self.state.cluster.spec.pools[pool])

    def rooms(self, pool: int) -> NDArray[np.int64]:
        """By tenant, what quota leaves on a pool; nothing where the queue is barred for all who wait in it. Not to be
        changed."""
        layer = self.layer
        left = layer.tree.no_limits if layer.use is None else layer.use.rooms(pool)
        if not layer.barred:
            return left
        known = self._rooms.get(pool)
        if known is not None and known[0] is left and known[1] is layer.barred:
            return known[2]
        barred = {tenant: rank for (tenant, at), rank in layer.barred.items() if at == pool}
        pass_it = {
            lane.tenant
            for lane in layer.queue.lanes
            if lane.rank < barred.get(lane.tenant, -math.inf) and lane.order.first() is not None
        }
        rooms = left.copy()
        rooms[[tenant for tenant in barred if tenant not in pass_it]] = -1
        self._rooms[pool] = left, layer.barred, rooms
        return rooms

    def _plans(self, pool: int) -> tuple[Reservation, ...]:
        return self.state.reservations.get(pool, ())

    def looked(self, lane: QueueLane, pool: int) -> Seen:
        """What a verdict about a job without a reservation rests on now."""
        layer = self.layer
        room = UNLIMITED if layer.use is None else int(layer.use.rooms(pool)[lane.tenant])
        if layer.barred and layer.barred.get((lane.tenant, pool), math.inf) <= lane.rank:
            room = -1
        return Seen(self.beside.verdicts(pool).clock, self._plans(pool), room, layer.undone)

    def is_as_seen(self, pool: int, demand: Demand, last: Seen, now: Seen) -> bool:
        """Whether nothing that matters to a job of that demand has changed since it could not start."""
        if last.undone != now.undone or self._is_looser(last.plans, now.plans):
            return False
        if self.beside.verdicts(pool).gained(self.state.cluster.pools[pool], demand, last.clock):
            return False
        return not last.room < asked_milli(demand, self.state.cluster.spec.pools[pool]) <= now.room

    def settled(self, pool: int) -> Settled:
        """What a verdict about a pool rests on now."""
        return Settled(self.beside.verdicts(pool).clock, self._plans(pool), self.rooms(pool), self.layer.undone)

    def is_settled(self, pool: int, demand: Demand, last: Settled, rooms: NDArray[np.int64]) -> bool:
        """Whether nothing that matters has changed since nothing of a demand could start: what is free, the plans, what
        quota leaves. Time alone lets nothing start."""
        state = self.state
        if last.undone != self.layer.undone or self._is_looser(last.plans, self._plans(pool)):
            return False
        if self.beside.verdicts(pool).gained(state.cluster.pools[pool], demand, last.clock):
            return False
        milli = asked_milli(demand, state.cluster.spec.pools[pool])
        return not self._has_grown(rooms, last.rooms, milli)

    def _is_looser(self, before: Sequence[Reservation], now: Sequence[Reservation]) -> bool:
        """Whether plans may allow what those ``before`` did not: one of these is gone. Others, and less left beside
        those that stay, allow nothing more."""
        if before is now or not before:
            return False
        key = id(before), id(now)
        known = self._looser.get(key)  # both are kept: an identity is that of one object for as long as it lives
        if known is None:
            there = {id(plan.origin) for plan in now}
            known = self._looser[key] = before, now, any(id(plan.origin) not in there for plan in before)
        return known[2]

    def _has_grown(self, rooms: NDArray[np.int64], before: NDArray[np.int64], milli: int) -> bool:
        """Whether some tenant has room for so much that had not ``before``."""
        if rooms is before:
            return False
        key = id(rooms), id(before), milli
        known = self._grown.get(key)  # the rooms are kept: an identity is that of one object for as long as it lives
        if known is None:
            known = self._grown[key] = rooms, before, bool(((rooms >= milli) & (before < milli)).any())
        return known[2]

    def has_quota(self, slot: int, pool: int) -> bool:
        """Whether the job in ``slot`` may use the pool by the quota of its tenant and of all above it."""
        lane, use = self.state.table.queue_lanes[slot], self.layer.use
        return use is None or lane is None or use.bound(lane.tenant, pool, self._asked(slot, pool)) < 0

    def within_quota(self, slot: int, pool: int, shares: Shares) -> Shares:
        """The shares for the job in ``slot``; of an elastic gang, whose least replicas are within quota, so many as its
        tenant may use now and when others start as planned."""
        table, use, index = self.state.table, self.layer.use, self.state.cluster.pools[pool]
        lane, demand = table.queue_lanes[slot], table.demands[slot]
        if use is None or lane is None or not demand.elastic or not isinstance(index, PoolIndex):
            return shares
        rooms = [int(use.rooms(pool)[lane.tenant])]
        plans = self.state.reservations.get(pool, ())
        own, asked = [plan for plan in plans if plan.slot == slot], self._asked(slot, pool)
        for plan in plans:
            if plan.use is not None and plan.slot != slot:
                rooms.append(int(plan.use.rooms(pool)[lane.tenant]) + (asked if _counts(plan, own) else 0))
        return within(index, demand, shares, min(rooms))

    def late(self, slot: int, plans: Sequence[Reservation]) -> tuple[int, float]:
        """One bit for each plan that it would run beyond if it started now, and when it must leave for the others."""
        state, table, now = self.state, self.state.table, self._now
        assumed, job = table.assumed[slot], table.jobs[slot]
        late, leave_s, bit = 0, math.inf, 1
        for plan in plans:
            if plan.slot != slot and binds(state, plan, slot):
                if not (plan.guaranteed or plan.locked or plan.victims):
                    if now + assumed.within_s > plan.start_s:
                        late |= bit
                elif now + assumed.limit_s > plan.start_s:
                    hints = job.hints if job is not None and job.preemptible else None
                    if (
                        not plan.guaranteed
                        or plan.victims
                        or plan.start_s <= now
                        or job is None
                        or hints is None
                        or hints.confidence < state.policy.confidence
                        or now + max(assumed.within_s, job.min_run_s) > plan.start_s
                    ):
                        late |= bit
                    else:
                        leave_s = min(leave_s, plan.start_s)
            bit <<= 1
        return late, leave_s

    def tentative_plan(self, slot: int) -> tuple[int, int] | None:
        """The pool and the number there of the tentative plan of a job, if it has one. When it starts that is gone."""
        if slot in self.layer.tentative:
            for pool, plans in self.state.reservations.items():
                for number, plan in enumerate(plans):
                    if plan.slot == slot:
                        return pool, number
        return None

    def start(self, slot: int, found: Found, reason: str = "") -> None:
        """Start the job in ``slot`` as found."""
        state = self.state
        pool, shares, late, leave_s = found
        plans = state.reservations.get(pool, ())
        own = [plan for plan in plans if plan.slot == slot]
        beside = {id(plan) for i, plan in enumerate(plans) if late >> i & 1}
        self._tx.start(slot, pool, shares, self._now, reason or self._reason(found))
        if leave_s < math.inf:
            self._tx.must_leave(slot, leave_s)
        plans = state.reservations.get(pool, ())
        if plans:
            beside |= self._take_from(slot, pool, shares, plans)
            if beside or own:
                kept = tuple(self._with(plan, slot, found, id(plan) in beside, own) for plan in plans)
                state.reservations = {**state.reservations, pool: kept}
        self.beside.started(pool, shares)

    def _take_from(self, slot: int, pool: int, shares: Shares, plans: Sequence[Reservation]) -> set[int]:
        """Identities of the plans that do not bind a job and begin while it runs; those that lack what it has taken,
        nodes or quota, are void."""
        state, assumed, found = self.state, self.state.table.assumed[slot], set()
        lane, milli = state.table.queue_lanes[slot], self._asked(slot, pool)
        nodes = {share[0] for share in shares}
        for plan in plans:
            stays_s = assumed.limit_s if plan.guaranteed else assumed.within_s
            if plan.slot == slot or self._now + stays_s <= plan.start_s or binds(state, plan, slot):
                continue
            found.add(id(plan))
            self.layer.take_from(plan, nodes)
            if plan.use is not None and lane is not None and plan.use.bound(lane.tenant, pool, milli) >= 0:
                self.layer.void |= {(plan.slot, plan.guaranteed)}
        return found

    def _with(
        self, plan: Reservation, slot: int, found: Found, beside: bool, own: Sequence[Reservation]
    ) -> Reservation:
        """Another plan with what is left when the job in ``slot`` runs, which had plans of its ``own``."""
        lane, use, spare = self.state.table.queue_lanes[slot], plan.use, plan.spare
        counted = _counts(plan, own)
        as_planned = any(each.start_s == self._now and each.guaranteed == plan.guaranteed for each in own)
        stays = beside or (counted and as_planned)
        taken = milli_of(self.state.table.demands[slot], found.shares) if stays else 0
        change = taken - (self._asked(slot, found.pool) if counted else 0)
        if use is not None and lane is not None and change:
            use = use.copy()
            use.charge(lane.tenant, found.pool, change)
        if beside:
            spare = self.state.cluster.pools[found.pool].less(spare, found.shares)
        if change < 0:  # it leaves more than it did
            return replace(plan, spare=spare, use=use)
        return plan if use is plan.use and spare is plan.spare else plan.sparing(spare, use)

    def _reason(self, found: Found) -> str:
        if found.leave_s < math.inf:
            return ON_HINT.format(found.leave_s)
        if found.late:
            return BESIDE
        return IN_TIME if self.state.reservations.get(found.pool) else NOTHING_RESERVED

    def has_later_quota(self, slot: int, lane: QueueLane, pool: int, late: int) -> bool:
        """Whether there is quota as well when the plans begin beyond which a job would run."""
        plans, milli = self.state.reservations.get(pool, ()), self._asked(slot, pool)
        own = [plan for plan in plans if plan.slot == slot]
        for i, plan in enumerate(plans):
            if late >> i & 1 and plan.use is not None:
                use = plan.use
                if _counts(plan, own):
                    use = use.copy()
                    use.charge(lane.tenant, pool, -milli)
                if use.bound(lane.tenant, pool, milli) >= 0:
                    return False
        return True


def _counts(plan: Reservation, own: Sequence[Reservation]) -> bool:
    """Whether a job with its ``own`` plans is counted in the use at the start of another plan. A claim counts what runs
    and no plans."""
    return not plan.victims and any(
        each.guaranteed == plan.guaranteed and each.start_s <= plan.start_s < each.end_s and each.slot != plan.slot
        for each in own
    )
