"""Claims: what is being freed for a waiting job is its own until it starts or gives up.

A claim is the plan of a job whose victims have been told to leave (`Reservation.victims`): it begins when the last of
them is gone, on shares that are free then for sure. It binds all others like a plan of the highest class and is never
moved; only broken hardware voids it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import Spare
from schedmate.scheduler.eviction_rules import Standing
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction, asked_milli, is_there, milli_of
from schedmate.scheduler.types import Reservation, Victim

#: In plans every job takes some time.
SHORTEST_SPAN_S = 1e-3


def claims(state: State) -> Iterator[Reservation]:
    """One plan for every job that has a claim."""
    for plans in state.reservations.values():
        seen = set()
        for plan in plans:
            if plan.victims and plan.slot not in seen:
                seen.add(plan.slot)
                yield plan


def standing(state: State) -> Standing:
    """What all claims together will change."""
    layer, table = state.layer, state.table
    milli: dict[tuple[int, int], int] = {}
    less: dict[tuple[int, int], int] = {}
    replicas: dict[str, int] = {}
    victims = set()
    if layer is None:
        return Standing(frozenset(), milli, less, replicas)
    for plan in claims(state):
        moves = [(plan.slot, asked_milli(table.demands[plan.slot], state.cluster.spec.pools[plan.pool]))]
        for victim in plan.victims:
            if is_there(state, victim):
                slot = victim.slot
                victims.add(slot)
                moves.append((slot, -milli_of(table.demands[slot], table.shares[slot] or ())))
                job = table.jobs[slot]
                if job is not None and job.service is not None:
                    replicas[job.service] = replicas.get(job.service, 0) + 1
        for slot, change in moves:
            lane = table.queue_lanes[slot]
            for node in layer.tree.path(lane.tenant if lane is not None else 0):
                at = node, plan.pool
                milli[at] = milli.get(at, 0) + change
                less[at] = less.get(at, 0) + min(change, 0)
    return Standing(frozenset(victims), milli, less, replicas)


def without_victims(state: State, pool: int, victims: Sequence[Victim]) -> Index:
    """A pool as it is when these have left."""
    index = state.cluster.pools[pool].copy()
    index.give_many(state.table.shares[each.slot] or () for each in victims if is_there(state, each))
    return index


def claimed_spare(state: State, plan: Reservation, others: Sequence[Reservation]) -> Spare:
    """What a claim leaves on its nodes when its victims have left and everybody else stays, beside ``others``."""
    index = without_victims(state, plan.pool, plan.victims)
    spare = index.spare_beside(plan.shares)
    for other in others:
        if other.slot != plan.slot and other.start_s <= plan.start_s < other.end_s:
            spare = index.less(spare, other.shares)
    return spare


def drop_broken(state: State, tx: Transaction, now: float) -> None:
    """Claims that do not hold any more are given up: their victims stay, and the jobs wait in their class again."""
    layer = state.layer
    if layer is None or not layer.claimed:
        return
    for plan in list(claims(state)):
        overdue = plan.start_s < now and not any(is_there(state, victim) for victim in plan.victims)
        doubtful = plan.start_s <= now or layer.broken >> plan.pool & 1
        if overdue or (doubtful and not can_start(state, plan)):
            tx.give_up(plan.slot)


def can_start(state: State, plan: Reservation) -> bool:
    """Whether what was claimed, hardware and quota, is there when the victims have left."""
    index, table = without_victims(state, plan.pool, plan.victims), state.table
    try:
        index.take(plan.shares)
    except ValueError:
        return False
    broken = state.cluster.conditions[plan.pool]
    if broken is not None and any(share[0] in broken.health for share in plan.shares):
        return False
    lane, use = table.queue_lanes[plan.slot], state.layer.use if state.layer is not None else None
    if use is None or lane is None:
        return True
    use = use.copy()
    for victim in plan.victims:
        theirs = table.queue_lanes[victim.slot]
        if is_there(state, victim) and theirs is not None:
            milli = milli_of(table.demands[victim.slot], table.shares[victim.slot] or ())
            use.charge(theirs.tenant, plan.pool, -milli)
    asked = asked_milli(table.demands[plan.slot], state.cluster.spec.pools[plan.pool])
    return use.bound(lane.tenant, plan.pool, asked) < 0


def kinds(state: State, plan: Reservation) -> tuple[Reservation, ...]:
    """A claim as all kinds of plan that the policy has, which differ in how long the job is thought to stay."""
    assumed = state.table.assumed[plan.slot]
    expected = replace(plan, end_s=plan.start_s + max(SHORTEST_SPAN_S, assumed.span_s))
    sure = replace(plan, guaranteed=True, end_s=plan.start_s + max(SHORTEST_SPAN_S, assumed.limit_s))
    return (expected, sure) if state.policy.guarantees else (expected,)
