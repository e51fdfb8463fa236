"""Where many jobs run, one waiting job a cycle gets plans; the others have their turn though nothing happens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Job, PoolSpec, Scheduler
from schedmate.scheduler.actions import plan
from schedmate.scheduler.policies import at_once

POOLS = ("a", "b", "c")


def blocked_on_all() -> tuple[Scheduler, list[int]]:
    """A full cluster of three pools, and a job that waits for each."""
    spec = ClusterSpec(tuple(PoolSpec(name, 4, 2) for name in POOLS))
    scheduler = Scheduler(spec, replace(POLICIES["core"], min_run_s=0.0, reserve_from=at_once))
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
