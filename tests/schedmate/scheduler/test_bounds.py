"""`Bounds` against the rule for one job and one plan at a time, as `Trial.late` states it."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler.bounds import Allowed, Bound, Bounds, PlanBound
from schedmate.scheduler.pending import Entry

NOW = 10.0
TENANTS = 3
seconds = st.sampled_from([0.0, 1.0, 4.0, 20.0, math.inf])
bound = st.builds(
    Bound,
    within_s=seconds,
    limit_s=seconds,
    leaves_s=seconds,
    rank=st.sampled_from([-math.inf, -2.0, -0.0]),
    tenant=st.integers(0, TENANTS - 1).map(float),
    since=st.integers(0, 4).map(float),
)
plan = st.builds(
    PlanBound,
    start_s=st.sampled_from([10.0, 12.0, 15.0, 40.0]),
    rank=st.sampled_from([-math.inf, -2.0, -0.0, math.inf]),
    hard=st.booleans(),
    takes_promise=st.booleans(),
    bound_before=st.sampled_from([-1.0, 0.0, 2.0, 5.0]),
)


def runs_beyond(job: Bound, each: PlanBound) -> bool:
    if each.rank > job.rank and not job.since < each.bound_before:
        return False
    if NOW + (job.limit_s if each.hard else job.within_s) <= each.start_s:
        return False
    return not (each.takes_promise and NOW + job.leaves_s <= each.start_s)


@given(st.lists(bound, max_size=30), st.lists(plan, max_size=5), st.data())
def test_candidates_are_those_of_the_rule(jobs: list[Bound], plans: list[PlanBound], data: st.DataObject) -> None:
    live: list[Entry | None] = [(float(slot % 4), slot, slot) for slot in range(len(jobs))]
    bounds: Bounds[str] = Bounds(live)
    draw_flags = st.lists(st.booleans(), min_size=TENANTS, max_size=TENANTS)
    now = np.array(data.draw(draw_flags))
    then = np.array([data.draw(draw_flags) for _ in plans], dtype=np.bool_).reshape(len(plans), TENANTS)
    owners = ["ab"[slot % 2] for slot in range(len(jobs))]
    largest = data.draw(st.integers(0, 31))
    half = len(jobs) // 2
    for part in (range(half), range(half, len(jobs))):  # some come later, and some of the first have gone by then
        for slot in part:
            entry = live[slot]
            assert entry is not None
            bounds.add(entry, owners[slot])
        assert bounds.has_new == bool(part)
        found = bounds.candidates(
            plans, NOW, lambda slot: jobs[slot], Allowed(now, then), lambda late: not late & ~largest
        )
        assert not bounds.has_new
        expected: dict[tuple[int, str], list[Entry]] = {}
        for slot in range(part.stop):
            entry, job = live[slot], jobs[slot]
            beyond = [runs_beyond(job, each) for each in plans]
            late = sum(1 << bit for bit, each in enumerate(beyond) if each)
            quota = now[int(job.tenant)] and all(then[i, int(job.tenant)] for i, each in enumerate(beyond) if each)
            if entry is not None and quota and not late & ~largest:
                expected.setdefault((late, owners[slot]), []).append(entry)
        assert {(late, owner): entries for late, owner, entries in found} == {
            key: sorted(entries) for key, entries in expected.items()
        }
        for slot in range(0, half, 3):
            live[slot] = None
