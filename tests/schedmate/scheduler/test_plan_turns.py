"""Where many jobs run, one waiting job a cycle gets plans; the others have their turn though nothing happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Job, PoolSpec, Quota, Scheduler, Tenant
from schedmate.scheduler.actions import plan, stand_by
from schedmate.scheduler.policies import Patience, at_once

CORE = POLICIES["core"]
POOLS = ("a", "b", "c")


def blocked_on_all() -> tuple[Scheduler, list[int]]:
    """A full cluster of three pools, and a job that waits for each."""
    spec = ClusterSpec(tuple(PoolSpec(name, 4, 2) for name in POOLS))
    scheduler = Scheduler(spec, replace(CORE, min_run_s=0.0, reserve_from=at_once))
    for name in POOLS:
        for node in range(4):
            scheduler.submit(Job(f"{name}-{node}", 2, 0.0, estimate_s=500.0, limit_s=900.0, gpu_type=name))
    assert len(scheduler.cycle(0.0)) == 4 * len(POOLS)
    return scheduler, [scheduler.submit(Job(f"wide-{name}", 8, 1.0, 500.0, 900.0, gpu_type=name)) for name in POOLS]


def planned(scheduler: Scheduler) -> set[int]:
    return {each.slot for plans in scheduler.state.reservations.values() for each in plans}


def test_one_a_cycle_where_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY_RUNNING", 2)
    scheduler, waiting = blocked_on_all()
    now = 1.0
    for number in range(1, len(waiting) + 1):
        assert scheduler.cycle(now) == []
        assert planned(scheduler) == set(waiting[:number])
        if number < len(waiting):
            assert scheduler.wake_s == now + plan.NEXT_TURN_S
        now = scheduler.wake_s
    assert now > 1.0 + len(waiting) * plan.NEXT_TURN_S, "nobody waits for a turn any more"


def test_all_at_once_where_few_run() -> None:
    scheduler, waiting = blocked_on_all()
    assert scheduler.cycle(1.0) == []
    assert planned(scheduler) == set(waiting)


def test_plans_follow_one_by_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY_RUNNING", 2)
    scheduler, waiting = blocked_on_all()
    for now in (1.0, 2.0, 3.0):
        scheduler.cycle(now)
    first = 3.0 + plan.FOLLOW_S
    renewed_s = []
    for now in (first, first + 1.0, first + 2.0):
        scheduler.withdraw(scheduler.submit(Job("nobody", 1, now)))  # something happens
        scheduler.cycle(now)
        layer = scheduler.state.layer
        assert layer is not None
        renewed_s.append(sorted(layer.renewed_s[slot] for slot in waiting))
    assert renewed_s == [[2.0, 3.0, first], [3.0, first, first + 1.0], [first, first + 1.0, first + 2.0]]


def blocked_behind_many() -> tuple[Scheduler, list[int]]:
    """Twenty small jobs that fill a node, and a gang that wants all of it."""
    scheduler = Scheduler(ClusterSpec.uniform(1, 20), replace(CORE, patience=None, reserve_from=at_once))
    running = [scheduler.submit(Job(f"small{i}", 1, 0.0, limit_s=1000.0)) for i in range(20)]
    assert scheduler.cycle(0.0) == running
    return scheduler, running


def test_what_has_ended_is_given_out_before_plans_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY_RUNNING", 1)
    scheduler, running = blocked_behind_many()
    wide, small = scheduler.submit(Job("wide", 20, 1.0, limit_s=10.0)), scheduler.submit(Job("small", 1, 1.0))
    scheduler.end(running[0], 2.0)
    assert scheduler.cycle(2.0) == [small]
    assert not planned(scheduler)
    assert scheduler.wake_s == 2.0 + plan.MOMENT_S
    assert scheduler.cycle(scheduler.wake_s) == []
    assert planned(scheduler) == {wide}


def test_plans_are_not_put_off_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY_RUNNING", 1)
    scheduler, running = blocked_behind_many()
    wide, now = scheduler.submit(Job("wide", 20, 1.0, limit_s=10.0)), 2.0
    for slot in running[:-1]:  # faster than there is a moment for plans
        scheduler.end(slot, now)
        scheduler.cycle(now)
        if planned(scheduler):
            break
        now += plan.MOMENT_S / 1.5
    assert planned(scheduler) == {wide}
    assert now == pytest.approx(2.0 + plan.NEXT_TURN_S, abs=plan.MOMENT_S)


def test_where_nothing_has_ended_plans_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY_RUNNING", 1)
    scheduler, _ = blocked_behind_many()
    wide = scheduler.submit(Job("wide", 20, 1.0, limit_s=10.0))
    scheduler.cycle(1.0)
    assert planned(scheduler) == {wide}


def test_who_kept_away_from_a_tentative_plan_starts_in_the_cycle_in_which_its_job_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the quota that is left when the plan begins ``long`` would have to wait; with ``ripe`` running it is gone."""
    monkeypatch.setattr(plan, "MANY_RUNNING", 1)  # so that the plan does not follow the early ends by itself
    policy = replace(CORE, patience=Patience(plans=1, after_s=10.0))
    tenants = (Tenant("x", {"gpu": Quota(8, 0)}), Tenant("y"))
    scheduler = Scheduler(ClusterSpec.uniform(1, 9), policy, tenants)

    def submit(name: str, gpus: int, at_s: float, limit_s: float, tenant: str) -> int:
        return scheduler.submit(Job(name, gpus, at_s, limit_s=limit_s, tenant=tenant))

    early = [submit("a", 2, 0.0, 100.0, "x"), submit("b", 4, 0.0, 1000.0, "x")]
    submit("c", 3, 0.0, 2000.0, "y")
    scheduler.cycle(0.0)
    ripe, long = submit("ripe", 2, 1.0, 90.0, "x"), submit("long", 4, 1.0, 1000.0, "x")
    scheduler.cycle(1.0)
    submit("head", 7, 12.0, 1.0, "x")
    scheduler.cycle(12.0)
    assert [(each.slot, each.tentative) for each in scheduler.state.reservations[0]] == [(ripe, True)]
    for slot in early:
        scheduler.end(slot, 13.0)
    assert scheduler.cycle(13.0) == [ripe, long]


def test_who_stands_by_where_many_run_is_looked_at_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MANY_RUNNING", 1)
    policy = replace(CORE, patience=Patience(plans=1, after_s=10.0))
    scheduler = Scheduler(ClusterSpec.uniform(1, 8), policy)
    scheduler.submit(Job("runs", 8, 0.0, limit_s=1000.0))
    scheduler.cycle(0.0)
    ripe = scheduler.submit(Job("ripe", 8, 0.0, limit_s=10.0))
    made: list[float] = []
    walk = stand_by._StandingBy.through
    monkeypatch.setattr(
        stand_by._StandingBy, "through", lambda self, lanes: (made.append(self._now), walk(self, lanes))
    )
    for tenth in range(100, 131):
        scheduler.submit(Job(f"at {tenth}", 8, tenth / 10, limit_s=1000.0))  # something happens
        scheduler.cycle(tenth / 10)
    assert planned(scheduler) == {ripe}
    assert made == pytest.approx([10.0, 11.0, 12.0, 13.0])


def test_of_those_whose_start_does_not_hold_the_one_goes_first_that_has_waited_longest() -> None:
    scheduler, waiting = blocked_on_all()
    scheduler.cycle(1.0)
    layer, first, second = scheduler.state.layer, waiting[0], waiting[1]
    assert layer is not None
    plans = [each for plans in scheduler.state.reservations.values() for each in plans]
    layer.renewed_s = {first: 3.0, second: 2.0}
    assert plan._turn(layer, plans, {(first, True), (second, True)}, 4.0) == {second}
    layer.renewed_s = {first: 3.0, second: 4.0}
    assert plan._turn(layer, plans, {(first, True), (second, True)}, 4.0) == {first}
