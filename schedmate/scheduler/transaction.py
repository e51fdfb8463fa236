"""The only way to change the state: begin, apply, then commit or discard whole.

Everything applied is written to a log, so a discard undoes exactly that, in reverse, and leaves no trace. There is
one transaction object per scheduler; opening it costs nothing that grows with the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappush
from operator import attrgetter
from typing import Any, NamedTuple

from schedmate.scheduler import resizing
from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.cluster_types import WHOLE_MILLI, PoolSpec, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.elastic import counts, slowest
from schedmate.scheduler.policies import FIRST_S
from schedmate.scheduler.queue_layer import QueueLayer, assumed_again
from schedmate.scheduler.running import enters, leaves
from schedmate.scheduler.state import State
from schedmate.scheduler.types import Reservation, Victim
from schedmate.scheduler.undo import CHANGED_BY_EVICTION, UNDO, ends_of, the_layer

#: What a transaction puts back of the state: values that are replaced, never changed in place.
_SAVED = (
    "reservations", "reserved_for", "blocked", "fresh", "stale", "gained", "evicted", "rank_s", "standing",
)  # fmt: skip
_saved: Callable[[State], tuple[object, ...]] = attrgetter(*_SAVED)


class Savepoint(NamedTuple):
    """How far a transaction has come: entries logged, jobs started, and what is replaced rather than logged."""

    logged: int
    started: int
    state: tuple[object, ...]
    layer: tuple[object, ...]


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
        state = self._state  # this is done for every job: a savepoint would take a while to make
        self._saved = _saved(state)
        self._saved_layer = state.layer.saved() if state.layer is not None else ()
        self.started = []

    def start(self, slot: int, pool: int, shares: Shares, now: float, reason: str) -> None:
        """Start the waiting job in ``slot`` on ``shares``."""
        state = self._state
        table, cluster = state.table, state.cluster
        cluster.pools[pool].take(shares)
        elastic = table.demands[slot].elastic
        if elastic:
            table.gpus[slot] = sum(share[1] for share in shares)
        cluster.allocated_gpus += table.gpus[slot]
        state.dequeue(slot)
        table.shares[slot] = shares
        table.pools[slot] = pool
        table.starts_s[slot] = now
        table.reasons[slot] = reason
        if elastic:
            table.phases[slot] = resizing.first_phase(state, slot, now)
        if state.ends is not None:
            state.ends.add(slot, now + table.assumed[slot].ends_s)
        if state.limits is not None:
            state.limits.add(slot, now + table.assumed[slot].limit_s)
        self.started.append(slot)
        self._log.append(("start", slot, shares, 0.0))
        if state.accounts is not None:
            self._account(slot, table.gpus[slot], now)
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
        if table.phases and slot in table.phases:
            self._log.append(("phase", slot, table.phases.pop(slot), 0.0))
        state.gained = True
        if state.accounts is not None:
            self._account(slot, -table.gpus[slot], now)
        self._log.append(("stop", slot, shares, end_s))
        if state.layer is not None:
            state.layer.freed(cluster.pools[table.pools[slot]], table.pools[slot], shares)

    def evict(self, slot: int, now: float, saved_s: float, for_another: bool = False, place: float = -math.inf) -> None:
        """Take the running job in ``slot`` off its GPUs and let it wait again, at the head of its class or where it
        ranks now, with ``saved_s`` of the work of this run saved. ``for_another``: so that another job can start;
        ``place``: at this place in its queue instead."""
        state, table, layer = self._state, self._state.table, self._state.layer
        job = table.jobs[slot]
        if job is None:
            raise ValueError(f"slot {slot} holds no job")
        worked_s = table.work_s(slot, now)
        self.stop(slot, now)
        self._log[-1] = ("unplace", *self._log[-1][1:])
        old = tuple(getattr(table, name)[slot] for name in CHANGED_BY_EVICTION)
        self._log.append(("evict", slot, old, 0.0))
        table.done_s[slot] += saved_s
        table.served_s[slot] += worked_s
        table.evictions[slot] += 1
        table.preemptions[slot] += for_another
        full, least = state.policy.assume(job), slowest(job, table.demands[slot])
        table.assumed[slot] = assumed_again(full, table.done_s[slot], job.restart_s, least)
        table.pools[slot] = -1
        entry, ranking = table.entries[slot], state.policy.ranking
        if ranking is not None:
            place = ranking.waiting(job, table.done_s[slot], table.served_s[slot])
            state.evicted = (*state.evicted, slot)
        # One object an entry: a second one of equal value would be taken for another job.
        state.enqueue(slot, entry if entry[0] == place else (place, entry[1], slot))
        if layer is not None:
            heappush(layer.waits, (job.submit_s + state.policy.starvation_bound_s, table.entries[slot][1], slot))
            layer.evicted = (*layer.evicted, slot)
            lane = table.queue_lanes[slot]
            layer.gained |= 0 if lane is None else lane.pool_bits  # it may start on another pool at once

    def resize(self, slot: int, shares: Shares, now: float) -> None:
        """Let the running elastic gang in ``slot`` go on with ``shares`` of its pool, chosen on this very state: more
        replicas or fewer. It loses no work. ``ValueError`` if it is not elastic or may not be so small or large."""
        layer = the_layer(self._state)
        before = resizing.resize(self._state, layer, slot, shares, now)
        self._log.append(("resize", slot, before, 0.0))
        demand = self._state.table.demands[slot]
        self._charge_milli(layer, slot, milli_of(demand, shares) - milli_of(demand, before.shares), now)

    def repair(self, slot: int, shares: Shares, now: float) -> None:
        """Let the running gang in ``slot``, which has lost some of its GPUs, go on with ``shares`` from its last
        checkpoint. With fewer replicas than it began with it is to get them back, see `QueueLayer.hurt`."""
        layer, table = the_layer(self._state), self._state.table
        saved_s, demand = table.saved_s(slot, now, told=False), table.demands[slot]
        before = resizing.resize(self._state, layer, slot, shares, now, saved_s)
        self._log.append(("resize", slot, before, 0.0))
        self._charge_milli(layer, slot, milli_of(demand, shares) - milli_of(demand, before.shares), now)
        fewer = any(n < own for n, own in zip(counts(demand, shares), table.phases[slot].own, strict=True))
        if fewer and slot not in layer.hurt:
            layer.hurt = (*layer.hurt, slot)

    def take_from_plans(self, slot: int, pool: int, added: Shares) -> None:
        """Plans leave less unused now that the running job in ``slot`` has ``added``, which takes nothing from them."""
        state = self._state
        lane, index, plans = state.table.queue_lanes[slot], state.cluster.pools[pool], state.reservations.get(pool, ())
        kept = []
        for plan in plans:
            use, spare = plan.use, index.less(plan.spare, added)
            if use is not None and lane is not None:
                use = use.copy()
                use.charge(lane.tenant, pool, milli_of(state.table.demands[slot], added))
            kept.append(plan if use is plan.use and spare is plan.spare else replace(plan, spare=spare, use=use))
        if plans:
            state.reservations = {**state.reservations, pool: tuple(kept)}

    def withdraw(self, slot: int) -> None:
        """The waiting job in ``slot`` gives up; the slot is free to be used again after the commit."""
        state, table = self._state, self._state.table
        if table.live[slot] is None:
            raise ValueError(f"slot {slot} does not wait")
        self._log.append(("withdraw", slot, (), 0.0))
        state.dequeue(slot)
        if slot in state.fresh:  # the slot may be another job's before the next cycle
            state.fresh = [other for other in state.fresh if other != slot]
        if state.layer is not None:
            lane = table.queue_lanes[slot]
            state.layer.gained |= lane.pool_bits if lane is not None else 0
            self._let_go(state.layer, slot)
            self.drop_tentative(slot)
        elif any(plan.slot == slot for plans in state.reservations.values() for plan in plans):
            state.reserved_for = [other for other in state.reserved_for if other != slot]
            kept = {pool: tuple(p for p in plans if p.slot != slot) for pool, plans in state.reservations.items()}
            state.reservations = {pool: plans for pool, plans in kept.items() if plans}
            state.stale = state.gained = True

    def hold(self, slot: int) -> None:
        """The waiting job in ``slot`` has got a reservation: it is in no lane any more."""
        state = self._state
        if state.layer is None:
            raise ValueError("this policy has no queue layer")
        self.drop_tentative(slot)
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
        """Move the waiting job in ``slot`` to another lane, at the same place, as if it had always been in it."""
        state, table = self._state, self._state.table
        old = table.entries[slot]
        self._log.append(("lane", slot, (table.queue_lanes[slot], old), 0.0))
        table.queue_lanes[slot] = lane
        state.enqueue(slot, (old[0], old[1], slot))

    def waited(self, wait: tuple[float, int, int]) -> None:
        """An entry of the heap of those who wait has been taken from it, because they have waited too long."""
        self._log.append(("waited", wait[2], wait, 0.0))

    def move_expected_end(self, slot: int, end_s: float) -> None:
        """`move_end` for the full queue layer."""
        self._move_in("ends", slot, end_s)

    def must_leave(self, slot: int, by_s: float) -> None:
        """The running job in ``slot`` is to be evicted at ``by_s`` if it still runs then; infinite to let it run on."""
        layer, table = the_layer(self._state), self._state.table
        self.leave_by(slot, by_s)
        if layer.limits is not None:
            self._move_in("limits", slot, min(by_s, table.starts_s[slot] + table.assumed[slot].limit_s))

    def leave_by(self, slot: int, by_s: float) -> None:
        """The same, but guaranteed plans do not count on it."""
        leaving = the_layer(self._state).leaving
        self._log.append(("leave", slot, (), leaving.remove(slot) if slot in leaving.ends_s else math.inf))
        if by_s < math.inf:
            leaving.add(slot, by_s)

    def try_until(self, slot: int, due_s: float) -> None:
        """The running job in ``slot`` is a probe until ``due_s``; infinite if it is none any more."""
        trying = the_layer(self._state).trying
        self._log.append(("try", slot, (), trying.remove(slot) if slot in trying.ends_s else math.inf))
        if due_s < math.inf:
            trying.add(slot, due_s)

    def put_back(self, slot: int, now: float) -> None:
        """The probe in ``slot`` is over: the job waits again, at the place that it has without the lane."""
        table, policy = self._state.table, self._state.policy
        place = policy.order(table.present(slot), self._state.cluster.spec.gpus)
        self.evict(slot, now, table.saved_s(slot, now, told=False), place=place)

    def claim(self, slot: int, plans: Sequence[Reservation]) -> None:
        """The waiting job in ``slot`` gets ``plans``, which all have the same victims, in place of any that it has; its
        victims have to leave by then."""
        state, layer = self._state, the_layer(self._state)
        if slot in layer.queue.reserved:
            self._drop_plans(layer, slot)
        else:
            self.hold(slot)
        layer.claimed |= {slot}
        pool = plans[0].pool
        state.reservations = {**state.reservations, pool: (*state.reservations.get(pool, ()), *plans)}
        for victim in plans[0].victims:
            self.leave_by(victim.slot, min(victim.left_s, plans[0].start_s))

    def give_up(self, slot: int) -> None:
        """What the waiting job in ``slot`` has claimed is not to be had any more; its victims stay."""
        layer = the_layer(self._state)
        layer.promised = {other: at for other, at in layer.promised.items() if other != slot}
        self._drop_plans(layer, slot)
        self.release(slot)

    def _move_in(self, kind: str, slot: int, end_s: float) -> None:
        ends = ends_of(self._state, kind, self._state.table.pools[slot])
        self._log.append((kind, slot, (), ends.remove(slot)))
        ends.add(slot, end_s)

    def _enter(self, layer: QueueLayer, slot: int, now: float) -> None:
        """What the queue layer notes of a start."""
        table = self._state.table
        pool, assumed = table.pools[slot], table.assumed[slot]
        layer.ends[pool].add(slot, resizing.expected_end_s(self._state, slot, now))
        if layer.limits is not None:
            layer.limits[pool].add(slot, now + assumed.limit_s)
        self._charge(layer, slot, 1, now)
        enters(self._state, layer, slot)
        self._try(layer, slot, now)
        if layer.queue.reserved:
            self._let_go(layer, slot)
        self.drop_tentative(slot)

    def _try(self, layer: QueueLayer, slot: int, now: float) -> None:
        """The first run of a job in the early-failure lane is a probe, unless it starts because it has waited long."""
        early, table = self._state.early, self._state.table
        if early is None or slot not in early or table.evictions[slot]:
            return
        lane = table.queue_lanes[slot]
        waited = table.entries[slot][0] <= FIRST_S or (lane is not None and lane.rank == -math.inf)
        if not waited and slot not in layer.queue.reserved:
            self.try_until(slot, now + early.probe_s(table.present(slot)))

    def _leave(self, layer: QueueLayer, slot: int, now: float) -> None:
        """What the queue layer notes before a running job is taken away."""
        table = self._state.table
        pool = table.pools[slot]
        leaves(self._state, layer, slot)
        end_s = layer.ends[pool].remove(slot)
        limit_s = layer.limits[pool].remove(slot) if layer.limits is not None else math.inf
        by_s = layer.leaving.remove(slot) if slot in layer.leaving.ends_s else math.inf
        self._log.append(("left", slot, (pool, end_s, limit_s), by_s))
        if slot in layer.trying.ends_s:
            self.try_until(slot, math.inf)
        if slot in layer.hurt:
            layer.hurt = tuple(other for other in layer.hurt if other != slot)
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
        if layer.use is not None:
            table = self._state.table
            milli = milli_of(table.demands[slot], table.shares[slot] or ())
            self._charge_milli(layer, slot, sign * milli, now)

    def _charge_milli(self, layer: QueueLayer, slot: int, milli: int, now: float) -> None:
        if layer.use is None or layer.fair is None:
            return
        table = self._state.table
        lane, pool = table.queue_lanes[slot], table.pools[slot]
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
        self._drop_plans(layer, slot)

    def drop_tentative(self, slot: int) -> None:
        """The job in ``slot`` has no tentative plan any more, if it had one."""
        layer = self._state.layer
        if layer is not None and slot in layer.tentative:
            layer.tentative -= {slot}
            self._drop_plans(layer, slot)

    def _drop_plans(self, layer: QueueLayer, slot: int) -> None:
        """Victims that have not left yet need not any more."""
        state = self._state
        layer.claimed -= {slot}
        for pool, plans in state.reservations.items():
            if any(plan.slot == slot for plan in plans):
                own = [plan for plan in plans if plan.slot == slot]
                for victim in own[0].victims:
                    if is_there(state, victim) and victim.slot in layer.leaving.ends_s:
                        self.leave_by(victim.slot, victim.left_s)
                kept = tuple(plan for plan in plans if plan.slot != slot)
                rest = {p: others for p, others in state.reservations.items() if p != pool}
                state.reservations = {**rest, pool: kept} if kept else rest
                layer.gained |= 1 << pool
                if not all(self._runs_as_planned(layer, plan) for plan in own):
                    layer.stale |= 1 << pool
                break

    def _runs_as_planned(self, layer: QueueLayer, plan: Reservation) -> bool:
        """Whether a job runs where, from when and until when a plan of it says: all that other plans rest on."""
        table, slot = self._state.table, plan.slot
        ends = layer.limits[plan.pool] if plan.guaranteed and layer.limits is not None else layer.ends[plan.pool]
        as_planned = (plan.start_s, plan.shares) == (table.starts_s[slot], table.shares[slot])
        return as_planned and ends.ends_s.get(slot, math.inf) >= plan.end_s

    def move_end(self, slot: int, end_s: float) -> None:
        """Change when the running job in ``slot`` is expected to end."""
        ends = self._state.ends
        if ends is None:
            raise ValueError("this policy keeps no expected ends")
        self._log.append(("move", slot, (), ends.remove(slot)))
        ends.add(slot, end_s)

    def promote(self, slot: int) -> None:
        """Move the waiting job in ``slot`` before all that were not promoted; in the full queue layer, before those of
        its tenant and class."""
        self.reorder(slot, -math.inf if self._state.layer is None else FIRST_S)

    def reorder(self, slot: int, key: float) -> None:
        """Move the waiting job in ``slot`` to another place in the queue."""
        old = self._state.table.entries[slot]
        self._log.append(("reorder", slot, old, 0.0))
        self._state.enqueue(slot, (key, old[1], slot))

    def _account(self, slot: int, gpus: int, now: float) -> None:
        accounts, job = self._state.accounts, self._state.table.jobs[slot]
        if accounts is not None and job is not None:
            self._log.append(("account", slot, accounts.charge(job.account or "", gpus, now), 0.0))

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
        self.back_to(Savepoint(0, 0, self._saved, self._saved_layer))
        self.is_open = False

    def savepoint(self) -> Savepoint:
        """Where `back_to` comes back to, as long as the transaction stays open."""
        state = self._state
        layer = state.layer.saved() if state.layer is not None else ()
        return Savepoint(len(self._log), len(self.started), _saved(state), layer)

    def back_to(self, point: Savepoint) -> None:
        """Undo what was done since, and nothing else."""
        state = self._state
        for kind, slot, what, end_s in reversed(self._log[point.logged :]):
            UNDO[kind](state, slot, what, end_s)
        del self._log[point.logged :]
        del self.started[point.started :]
        for name, value in zip(_SAVED, point.state, strict=True):
            setattr(state, name, value)
        if state.layer is not None:
            state.layer.put_back(point.layer)
            state.layer.undone += 1


def is_there(state: State, victim: Victim) -> bool:
    """Whether a victim still runs."""
    table = state.table
    slot, sequence, evictions, _ = victim
    return table.shares[slot] is not None and table.entries[slot][1] == sequence and table.evictions[slot] == evictions


def asked_milli(demand: Demand, pool: PoolSpec) -> int:
    """What a demand counts on a pool at least, in thousandths of a GPU: slices have their size there, an elastic gang
    has its least replicas."""
    parts = [(role.profile, role.least_replicas) for role in demand.roles if role.profile is not None]
    if not parts:
        return demand.least_milli
    sizes = {profile.name: profile.milli for profile in pool.profiles}
    return demand.least_milli + sum(sizes.get(profile, 0) * replicas for profile, replicas in parts)


def milli_of(demand: Demand, shares: Shares) -> int:
    """What a placement counts in its tenant's quota, in thousandths of a GPU."""
    if demand.whole:
        return demand.gpu_milli
    return sum(share[1] * WHOLE_MILLI + (share[3] if len(share) > 3 else 0) for share in shares)
