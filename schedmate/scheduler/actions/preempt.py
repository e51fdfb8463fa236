"""Make room for jobs of a higher class, and for what tenants are guaranteed, by evicting others.

A blocked job takes what it needs if a minimal set of victims lets it start, by the rules of `eviction_rules`: nobody is
told to leave before a placement without them is found. Victims without grace are gone at once and the job starts; those
with grace are told, and what they leave is the job's (see `claims`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from schedmate.scheduler.actions.age import age
from schedmate.scheduler.actions.plan import FOLLOW_S, MOMENT_S, NEXT_TURN_S, is_rushed
from schedmate.scheduler.claims import SHORTEST_SPAN_S, claimed_spare, kinds, standing
from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.cluster_types import WHOLE_MILLI
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.elastic import minimum
from schedmate.scheduler.eviction_rules import Candidate, Later, Rules, Toll
from schedmate.scheduler.eviction_search import find_victims
from schedmate.scheduler.placement.elastic import shrunk
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.promises import binds
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.shrinking import Shrinking, smaller, surplus
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import Queueing, TenantUse
from schedmate.scheduler.transaction import Transaction, asked_milli, milli_of
from schedmate.scheduler.trial import Found, Place, Trial
from schedmate.scheduler.types import Preemption, Reservation, Victim
from schedmate.scheduler.vacated import Vacated, Victims

FOR_CLASS = "takes the place of {} of a lower class"
SHRUNK = "fits after elastic gangs of lower classes or of borrowers have shrunk: {}"
FOR_QUOTA = "takes back what its tenant is guaranteed from {}"

#: Jobs of one lane that are looked at in a cycle: one that can take nothing, for want of quota say, should not keep
#: back all behind it.
DEPTH = 4


#: Where so many jobs run something changes all the time, and a search is no small thing: a job for which nothing was
#: found rests for `FOLLOW_S`; in one cycle one job is helped, or one is looked at in vain. The others have their turn a
#: moment after somebody was helped, else after `NEXT_TURN_S`, whether anything happens or not.
CROWD = 200

#: Refusals that are remembered.
MOST_REFUSALS = 4096


class _Taking(NamedTuple):
    """What a job can take: on which pool, from whom, beside which plans (bits) it runs then, and when."""

    pool: int
    victims: Victims
    late: int
    start_s: float


def preempt(state: State, tx: Transaction, now: float) -> None:
    """Runs after `admit`, so that whoever fits has started."""
    layer = state.layer
    if layer is None:
        return
    layer.spared_s = math.inf
    takes = any(layer.evictable.gpus)
    if takes and is_rushed(state, layer):
        layer.spared_s = now + MOMENT_S
        return
    if takes:
        _help_all(state, layer, tx, now)
    age(state, tx, now)  # who was evicted in this cycle may have waited too long


def _help_all(state: State, layer: QueueLayer, tx: Transaction, now: float) -> None:
    action = _Preempting(state, layer, tx, now)
    helped = True
    while helped and not action.is_over():  # where one was helped the next of its queue may be as well
        helped = False
        for slot in action.in_order():
            helped |= action.try_for(slot)
            if action.is_over():
                break


class _Preempting:
    """The blocked jobs one after the other; each sees what those before it have taken."""

    def __init__(self, state: State, layer: QueueLayer, tx: Transaction, now: float) -> None:
        self._state, self._layer, self._tx, self._now = state, layer, tx, now
        self._standing = standing(state)
        self._known_sums: dict[tuple[int, float], tuple[int, int]] = {}
        self._in_vain = self._helped = 0

    def in_order(self) -> list[int]:
        """The slots to look at: those with a reservation and the first of every lane."""
        trial, table = Trial(self._state, self._tx, self._now), self._state.table
        found: list[tuple[Place, int]] = []
        for slot in self._layer.reserved:
            lane = table.queue_lanes[slot]
            if slot not in self._layer.claimed and lane is not None and self._may_take(slot, lane):
                found.append((trial.place_of(lane, table.entries[slot]), slot))
        for lane in self._layer.queue.lanes:
            if self._is_open(lane):
                for slot in self._first_of(lane):
                    if self._may_take(slot, lane):
                        found.append((trial.place_of(lane, table.entries[slot]), slot))
        return [slot for _, slot in sorted(found)]

    def _first_of(self, lane: QueueLane) -> Sequence[int]:
        """The first of a lane, of different demands; of a strict queue its blocked head alone."""
        if self._layer.tree.queueing[lane.tenant] is Queueing.STRICT:
            first = lane.order.first()
            return () if first is None or first[2] not in self._state.blocked else (first[2],)
        entries = lane.order.few(DEPTH)
        if lane.heads[0] is not entries:
            by_demand = dict[Demand, int]()
            for entry in entries:
                by_demand.setdefault(self._state.table.demands[entry[2]], entry[2])
            lane.heads = entries, tuple(by_demand.values())
        return lane.heads[1]

    def _is_open(self, lane: QueueLane) -> bool:
        """Whether there could be anything for any job of a lane on any of its pools: something of a lower class, or
        what its tenant is guaranteed."""
        layer = self._layer
        if lane.shift_s or lane.rank == -math.inf:
            return True  # of whatever classes
        for pool in lane.pools:
            if layer.evictable.gpus[pool]:
                held = self._standing.milli.get((lane.tenant, pool), 0)
                if self._sums(pool, -lane.rank)[0] or (
                    layer.fair is not None
                    and layer.fair.held[lane.tenant][pool] + held <= layer.tree.guaranteed[lane.tenant][pool]
                ):
                    return True
        return False

    def _may_take(self, slot: int, lane: QueueLane) -> bool:
        """A look at counters: whether there could be anything for the job on any of its pools."""
        state, layer, job = self._state, self._layer, self._state.table.jobs[slot]
        demand, priority = state.table.demands[slot], job.priority if job is not None else 0
        if self._rests(slot):
            return False
        for pool in lane.pools:
            if not layer.evictable.gpus[pool]:
                continue
            missing = demand.least_gpus - state.cluster.pools[pool].free_gpus
            lower, most = self._sums(pool, priority)
            if 0 < lower >= missing:
                return True
            if layer.fair is not None and most >= missing:
                milli = asked_milli(demand, state.cluster.spec.pools[pool]) - lower * WHOLE_MILLI
                milli += self._standing.milli.get((lane.tenant, pool), 0)
                if layer.fair.held[lane.tenant][pool] + milli <= layer.tree.guaranteed[lane.tenant][pool]:
                    return True
        return False

    def _sums(self, pool: int, priority: float) -> tuple[int, int]:
        """GPUs of a pool that could be freed: of lower priorities, and of all."""
        found = self._known_sums.get((pool, priority))
        if found is None:
            gpus = self._layer.evictable.gpus[pool]
            found = sum(n for (_, each), n in gpus.items() if each < priority), sum(gpus.values())
            self._known_sums[pool, priority] = found
        return found

    def try_for(self, slot: int) -> bool:
        """Evict for the job in ``slot`` if that lets it start; whether it does."""
        table = self._state.table
        lane = table.queue_lanes[slot]
        if lane is None or table.live[slot] is None:
            return False
        if self._is_crowded(lane.pools) and self._has_had_turn():
            return False
        if Trial(self._state, self._tx, self._now).find(slot) is not None:
            return False
        if self._shrink(slot, lane):
            return True
        best: _Taking | None = None
        for pool in lane.pools:
            taking = self._taking(slot, lane, pool)
            if taking is not None and (best is None or taking.victims.price < best.victims.price):
                best = taking
        if best is None or self._starts_anyway(slot, best.start_s):
            return False
        victims = tuple(each.slot for each in best.victims.chosen)
        self._layer.preemptions = (*self._layer.preemptions, Preemption(slot, victims, best.start_s))
        if best.start_s > self._now:
            self._claim(slot, lane, best)
        else:
            self._take(slot, best)
        self._standing = standing(self._state)
        self._known_sums.clear()
        self._helped += 1
        self._layer.due_s = self._now  # victims may be due for a reservation: the next cycle is not to be skipped
        return True

    def _shrink(self, slot: int, lane: QueueLane) -> bool:
        """Start the job by making elastic gangs smaller that might be evicted for it: nobody is while that will do."""
        state, layer, demands = self._state, self._layer, self._state.table.demands

        def least(other: int) -> tuple[int, ...]:
            return minimum(demands[other])

        for pool in lane.pools if state.table.phases else ():
            rules, toll, most = Rules(state, self._standing, slot, pool, self._now), Toll(), dict[int, int]()
            takes = []
            for each in rules.candidates(whole=False)[0]:
                replicas = surplus(state, each.slot, least) if each.slot in state.table.phases else 0
                if not replicas or each.slot in layer.leaving.ends_s:
                    continue
                kept = milli_of(demands[each.slot], smaller(state, each.slot, replicas, least))
                part = each._replace(milli=each.milli - kept)
                if rules.may_add(toll, part):
                    rules.add(toll, part)
                    takes.append(part)
                    most[each.slot] = replicas
            freed = sum(toll.by_tenant.values()) // WHOLE_MILLI + state.cluster.pools[pool].free_gpus
            if most and freed >= demands[slot].least_gpus and rules.has_reason(toll):
                names = self._names(takes)
                if Shrinking(state, self._tx, slot, self._now, least).start(most, SHRUNK.format(names)):
                    self._known_sums.clear()
                    return True
        return False

    def is_over(self) -> bool:
        """Whether nobody else has a turn in this cycle, on any pool."""
        return all(self._is_crowded((pool,)) for pool in range(len(self._layer.ends))) and self._has_had_turn()

    def _has_had_turn(self) -> bool:
        """Whether somebody has been looked at: the others have their turn later where many run."""
        if not self._helped and not self._in_vain:
            return False
        turn_s = self._now + (MOMENT_S if self._helped else NEXT_TURN_S)
        self._layer.spared_s = min(self._layer.spared_s, turn_s)
        return True

    def _is_crowded(self, pools: Sequence[int]) -> bool:
        return any(len(self._layer.ends[pool].order) >= CROWD for pool in pools)

    def _rests(self, slot: int) -> bool:
        """Whether victims for a job were looked for in vain a moment ago: then it is looked at again in another one."""
        layer = self._layer
        until_s = layer.sought_s.get(self._state.table.entries[slot][1], -math.inf) + FOLLOW_S
        if self._now >= until_s:
            return False
        layer.spared_s = min(layer.spared_s, until_s)
        return True

    def _found_nothing(self, slot: int, lane: QueueLane) -> None:
        if self._is_crowded(lane.pools):
            self._in_vain += 1
            recent = {each: at_s for each, at_s in self._layer.sought_s.items() if self._now < at_s + FOLLOW_S}
            self._layer.sought_s = {**recent, self._state.table.entries[slot][1]: self._now}

    def _taking(self, slot: int, lane: QueueLane, pool: int) -> _Taking | None:
        """Victims on one pool; that there are none is remembered until something there has changed."""
        layer, state, job = self._layer, self._state, self._state.table.jobs[slot]
        if not layer.evictable.gpus[pool] or job is None:
            return None
        plans, demand = state.reservations.get(pool, ()), state.table.demands[slot]
        key = (pool, demand, lane.tenant, lane.rank, job.priority)
        basis = (layer.evictable.clock[pool], layer.verdicts[pool].clock, state.table.assumed[slot], plans)
        refused = layer.no_victims.get(key)
        if refused is not None and refused[0] == basis and self._now < refused[1]:
            layer.spared_s = min(layer.spared_s, refused[1])
            return None
        rules = Rules(state, self._standing, slot, pool, self._now)
        candidates, spared_s = rules.candidates()
        older = [each for each in candidates if each.slot not in self._tx.started]
        found = self._find(slot, pool, rules, older) if older else None
        if found is None:
            self._found_nothing(slot, lane)
        if found is None and len(older) == len(candidates):
            if len(layer.no_victims) > MOST_REFUSALS:
                layer.no_victims.clear()
            layer.no_victims[key] = basis, spared_s
            layer.spared_s = min(layer.spared_s, spared_s)
        return found

    def _find(self, slot: int, pool: int, rules: Rules, candidates: Sequence[Candidate]) -> _Taking | None:
        state, plans = self._state, self._state.reservations.get(pool, ())
        late = self._late(slot, plans, self._gone_s(candidates))
        for later in self._later(pool, late):
            rules.also_then(later)
        if not rules.has_quota(rules.toll_of(candidates)):
            return None
        beside = tuple(plan.spare for i, plan in enumerate(plans) if late >> i & 1)
        what_if = Vacated(state.cluster.pools[pool], state.table.shares, beside, state.place, state.table.demands[slot])
        victims = find_victims(what_if, rules, candidates)
        if victims is None or not victims.chosen:
            return None
        index, demand = state.cluster.pools[pool], state.table.demands[slot]
        if demand.elastic and isinstance(
            index, PoolIndex
        ):  # others leave for the least that it needs; it may grow later
            victims = victims._replace(shares=shrunk(index, demand, victims.shares, minimum(demand)))
        return _Taking(pool, victims, late, self._gone_s(victims.chosen))

    def _gone_s(self, victims: Sequence[Candidate]) -> float:
        """When all of them have left, if they are told now."""
        jobs = self._state.table.jobs
        return self._now + max(job.grace_s for each in victims if (job := jobs[each.slot]) is not None)

    def _late(self, slot: int, plans: Sequence[Reservation], start_s: float) -> int:
        """One bit for each plan that binds it and that it might run beyond, if it starts by then."""
        assumed, late = self._state.table.assumed[slot], 0
        for i, plan in enumerate(plans):
            if plan.slot != slot and binds(self._state, plan, slot):
                hard = plan.guaranteed or plan.locked or plan.victims
                stays_s = max(SHORTEST_SPAN_S, assumed.limit_s if hard else assumed.within_s)
                if start_s + stays_s > plan.start_s:
                    late |= 1 << i
        return late

    def _later(self, pool: int, late: int) -> Iterator[Later]:
        """What tenants will use when the plans begin that it would run beyond."""
        layer = self._layer
        for i, plan in enumerate(self._state.reservations.get(pool, ())):
            if late >> i & 1 and plan.use is not None:
                ends = layer.limits[pool] if plan.guaranteed and layer.limits is not None else layer.ends[pool]
                yield Later(plan.use, plan.start_s, None if plan.victims else ends.ends_s)

    def _starts_anyway(self, slot: int, by_s: float) -> bool:
        """Whether its own plan lets it start no later."""
        return any(
            self._now < p.start_s <= by_s
            for plans in self._state.reservations.values()
            for p in plans
            if p.slot == slot
        )

    def _take(self, slot: int, taking: _Taking) -> None:
        """All victims leave now: the job starts."""
        table = self._state.table
        for each in taking.victims.chosen:
            self._tx.evict(each.slot, self._now, table.saved_s(each.slot, self._now, told=True), for_another=True)
        # Those who have left may start elsewhere, and others where they would have: that is for a cycle of its own.
        self._layer.turn_s = min(self._layer.turn_s, self._now + MOMENT_S)
        found = Found(taking.pool, taking.victims.shares, taking.late, math.inf)
        reason = self._reason(slot, taking.victims.chosen)
        Trial(self._state, self._tx, self._now).start(slot, found, reason)

    def _claim(self, slot: int, lane: QueueLane, taking: _Taking) -> None:
        """The victims are told to leave, and what they leave is the job's."""
        state, table, layer, pool = self._state, self._state.table, self._layer, taking.pool
        victims = tuple(
            Victim(
                each.slot,
                table.entries[each.slot][1],
                table.evictions[each.slot],
                layer.leaving.ends_s.get(each.slot, math.inf),
            )
            for each in taking.victims.chosen
        )
        plans = state.reservations.get(pool, ())
        others = [plan for i, plan in enumerate(plans) if taking.late >> i & 1]
        use = self._use_then(slot, lane, taking)
        shares, start_s = taking.victims.shares, taking.start_s
        claim = Reservation(slot, pool, start_s, shares, {}, False, use=use, victims=victims)
        claim = replace(claim, spare=claimed_spare(state, claim, others))
        self._tx.claim(slot, kinds(state, claim))
        self._make_way(claim, lane.tenant, plans, taking.late)

    def _use_then(self, slot: int, lane: QueueLane, taking: _Taking) -> TenantUse | None:
        """What tenants use when the victims have left and the job has started, and all else is as it is."""
        if self._layer.use is None:
            return None
        use = self._layer.use.copy()
        for each in taking.victims.chosen:
            use.charge(each.tenant, taking.pool, -each.milli)
        rules = Rules(self._state, self._standing, slot, taking.pool, self._now)
        use.charge(lane.tenant, taking.pool, rules.milli)
        return use

    def _make_way(self, claim: Reservation, tenant: int, plans: Sequence[Reservation], late: int) -> None:
        """Plans that bind the job have less to spare beside them; the others are void if they lack what it takes."""
        state, layer, pool = self._state, self._layer, claim.pool
        index, beside, nodes = state.cluster.pools[pool], dict[int, Reservation](), {share[0] for share in claim.shares}
        milli = asked_milli(state.table.demands[claim.slot], state.cluster.spec.pools[pool])
        for i, plan in enumerate(plans):
            if late >> i & 1:
                use = plan.use.copy() if plan.use is not None else None
                if use is not None:
                    use.charge(tenant, pool, milli)
                spare = plan.spare if plan.victims else index.less(plan.spare, claim.shares)
                beside[id(plan)] = replace(plan, spare=spare, use=use)
            elif plan.slot != claim.slot and plan.end_s > claim.start_s and not binds(state, plan, claim.slot):
                layer.take_from(plan, nodes)
                if plan.use is not None and plan.use.bound(tenant, pool, milli) >= 0:
                    layer.void |= {(plan.slot, plan.guaranteed)}
        kept = [beside.get(id(plan), plan) for plan in state.reservations[pool]]
        kept.sort(key=lambda each: (each.slot, each.guaranteed))
        state.reservations = {**state.reservations, pool: tuple(kept)}
        layer.gained |= 1 << pool

    def _reason(self, slot: int, victims: Sequence[Candidate]) -> str:
        own = self._state.table.jobs[slot]
        lower = own is not None and all(each.priority < own.priority for each in victims)
        return (FOR_CLASS if lower else FOR_QUOTA).format(self._names(victims))

    def _names(self, victims: Sequence[Candidate]) -> str:
        jobs = self._state.table.jobs
        names = [job.job_id for each in victims if (job := jobs[each.slot]) is not None]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")
