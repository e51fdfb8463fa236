"""Tenants of equal shares take turns, whoever came first, and nobody among them starves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Job, Queueing, Quota, Scheduler, Tenant
from schedmate.scheduler.policies import at_once, by_submission

CORE = replace(POLICIES["core"], order=by_submission, reserve_from=at_once)
RUN_S = 10.0


def starts(queueing: Queueing, tenants: tuple[Tenant, ...], gpus: int, jobs: int = 24) -> str:
    """The tenants of the jobs in the order of their starts; all of the first tenant's are submitted first."""
    scheduler = Scheduler(ClusterSpec.uniform(1), replace(CORE, queueing=queueing), tenants)
    whose = {
        scheduler.submit(Job(f"{tenant.name}{i}", gpus, 0.0, limit_s=RUN_S, tenant=tenant.name)): tenant.name
        for tenant in tenants
        for i in range(jobs)
    }
    order, ends_s, now = "", dict[int, float](), 0.0
    while now < math.inf:
        for slot in [slot for slot, end_s in ends_s.items() if end_s <= now]:
            scheduler.end(slot, now)
            del ends_s[slot]
        for slot in scheduler.cycle(now):
            order += whose[slot]
            ends_s[slot] = now + RUN_S
        now = min([*ends_s.values(), scheduler.wake_s])
    assert len(order) == len(tenants) * jobs
    return order


def ahead(order: str) -> int:
    """By how many starts one of two tenants was ever ahead of the other."""
    return max(abs(order[:n].count("a") - order[:n].count("b")) for n in range(len(order)))


@pytest.mark.parametrize("queueing", [Queueing.BACKFILL, Queueing.BEST_EFFORT])
@pytest.mark.parametrize("gpus", [1, 3, 8])
def test_equal_tenants_take_turns(queueing: Queueing, gpus: int) -> None:
    order = starts(queueing, (Tenant("a"), Tenant("b")), gpus)
    assert ahead(order) <= 2
    assert order == starts(queueing, (Tenant("a"), Tenant("b")), gpus), "and the same way every time"


@pytest.mark.parametrize("queueing", [Queueing.BACKFILL, Queueing.BEST_EFFORT])
def test_who_is_listed_first_does_not_matter(queueing: Queueing) -> None:
    order = starts(queueing, (Tenant("a"), Tenant("b")), 1)
    mirrored = starts(queueing, (Tenant("b"), Tenant("a")), 1)
    assert mirrored == order.translate(str.maketrans("ab", "ba"))


def test_a_tenant_of_twice_the_weight_runs_about_twice_as_much_meanwhile() -> None:
    order = starts(Queueing.BACKFILL, (Tenant("a"), Tenant("b", weight=2.0)), 1)
    until = order.rindex("b") + 1
    assert 1.4 <= order[:until].count("b") / order[:until].count("a") <= 2.2


def test_equal_guarantees_are_had_in_turn() -> None:
    half = {"gpu": Quota(4)}
    order = starts(Queueing.BACKFILL, (Tenant("a", half), Tenant("b", half)), 1)
    assert ahead(order) <= 5, "within what it is guaranteed nobody stands back"
    assert all(order[n : n + 16].count("a") == 8 for n in range(0, len(order), 16))


def test_nobody_starves_beside_many_small_jobs_of_an_equal() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), CORE, (Tenant("a"), Tenant("b")))
    ends_s: dict[int, float] = {}
    wide = -1
    for now in range(60):
        for slot in [slot for slot, end_s in ends_s.items() if end_s <= now]:
            scheduler.end(slot, now)
            del ends_s[slot]
        for i in range(2):
            scheduler.submit(Job(f"a{now}.{i}", 1, now, limit_s=RUN_S, tenant="a"))
        if now == 5:
            wide = scheduler.submit(Job("wide", 8, now, limit_s=RUN_S, tenant="b"))
        started = scheduler.cycle(now)
        ends_s |= dict.fromkeys(started, now + RUN_S)
        if wide in started:
            assert now <= 5 + 2 * RUN_S, "after the job that had the reservation before it"
            return
    pytest.fail("the wide job of the other tenant never started")
