"""Hints and tenants that change between two cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedmate.scheduler import (
    POLICIES,
    ClusterSpec,
    Hints,
    Job,
    Placement,
    PoolSpec,
    Queueing,
    Quota,
    Scheduler,
    Tenant,
)
from schedmate.scheduler.policies import at_once, by_submission
from schedmate.simulator.audit import audit

CORE = replace(POLICIES["core"], order=by_submission, reserve_from=at_once)


@pytest.mark.parametrize(("expected_s", "start_s"), [(30.0, 30.0), (80.0, 80.0), (500.0, 100.0)])
def test_what_is_expected_of_a_running_job_moves_the_expected_start_and_never_the_guaranteed_one(
    expected_s: float, start_s: float
) -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), CORE)
    running = scheduler.submit(Job("running", 8, 0, limit_s=100, hints=Hints(50.0, 60.0)))
    waiting = scheduler.submit(Job("waiting", 8, 0, limit_s=100))
    scheduler.cycle(0)
    before = scheduler.decision(waiting)
    assert (before.expected_start_s, before.guaranteed_start_s) == (50, 100)
    scheduler.update_hints(running, Hints(expected_s, expected_s), 10)
    scheduler.cycle(10)
    after = scheduler.decision(waiting)
    assert (after.expected_start_s, after.guaranteed_start_s) == (start_s, 100)
    scheduler.update_hints(running, None, 11)
    scheduler.cycle(11)
    assert scheduler.decision(waiting).expected_start_s == 100


@pytest.mark.parametrize("policy", ["kant", "core"])
def test_a_waiting_job_takes_the_place_that_its_hints_give_it(policy: str) -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES[policy])
    running = scheduler.submit(Job("running", 8, 0, limit_s=100))
    scheduler.cycle(0)
    jobs = [Job(name, 8, 0, limit_s=90_000, hints=Hints(s, s)) for name, s in (("a", 10), ("b", 20))]
    first, second = (scheduler.submit(job) for job in jobs)
    scheduler.cycle(0)
    scheduler.update_hints(first, Hints(80_000, 80_000), 1)
    scheduler.end(running, 2)
    assert scheduler.cycle(2) == [second]
    assert not audit(scheduler)


def test_another_tenant_tree_counts_what_runs() -> None:
    lab, other = Tenant("lab", {"gpu": Quota(8, borrow_limit=0)}), Tenant("other", {"gpu": Quota(8)})
    scheduler = Scheduler(ClusterSpec.uniform(2), CORE, (lab, other))
    slots = [scheduler.submit(Job(f"j{i}", 4, 0, limit_s=100, tenant="lab")) for i in range(5)]
    assert scheduler.cycle(0) == slots[:2]
    more = replace(lab, quotas={"gpu": Quota(8, borrow_limit=4)})
    scheduler.set_tenants((Tenant("new", queueing=Queueing.STRICT), more, other), 1)
    assert scheduler.cycle(1) == slots[2:3]
    scheduler.set_tenants((replace(lab, quotas={"gpu": Quota(4, borrow_limit=0)}), other), 2)
    assert scheduler.cycle(2) == [], "nobody is evicted, and nothing more starts"
    assert len(scheduler.state.table.running()) == 3
    for slot in slots[:2]:
        scheduler.end(slot, 3)
    assert scheduler.cycle(3) == []
    scheduler.end(slots[2], 4)
    assert scheduler.cycle(4) == slots[3:4]
    assert not audit(scheduler)
    with pytest.raises(ValueError, match="tenant lab is gone, but its job j"):
        scheduler.set_tenants((other,), 5)
    with pytest.raises(ValueError, match="has no tenants"):
        Scheduler(ClusterSpec.uniform(1), POLICIES["fifo"]).set_tenants((other,), 0)


@pytest.mark.parametrize("reservations", [1, 2])
def test_another_tenant_tree_opens_and_closes_pools_to_those_who_wait(reservations: int) -> None:
    spec = ClusterSpec((PoolSpec("a", 1, 8), PoolSpec("b", 1, 8)))
    only_a = Tenant("lab", {"a": Quota(8), "b": Quota(0, borrow_limit=0)})
    scheduler = Scheduler(spec, replace(CORE, reservations=reservations), (only_a,))
    running, waiting, later = (scheduler.submit(Job(f"j{i}", 8, 0, limit_s=100, tenant="lab")) for i in range(3))
    assert scheduler.cycle(0) == [running]
    both = Tenant("lab", {"a": Quota(8), "b": Quota(8)})
    scheduler.set_tenants((both,), 1)
    assert scheduler.cycle(1) == [waiting]
    assert scheduler.decision(waiting).placement == Placement("b", ((0, 8),))
    scheduler.set_tenants((only_a,), 2)
    scheduler.end(waiting, 2)
    assert scheduler.cycle(2) == [], "b is closed again"
    closed = Quota(0, borrow_limit=0)
    scheduler.set_tenants((Tenant("lab", {"a": closed, "b": closed}),), 3)
    scheduler.end(running, 3)
    assert scheduler.cycle(3) == [], "and so is a"
    assert "quota" in scheduler.decision(later).reason
    scheduler.set_tenants((only_a,), 4)
    assert scheduler.cycle(4) == [later]
    assert not audit(scheduler)
