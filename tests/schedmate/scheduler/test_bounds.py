"""`Bounds` against the rule for one job and one plan at a time, as `Trial.late` states it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.bounds import Bound, Bounds, News, PlanBound, Rooms
from schedmate.scheduler.contenders import Contenders
from schedmate.scheduler.pending import Entry

NOW = 10.0
TENANTS = 3
GROUPS = 3
seconds = st.sampled_from([0.0, 1.0, 4.0, 20.0, math.inf])
bound = st.builds(
    Bound,
    within_s=seconds,
    limit_s=seconds,
    leaves_s=seconds,
    rank=st.sampled_from([-math.inf, -2.0, -0.0]),
    since=st.integers(0, 4).map(float),
    shift_s=st.sampled_from([0.0, 2.0]),
    tenant=st.integers(0, TENANTS - 1),
    lane=st.just(0),
).map(lambda each: each._replace(lane=each.tenant))  # a lane is of one tenant
plan = st.builds(
    PlanBound,
    start_s=st.sampled_from([10.0, 12.0, 15.0, 40.0]),
    rank=st.sampled_from([-math.inf, -2.0, -0.0, math.inf]),
    hard=st.booleans(),
    takes_promise=st.booleans(),
    bound_before=st.sampled_from([-1.0, 0.0, 2.0, 5.0]),
    behind=st.none() | st.tuples(st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 9), st.integers(0, TENANTS - 1)),
)


def order_s(slot: int) -> float:
    return float(slot % 4)


def stands_behind(job: Bound, slot: int, each: PlanBound) -> bool:
    """A tentative plan binds lower classes, and of its own those of its tenant that come later."""
    if each.behind is None or job.rank != each.rank:
        return job.rank > each.rank
    place_s, sequence, tenant = each.behind
    return job.tenant == tenant and (place_s, sequence) < (order_s(slot) - job.shift_s, slot)


def runs_beyond(job: Bound, slot: int, each: PlanBound) -> bool:
    if each.behind is not None and not stands_behind(job, slot, each):
        return False
    if each.behind is None and each.rank > job.rank and not job.since < each.bound_before:
        return False
    if NOW + (job.limit_s if each.hard else job.within_s) <= each.start_s:
        return False
    return not (each.takes_promise and NOW + job.leaves_s <= each.start_s)


def asked_of(jobs: list[Bound], data: st.DataObject) -> tuple[list[Entry | None], Rooms, list[PlanBound]]:
    """Entries of the jobs, what they ask for by group, and what quota leaves beside some plans."""
    plans = data.draw(st.lists(plan, max_size=5))
    live: list[Entry | None] = [(order_s(slot), slot, slot) for slot in range(len(jobs))]
    room = st.lists(st.integers(0, 3), min_size=TENANTS, max_size=TENANTS)
    then = np.array([data.draw(room) for _ in plans], dtype=np.int64).reshape(len(plans), TENANTS)
    asked = np.array(data.draw(st.lists(st.integers(1, 3), min_size=GROUPS, max_size=GROUPS)))
    return live, Rooms(np.array(data.draw(room)), then, asked), plans


def late_of(job: Bound, slot: int, plans: list[PlanBound], rooms: Rooms) -> int | None:
    """The plans beyond which a job runs; None if it lacks quota."""
    beyond = [runs_beyond(job, slot, each) for each in plans]
    least = min([rooms.now[job.tenant], *(rooms.then[i, job.tenant] for i, each in enumerate(beyond) if each)])
    return sum(1 << bit for bit, each in enumerate(beyond) if each) if least >= rooms.asked[slot % GROUPS] else None


def in_order(found: Contenders, standings_s: list[float]) -> list[tuple[int, int, int, list[Entry]]]:
    """All classes as (group, plans, lane, entries), by the place of the first of each."""
    numbers = found.left()
    places = found.places(numbers, np.array(standings_s)).T.tolist()
    kinds = [tuple(int(each[number]) for each in found.kind[:3]) for number in numbers.tolist()]
    entries = []
    for number in numbers.tolist():
        own = []
        while found.is_left(number):
            own.append(found.first_of(number))
            found.pass_first(number)
        entries.append(own)
    by_place = sorted(zip(places, kinds, entries, strict=True))
    return [(group, late, lane, own) for _, (group, late, lane), own in by_place]


@given(st.lists(bound, max_size=30), st.data())
def test_contenders_are_those_of_the_rule(jobs: list[Bound], data: st.DataObject) -> None:
    live, rooms, plans = asked_of(jobs, data)
    bounds = Bounds(live)
    half = len(jobs) // 2
    for part in (range(half), range(half, len(jobs))):  # some come later, and some of the first have gone by then
        for slot in part:
            entry = live[slot]
            assert entry is not None
            bounds.add(entry, slot % GROUPS, jobs[slot].lane)
        found = bounds.contenders(None, plans, NOW, lambda slot: jobs[slot], rooms)
        expected: dict[tuple[int, int, int], list[Entry]] = {}
        for slot in range(part.stop):
            entry, late = live[slot], late_of(jobs[slot], slot, plans, rooms)
            if entry is not None and late is not None:
                expected.setdefault((slot % GROUPS, late, jobs[slot].lane), []).append(entry)
        assert {each[:3]: each[3] for each in in_order(found, [0.0] * TENANTS)} == {
            key: sorted(entries) for key, entries in expected.items()
        }
        for slot in range(0, half, 3):
            live[slot] = None


@given(st.lists(bound, max_size=20), st.data())
def test_only_those_are_looked_at_for_whom_something_has_changed(jobs: list[Bound], data: st.DataObject) -> None:
    live, rooms, plans = asked_of(jobs, data)
    bounds, new = Bounds(live), len(jobs) // 2
    flags, room = (
        st.lists(st.booleans(), min_size=GROUPS, max_size=GROUPS),
        st.lists(st.integers(0, 3), min_size=TENANTS, max_size=TENANTS),
    )
    gone = [
        (np.array(left), None if leaves is None else np.array(leaves))
        for left, leaves in data.draw(st.lists(st.tuples(room, st.none() | room), max_size=2))
    ]
    needs = data.draw(st.lists(st.integers(0, 3), min_size=GROUPS, max_size=GROUPS))
    left_beside = data.draw(st.lists(st.integers(-1, 3), min_size=1 << len(plans), max_size=1 << len(plans)))
    news = News(np.array(data.draw(flags)), np.array(data.draw(room)), gone)
    if data.draw(st.booleans()):
        news = news._replace(needs=np.array(needs), most_left=lambda late: left_beside[late])
    for slot, entry in enumerate(live):
        if slot == new:
            bounds.contenders(None, plans, NOW, lambda slot: jobs[slot], rooms)
            bounds.see()
        assert entry is not None
        bounds.add(entry, slot % GROUPS, jobs[slot].lane)
    found = bounds.contenders(news, plans, NOW, lambda slot: jobs[slot], rooms)
    expected = set()
    for slot, job in enumerate(jobs):
        group, late = slot % GROUPS, late_of(job, slot, plans, rooms)
        asked = rooms.asked[group]
        lacked = [
            left[job.tenant] < asked and (leaves is None or leaves[job.tenant] >= asked) for left, leaves in news.gone
        ]
        wanted = slot >= new or news.rooms[job.tenant] < asked or any(lacked)
        if not wanted and news.gained[group] and late is not None:
            wanted = news.most_left is None or not plans or needs[group] <= news.most_left(late)
        if wanted and late is not None:
            expected.add(slot)
    assert {entry[2] for each in in_order(found, [0.0] * TENANTS) for entry in each[3]} == expected


@given(st.lists(bound, min_size=1, max_size=20), st.data())
def test_classes_are_dropped_by_fit_and_quota(jobs: list[Bound], data: st.DataObject) -> None:
    live, rooms, plans = asked_of(jobs, data)
    bounds = Bounds(live)
    for slot, entry in enumerate(live):
        assert entry is not None
        bounds.add(entry, slot % GROUPS, jobs[slot].lane)
    found = bounds.contenders(None, plans, NOW, lambda slot: jobs[slot], rooms)
    kinds = {number: tuple(int(each[number]) for each in found.kind) for number in found.left().tolist()}
    if not kinds:
        return
    refused = data.draw(st.sampled_from(sorted(kinds)))
    found.drop_like(refused)
    group, late = kinds[refused][:2]
    left = {number for number, kind in kinds.items() if kind[0] != group or kind[1] & late != late}
    assert set(found.left().tolist()) == left
    less = Rooms(rooms.now - 1, rooms.then - 1, rooms.asked)
    found.keep(less.now, less.then)
    allowed = set()
    for number in left:
        _, late, _, tenant, asked = kinds[number]
        most = min([less.now[tenant], *(less.then[i, tenant] for i in range(len(plans)) if late >> i & 1)])
        allowed |= {number} if most >= asked else set()
    assert set(found.left().tolist()) == allowed


@given(st.lists(bound, max_size=90), st.sets(st.integers(0, GROUPS - 1)), st.data())
def test_who_waits_by_group_and_lane_and_who_is_new(jobs: list[Bound], wanted: set[int], data: st.DataObject) -> None:
    live, rooms, plans = asked_of(jobs, data)
    bounds, new = Bounds(live), len(jobs) // 2
    for slot in range(len(jobs)):
        if slot == new:
            if data.draw(st.booleans()):
                bounds.contenders(None, plans, NOW, lambda slot: jobs[slot], rooms)
            bounds.see()
        entry = live[slot]
        assert entry is not None
        bounds.add(entry, slot % GROUPS, jobs[slot].lane)
        if data.draw(st.booleans()):
            live[slot] = None
    waiting: dict[int, dict[int, list[Entry]]] = {}
    for slot, entry in enumerate(live):
        if entry is not None:
            waiting.setdefault(slot % GROUPS, {}).setdefault(jobs[slot].lane, []).append(entry)
    found = {
        group: {lane: list(each.in_order()) for lane, each in bounds.in_order(group).items()}
        for group in bounds.groups()
        if bounds.is_any(group)
    }
    assert found == {group: {lane: sorted(own) for lane, own in lanes.items()} for group, lanes in waiting.items()}
    assert sorted(bounds.unseen(wanted)) == sorted(
        entry for slot, entry in enumerate(live) if entry is not None and slot >= new and slot % GROUPS in wanted
    )


@given(st.lists(bound, min_size=1, max_size=20), st.data())
def test_a_plan_that_is_gone_takes_its_bit_along(jobs: list[Bound], data: st.DataObject) -> None:
    live, rooms, plans = asked_of(jobs, data)
    bounds = Bounds(live)
    for slot, entry in enumerate(live):
        assert entry is not None
        bounds.add(entry, slot % GROUPS, jobs[slot].lane)
    found = bounds.contenders(None, plans, NOW, lambda slot: jobs[slot], rooms)
    if not plans:
        return
    gone = data.draw(st.integers(0, len(plans) - 1))
    before = [[late >> bit & 1 for bit in range(len(plans)) if bit != gone] for late in found.kind.late.tolist()]
    found.without_plan(gone)
    after = [[late >> bit & 1 for bit in range(len(plans) - 1)] for late in found.kind.late.tolist()]
    assert after == before
