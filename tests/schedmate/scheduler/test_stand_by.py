"""In the full queue layer: tentative plans for who has waited, and a bound on how long larger jobs are passed."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, Policy, Reservation, Scheduler, Tenant
from schedmate.scheduler.policies import Patience
from schedmate.scheduler.promises import binds

_spec = importlib.util.spec_from_file_location("playing", Path(__file__).with_name("playing.py"))
assert _spec is not None
assert _spec.loader is not None
playing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(playing)

CORE = POLICIES["core"]
EIGHT = ClusterSpec.uniform(1, 8)


def impatient(**changes: float) -> Policy:
    return replace(CORE, patience=Patience(**{"plans": 1, "after_s": 5.0, "longest_s": 20.0, **changes}))  # type: ignore[arg-type]


def job(name: str, gpus: int, runtime_s: float, submit_s: float = 0.0, **more: object) -> Job:
    return Job(name, gpus, submit_s, hints=Hints(runtime_s, runtime_s), **more)  # type: ignore[arg-type]


def plans_of(scheduler: Scheduler) -> list[Reservation]:
    return [plan for plans in scheduler.state.reservations.values() for plan in plans]


timed = st.tuples(st.integers(0, 40), st.integers(1, 8), st.integers(0, 15), st.integers(-2, 5))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(timed, max_size=25),
    st.integers(0, 2),
    st.sampled_from([0.0, 1.0, 6.0]),
)
@example(
    [(4, 3, 15, 0), (4, 8, 5, 1), (15, 3, 15, 0), (15, 3, 10, 5), *[(15, 4, 7, 5)] * 2, (15, 8, 0, 0), (30, 1, 0, 0)],
    2,
    1.0,
)
def test_who_has_waited_too_long_is_reserved_for(
    drawn: list[tuple[int, int, int, int]], plans: int, backlogs: float
) -> None:
    policy = replace(impatient(plans=plans, backlogs=backlogs), starvation_bound_s=math.inf)
    scheduler = Scheduler(EIGHT, policy)
    jobs = [
        (replace(job(str(i), gpus, max(0, runtime + off), submit)), float(runtime))
        for i, (submit, gpus, runtime, off) in enumerate(drawn)
    ]

    def watch(scheduler: Scheduler, now: float) -> None:
        state, there = scheduler.state, plans_of(scheduler)
        tentative = [plan for plan in there if plan.tentative]
        assert len(tentative) <= plans
        assert {plan.slot for plan in tentative} == set(state.layer.tentative if state.layer else ())
        waiting = {slot: each.submit_s for slot, each in enumerate(state.table.jobs) if each and state.table.live[slot]}
        assert all(now - waiting[plan.slot] >= 5.0 for plan in tentative)
        assert len({plan.slot for plan in there if not plan.tentative}) <= 1
        if any(now - submit_s >= 20.0 for submit_s in waiting.values()):
            # where the one before has just started it is somebody's turn a second later
            soon = (
                any(state.table.starts_s[slot] == now for slot in state.table.running()) and scheduler.wake_s <= now + 1
            )
            assert soon or any(not plan.tentative for plan in there), "someone is reserved for"

    starts = playing.play(scheduler, jobs, watch)
    assert all(start >= each.submit_s for start, (each, _) in zip(starts, jobs, strict=True)), "all have run"


def test_a_larger_job_keeps_away_and_a_smaller_one_need_not() -> None:
    scheduler = Scheduler(EIGHT, impatient(longest_s=1000.0, backlogs=100.0))
    for each in (job("half", 4, 100), job("other", 4, 10)):
        scheduler.submit(each)
    scheduler.cycle(0.0)
    wide = scheduler.submit(job("wide", 8, 100))
    scheduler.cycle(0.0)
    assert not plans_of(scheduler), "it has not waited long enough"
    scheduler.end(1, 10.0)
    scheduler.cycle(10.0)
    (plan,) = plans_of(scheduler)
    assert (plan.slot, plan.start_s, plan.tentative) == (wide, 100.0, True)
    assert scheduler.decision(wide).verdict == "waiting", "nobody is sure of it"
    assert scheduler.decision(wide).expected_start_s == 100.0
    larger, smaller = scheduler.submit(job("larger", 4, 500, 11.0)), scheduler.submit(job("smaller", 4, 150, 11.0))
    assert binds(scheduler.state, plan, larger)
    assert not binds(scheduler.state, plan, smaller)
    assert scheduler.cycle(11.0) == [smaller]
    (plan,) = plans_of(scheduler)
    assert plan.start_s == 161.0, "it has moved"


def test_an_equal_job_that_came_later_keeps_away() -> None:
    scheduler = Scheduler(EIGHT, impatient(longest_s=1000.0, backlogs=100.0))
    first = scheduler.submit(job("first", 8, 10))
    scheduler.cycle(0.0)
    wide = scheduler.submit(job("wide", 8, 100))
    scheduler.cycle(8.0)
    (plan,) = plans_of(scheduler)
    same = scheduler.submit(job("same", 8, 100, 8.0))
    assert plan.slot == wide
    assert binds(scheduler.state, plan, same)
    assert not binds(scheduler.state, plan, wide)
    scheduler.end(first, 10.0)
    assert scheduler.cycle(10.0) == [wide]
    assert not scheduler.state.layer or not scheduler.state.layer.tentative


@pytest.mark.parametrize("tenant", ["a", "b"])
def test_tenants_do_not_bind_each_other_by_what_is_tentative(tenant: str) -> None:
    scheduler = Scheduler(EIGHT, impatient(longest_s=1000.0, backlogs=100.0), (Tenant("a"), Tenant("b")))
    scheduler.submit(job("half", 4, 100, tenant="a"))
    scheduler.cycle(0.0)
    wide = scheduler.submit(job("wide", 8, 100, tenant="a"))
    scheduler.cycle(0.0)
    scheduler.cycle(9.0)
    scheduler.submit(job("too large", 5, 900, 10.0, tenant="b"))
    scheduler.cycle(10.0)
    assert [plan.slot for plan in plans_of(scheduler)] == [wide]
    larger = scheduler.submit(job("larger", 4, 500, 11.0, tenant=tenant))
    assert scheduler.cycle(11.0) == ([larger] if tenant == "b" else [])


def test_patience_goes_with_policies_in_which_somebody_can_be_passed() -> None:
    with pytest.raises(ValueError, match="nobody has to be patient"):
        replace(POLICIES["conservative"], patience=Patience())
    with pytest.raises(ValueError, match="does not look at how long they wait"):
        replace(CORE, ageing_s=100.0)
