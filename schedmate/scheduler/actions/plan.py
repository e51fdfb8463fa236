"""Reservations of the full queue layer: when and where blocked jobs will start.

A reserved job has up to two plans on one pool: a *guaranteed* one along the hard limits of what runs, where these
suffice, and an *expected* one along what is assumed. A plan is kept while it can be; it moves up when something ends
early, is made anew when an assumed end moves, and gives way to plans of a higher class.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from schedmate.scheduler.ahead import with_spare
from schedmate.scheduler.claims import claimed_spare
from schedmate.scheduler.expected_ends import ExpectedEnds, corrected_end_s
from schedmate.scheduler.plan_search import PlanSearch, meet, starving_unsure, to_be_locked
from schedmate.scheduler.promises import NEVER, binds, place_in_lane, rank
from schedmate.scheduler.queue_layer import PlanKey, QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Reservation

#: Where so many jobs run on a pool, hardly a second passes without an early end: plans follow them this often only.
MANY_RUNNING = 1000
FOLLOW_S = 30.0

#: Whoever has to wait for its turn where many run has it after so long, if nothing happens before.
NEXT_TURN_S = 1.0

#: So long after something has ended there, and what it held was given out, there is time for plans and for victims.
MOMENT_S = 0.1

#: Plans by slot.
Plans = dict[int, Reservation]


def plan(state: State, tx: Transaction, now: float) -> None:
    """Keep the reservations in step with what has happened."""
    layer = state.layer
    if layer is None:
        return
    if now >= layer.put_off_s + NEXT_TURN_S:
        layer.ended = -1  # plans and victims have been put off for long enough
    layer.put_off_s = min(layer.put_off_s, now) if is_rushed(state, layer) else math.inf
    later: set[PlanKey] = set()
    for pool in sorted(state.reservations, key=lambda pool: (_oldest(layer, state.reservations[pool])[0], pool)):
        plans = state.reservations[pool]
        extend(state, tx, pool, now)
        void = _void_on(state, layer, pool, now)
        if follows_at_once(state, layer, pool):
            slots = {each.slot for each in plans}
            # Who steps back makes way for the others.
            makes_way = len(slots) > 1 and any(not guaranteed for _, guaranteed in void)
            follow = slots if (layer.stale | layer.unfollowed) >> pool & 1 or makes_way else set()
        else:
            # An expected start that is known to be too early does no harm meanwhile: less is let past it.
            follow = _turn(layer, plans, void, now)
            if follow and _waits_for_turn(state, layer, now):
                follow = set()
            waits = {key for key in void if key[0] not in follow}
            later, void = later | waits, void - waits
        if void or follow:
            _renew(state, layer, pool, now, void, follow)
            layer.planned = state.cycles
    crowded = sum(1 << pool for pool in range(len(layer.ends)) if not follows_at_once(state, layer, pool))
    layer.unfollowed = (layer.unfollowed | layer.stale | layer.moved) & crowded
    layer.stale = layer.moved = layer.broken = 0
    layer.void = frozenset(later)


def _void_on(state: State, layer: QueueLayer, pool: int, now: float) -> set[PlanKey]:
    """The plans of a pool that do not hold: of which something was taken, that have passed, that rest on what moved."""
    plans = [each for each in state.reservations.get(pool, ()) if not each.victims]  # a claim stays as it is
    overrun = layer.broken >> pool & 1 or _is_overrun(state, layer, pool, now)
    # One that does not hold as it is, and has not had its turn, says nothing of the others when its time has passed.
    if overrun or any(p.guaranteed and p.start_s < now and (p.slot, True) not in layer.void for p in plans):
        layer.broken |= 1 << pool
        return {(each.slot, each.guaranteed) for each in plans}
    moved = layer.moved >> pool & 1 or (state.policy.starts_by_plan and any(each.start_s < now for each in plans))
    return {
        (each.slot, each.guaranteed)
        for each in plans
        if (each.slot, each.guaranteed) in layer.void or (not each.guaranteed and (moved or each.start_s < now))
    }


def may_reserve(state: State, layer: QueueLayer, pools: Sequence[int], now: float) -> bool:
    """Whether another job may get a reservation in this cycle: where many run, one job a cycle gets plans or has them
    made anew, so that no cycle takes long; the next one follows at the next event, or a second later."""
    return all(follows_at_once(state, layer, pool) for pool in pools) or not _waits_for_turn(state, layer, now)


def _waits_for_turn(state: State, layer: QueueLayer, now: float) -> bool:
    """Whether no more plans are made in this cycle; then there is another one."""
    if is_rushed(state, layer):
        layer.turn_s = min(layer.turn_s, now + MOMENT_S)
        return True
    if has_planned(state, layer):
        layer.turn_s = min(layer.turn_s, now + NEXT_TURN_S)
        return True
    return False


def has_planned(state: State, layer: QueueLayer) -> bool:
    """Whether plans have been made in this cycle."""
    return layer.planned == state.cycles


def is_rushed(state: State, layer: QueueLayer) -> bool:
    """Whether something has ended, and where thousands run on every pool: then this cycle gives out what that held, and
    plans and victims follow a moment later, when nothing has ended, or after `NEXT_TURN_S` in any case."""
    return layer.ended == state.cycles and not layer.broken and are_crowded(state, layer)


def are_crowded(state: State, layer: QueueLayer) -> bool:
    """Whether thousands run on every pool."""
    return not any(follows_at_once(state, layer, pool) for pool in range(len(state.cluster.pools)))


def follows_at_once(state: State, layer: QueueLayer, pool: int) -> bool:
    """Whether so few run on a pool that its plans follow whatever happens in the same cycle."""
    return state.policy.starts_by_plan or len(layer.ends[pool].order) < MANY_RUNNING


def _turn(layer: QueueLayer, plans: Sequence[Reservation], void: set[PlanKey], now: float) -> set[int]:
    """Where many run, the one job whose plans are to follow what has happened: one whose guaranteed start does not
    hold, else one that has not been looked at for a while. A job with a plan starts as soon as it fits, whatever the
    plan says, so this only makes way for others later."""
    first = min(((layer.renewed_s.get(slot, -math.inf), slot) for slot, sure in void if sure), default=(0.0, -1))[1]
    if first < 0:
        at_s, oldest = _oldest(layer, plans)
        first = oldest if now >= at_s + FOLLOW_S else -1
    return {first} if first >= 0 else set()


def _oldest(layer: QueueLayer, plans: Sequence[Reservation]) -> tuple[float, int]:
    """When the plans of which slot were made to follow longest ago."""
    return min((layer.renewed_s.get(each.slot, -math.inf), each.slot) for each in plans)


def reserve(state: State, tx: Transaction, slot: int, pools: tuple[int, ...], now: float) -> bool:
    """Give the waiting job in ``slot`` a reservation on the one of the pools on which it starts first; False if there
    never is room for it."""
    layer = state.layer
    if layer is None:
        return False
    tx.drop_tentative(slot)
    best: Reservation | None = None
    searches: dict[int, list[PlanSearch]] = {}
    for pool in pools:
        extend(state, tx, pool, now)
        void = _void_on(state, layer, pool, now)
        if void and follows_at_once(state, layer, pool):
            _renew(state, layer, pool, now, void, set())
            layer.void -= void
            layer.moved &= ~(1 << pool)
        searches[pool] = [PlanSearch(state, layer, pool, ends, kind, now) for kind, ends in _kinds(layer, pool)]
        best = searches[pool][0].plan_of(slot, now, math.inf if best is None else best.start_s) or best
    if best is None:
        return False
    plans = [best]
    pool = best.pool
    for search in searches[pool][1:]:
        other = search.plan_of(slot, best.start_s, math.inf)
        plans += [] if other is None else [other]
    tx.hold(slot)
    _put_new(state, layer, plans, searches[pool], now)
    return True


def stand_by(state: State, tx: Transaction, slot: int, pools: tuple[int, ...], now: float) -> Reservation | None:
    """Give the waiting job in ``slot`` a tentative plan on the one of the pools on which it starts first; None if there
    never is room for it."""
    layer = state.layer
    if layer is None:
        return None
    layer.tentative |= {slot}
    best: Reservation | None = None
    searches: dict[int, list[PlanSearch]] = {}
    for pool in pools:
        extend(state, tx, pool, now)
        searches[pool] = [PlanSearch(state, layer, pool, ends, kind, now) for kind, ends in _kinds(layer, pool)]
        best = searches[pool][0].plan_of(slot, now, math.inf if best is None else best.start_s) or best
    if best is None:
        layer.tentative -= {slot}
        return None
    _put_new(state, layer, [best], searches[best.pool], now)
    return best


def _put_new(state: State, layer: QueueLayer, plans: list[Reservation], searches: list[PlanSearch], now: float) -> None:
    """Plans that the job of ``plans`` has got on a pool stand beside the others, or take their place."""
    slot, pool = plans[0].slot, plans[0].pool
    layer.renewed_s, layer.planned = {**layer.renewed_s, slot: now}, state.cycles
    _put(state, layer, pool, [*state.reservations.get(pool, ()), *plans], searches)
    for new, search in zip(plans, searches, strict=False):
        kept = [each for each in state.reservations[pool] if each.guaranteed == new.guaranteed]
        layer.void |= {(other.slot, other.guaranteed) for other in kept if search.gives_way(other, new, kept)}


def extend(state: State, tx: Transaction, pool: int, now: float) -> None:
    """What has outlived its expected end gets another one, see `corrected_end_s`."""
    layer, starts_s = state.layer, state.table.starts_s
    if layer is None or layer.ends[pool].next_s() > now:
        return
    outlived = []
    for end_s, slot in layer.ends[pool].order:
        if end_s > now:
            break
        if starts_s[slot] < now:  # one that started just now with an estimate of 0 has not outlived anything yet
            outlived.append((end_s, slot))
    for end_s, slot in outlived:
        limit_s = math.inf if layer.limits is None else layer.limits[pool].ends_s[slot]
        longer = partial(state.policy.correct, state.table.present(slot))
        tx.move_expected_end(slot, corrected_end_s(longer, starts_s[slot], end_s, now, limit_s))
        # Only plans on the very nodes are void: elsewhere the same gang still fits at the same time, and no earlier.
        nodes = {share[0] for share in state.table.shares[slot] or ()}
        expected = [each for each in state.reservations.get(pool, ()) if not each.guaranteed]
        _void(state, layer, [each for each in expected if any(share[0] in nodes for share in each.shares)], pool)


def _void(state: State, layer: QueueLayer, plans: list[Reservation], pool: int) -> None:
    """Expected plans that do not hold; where everyone has a plan, those behind them are to close up as well."""
    if state.policy.starts_by_plan:
        layer.moved |= 1 << pool
    layer.void |= {(each.slot, each.guaranteed) for each in plans}


def _is_overrun(state: State, layer: QueueLayer, pool: int, now: float) -> bool:
    """Whether something runs beyond its hard limit, against what was promised about it."""
    if layer.limits is None:
        return False
    starts_s, order = state.table.starts_s, layer.limits[pool].order
    return any(starts_s[slot] < now for _, slot in order[: bisect_right(order, (now, math.inf))])


def _kinds(layer: QueueLayer, pool: int) -> list[tuple[bool, ExpectedEnds]]:
    """Guaranteed or not, and the ends that count for it; expected first."""
    expected = [(False, layer.ends[pool])]
    return expected if layer.limits is None else [*expected, (True, layer.limits[pool])]


def _renew(state: State, layer: QueueLayer, pool: int, now: float, void: set[PlanKey], follow: set[int]) -> None:
    """The ``void`` plans of one pool anew, in the order of class and reservation; those of the slots that ``follow``
    move up if they can."""
    renewed_s = layer.renewed_s
    have_plans = (*layer.reserved, *layer.tentative)
    layer.renewed_s = {each: now if each in follow else renewed_s.get(each, -math.inf) for each in have_plans}
    broken, plans = layer.broken >> pool & 1, state.reservations.get(pool, ())
    at = {slot: i for i, slot in enumerate(layer.reserved)}
    slots = sorted(
        {old.slot for old in plans},
        key=lambda slot: (rank(state, slot), at.get(slot, math.inf), place_in_lane(state, slot)),
    )
    renewed: list[Plans] = []
    searches: list[PlanSearch] = []
    for guaranteed, ends in _kinds(layer, pool):
        old = {each.slot: each for each in plans if each.guaranteed == guaranteed}
        kept = {slot: each for slot, each in old.items() if (slot, guaranteed) not in void}
        gone = [each for each in old.values() if each.slot not in kept]
        for each in sorted(gone, key=lambda each: (each.start_s, slots.index(each.slot))):
            if each.locked and not broken:
                kept[each.slot] = _relocked(state, each, ends, now, list(kept.values()))
            elif guaranteed:
                layer.promised = {**layer.promised, each.slot: NEVER}
        search = PlanSearch(state, layer, pool, ends, guaranteed, now)
        again = True
        while again:
            again = False
            for slot in slots:
                before = kept.get(slot)
                looked_at = slot in follow or (slot, guaranteed) in void or (before is None and slot in old)
                if before is not None and before.locked and slot in follow:
                    kept[slot] = _moved_up(state, before, ends, now, list(kept.values()))
                if not looked_at or (before is not None and (before.locked or before.victims)):
                    continue
                if guaranteed and slot in layer.tentative:
                    continue
                others = [each for key, each in kept.items() if key != slot and binds(state, each, slot)]
                if guaranteed:
                    others += to_be_locked(state, [*renewed[0].values(), *kept.values()], slot)
                from_s = now
                if guaranteed and slot in renewed[0]:
                    from_s = min(renewed[0][slot].start_s, old[slot].start_s if slot in old else math.inf)
                new = search.plan(slot, others, from_s, math.inf if before is None else before.start_s)
                if new is not None:
                    kept[slot] = new
                    there = list(kept.values())
                    kept = {key: each for key, each in kept.items() if not search.gives_way(each, new, there)}
                    # Who moves up may make way for those before it: where all wait for their plan, all move that can.
                    again |= before is not None and state.policy.starts_by_plan
        renewed.append(kept)
        searches.append(search)
    _put(state, layer, pool, [each for kept in renewed for each in kept.values()], searches)


def _holds(one: Reservation, other: Reservation) -> bool:
    """Whether a plan holds nodes of another one of its kind when that begins."""
    return one.guaranteed == other.guaranteed and one.start_s <= other.start_s < one.end_s and meet(one, other)


def _relocked(
    state: State, plan: Reservation, ends: ExpectedEnds, now: float, others: Sequence[Reservation]
) -> Reservation:
    """A plan that locks its nodes stays on them; it starts when what runs there is expected to have ended, and after
    other plans that lock some of them."""
    nodes, start_s, span_s = {share[0] for share in plan.shares}, now, plan.end_s - plan.start_s
    for end_s, slot in reversed(ends.order):
        if any(share[0] in nodes for share in state.table.shares[slot] or ()):
            start_s = max(now, end_s)
            break
    for other in sorted(others, key=lambda other: other.start_s):
        if other.locked and other.start_s < start_s + span_s and start_s < other.end_s and meet(plan, other):
            start_s = other.end_s
    return replace(plan, start_s=start_s, end_s=start_s + span_s)


def _moved_up(
    state: State, plan: Reservation, ends: ExpectedEnds, now: float, there: Sequence[Reservation]
) -> Reservation:
    """A plan that locks its nodes begins sooner where these are free sooner and nobody is to use them meanwhile."""
    others = [each for each in there if each is not plan]
    new = _relocked(state, plan, ends, now, others)
    meets = any(each.start_s < new.end_s and new.start_s < each.end_s and meet(each, new) for each in others)
    return plan if meets or new.start_s >= plan.start_s else new


def _locked(state: State, plans: list[Reservation]) -> list[Reservation]:
    """Expected plans of jobs that have waited too long and have no guaranteed one lock their nodes; not while others
    of them have one, for whose start they would have to wait in any case."""
    if not state.policy.guarantees:
        return plans
    unsure = starving_unsure(state, plans)
    waits = any(each.guaranteed and not each.victims and rank(state, each.slot) == -math.inf for each in plans)
    found = []
    for each in plans:
        locked = each.slot in unsure and not waits
        found.append(each if each.locked == locked else replace(each, locked=locked))
    return found


def _put(state: State, layer: QueueLayer, pool: int, plans: list[Reservation], searches: list[PlanSearch]) -> None:
    """Keep the plans of one pool, each with what it leaves unused; ``searches`` in the order of the kinds."""
    plans = _locked(state, plans)
    old = state.reservations.get(pool, ())
    if not state.policy.starts_by_plan:
        plans = [each for search in searches for each in _beside_each_other(state, search, old, plans)]
    plans.sort(key=lambda each: (each.slot, each.guaranteed))
    kept = tuple(plans)
    if kept == old:
        return
    layer.gained |= 1 << pool
    rest = {p: each for p, each in state.reservations.items() if p != pool}
    state.reservations = {**rest, pool: kept} if kept else rest


def _beside_each_other(
    state: State, search: PlanSearch, old: Sequence[Reservation], plans: list[Reservation]
) -> list[Reservation]:
    """The plans of one kind with what each leaves at its start: GPUs on its nodes, and quota."""
    before = {id(each) for each in old}
    of_kind = [each for each in plans if each.guaranteed == search.guaranteed]
    kept = {id(each) for each in of_kind}
    gone = [each for each in old if each.guaranteed == search.guaranteed and id(each) not in kept]
    new = [each for each in of_kind if id(each) not in before]
    found = []
    for each in of_kind:
        is_new = id(each) not in before
        # Who need not keep away from a tentative plan loses nothing to it beside the others either.
        there, left, came = of_kind, gone, new
        if not each.tentative:
            there, left, came = _firm(of_kind), _firm(gone), _firm(new)
        if each.victims:
            spared = replace(each, spare=claimed_spare(state, each, there))
        elif is_new or any(_holds(other, each) for other in (*left, *came)):
            spared = with_spare(search.ahead, each, there)
        else:
            spared = each
        if search.uses is not None and not (each.victims and not is_new):  # a claim counts what runs and no plans
            if is_new:
                spared = replace(spared, use=search.uses.at(each.start_s, there))
            else:
                spared = search.uses.kept(spared, left, came)
        found.append(spared)
    return found


def _firm(plans: list[Reservation]) -> list[Reservation]:
    return [each for each in plans if not each.tentative]
