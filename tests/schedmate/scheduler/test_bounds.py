"""`Bounds` against the rule for one job and one plan at a time, as `Trial.late` states it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.bounds import Bound, Bounds, PlanBound, Rooms
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
    place_s=st.sampled_from([-1.0, 0.0, 3.0]),
    sequence=st.integers(0, 3).map(float),
    tenant=st.integers(0, TENANTS - 1),
    lane=st.integers(0, 1),
)
plan = st.builds(
    PlanBound,
    start_s=st.sampled_from([10.0, 12.0, 15.0, 40.0]),
    rank=st.sampled_from([-math.inf, -2.0, -0.0, math.inf]),
    hard=st.booleans(),
    takes_promise=st.booleans(),
    bound_before=st.sampled_from([-1.0, 0.0, 2.0, 5.0]),
    behind=st.none() | st.tuples(st.sampled_from([-1.0, 0.0, 3.0]), st.integers(0, 3), st.integers(0, TENANTS - 1)),
)


def stands_behind(job: Bound, each: PlanBound) -> bool:
    """A tentative plan binds lower classes, and of its own those of its tenant that come later."""
    if each.behind is None or job.rank != each.rank:
        return job.rank > each.rank
    place_s, sequence, tenant = each.behind
    return job.tenant == tenant and (place_s, sequence) < (job.place_s, job.sequence)


def runs_beyond(job: Bound, each: PlanBound) -> bool:
    if not (
        each.rank <= job.rank or job.since < each.bound_before if each.behind is None else stands_behind(job, each)
    ):
        return False
    if NOW + (job.limit_s if each.hard else job.within_s) <= each.start_s:
        return False
    return not (each.takes_promise and NOW + job.leaves_s <= each.start_s)


@given(st.lists(bound, max_size=30), st.lists(plan, max_size=5), st.data())
def test_candidates_are_those_of_the_rule(jobs: list[Bound], plans: list[PlanBound], data: st.DataObject) -> None:
    live: list[Entry | None] = [(float(slot % 4), slot, slot) for slot in range(len(jobs))]
    bounds = Bounds(live)
    room = st.lists(st.integers(0, 3), min_size=TENANTS, max_size=TENANTS)
    now = np.array(data.draw(room))
    then = np.array([data.draw(room) for _ in plans], dtype=np.int64).reshape(len(plans), TENANTS)
    asked = np.array(data.draw(st.lists(st.integers(1, 3), min_size=GROUPS, max_size=GROUPS)))
    largest = data.draw(st.lists(st.integers(0, 31), min_size=GROUPS, max_size=GROUPS))
    wanted = data.draw(st.lists(st.integers(0, GROUPS - 1), unique=True))
    half = len(jobs) // 2
    for part in (range(half), range(half, len(jobs))):  # some come later, and some of the first have gone by then
        for slot in part:
            entry = live[slot]
            assert entry is not None
            bounds.add(entry, slot % GROUPS)
        rooms = Rooms(now, then, asked)
        found = bounds.candidates(
            wanted, plans, NOW, lambda slot: jobs[slot], rooms, lambda group, late: not late & ~largest[group]
        )
        expected: dict[tuple[int, int, int], list[Entry]] = {}
        for slot in range(part.stop):
            entry, job, group = live[slot], jobs[slot], slot % GROUPS
            beyond = [runs_beyond(job, each) for each in plans]
            late = sum(1 << bit for bit, each in enumerate(beyond) if each)
            least = min([now[job.tenant], *(then[i, job.tenant] for i, each in enumerate(beyond) if each)])
            if entry is not None and group in wanted and least >= asked[group] and not late & ~largest[group]:
                expected.setdefault((group, late, job.lane), []).append(entry)
        assert {tuple(each[:3]): each.entries for each in found} == {
            key: sorted(entries) for key, entries in expected.items()
        }
        for slot in range(0, half, 3):
            live[slot] = None
