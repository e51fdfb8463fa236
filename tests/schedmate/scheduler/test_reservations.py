"""A plan as a value."""

from __future__ import annotations

from dataclasses import fields, replace

from schedmate.scheduler import ClusterSpec, PoolSpec
from schedmate.scheduler.tenants import Queueing, TenantTree, TenantUse
from schedmate.scheduler.types import Reservation, Victim


def test_a_plan_that_spares_something_else_is_the_same_in_all_else() -> None:
    use = TenantUse(TenantTree(ClusterSpec((PoolSpec("a", 8, 4),)), (), Queueing.BACKFILL))
    plan = Reservation(3, 1, 5.0, ((0, 2),), {0: 1}, True, 9.0, True, use, (Victim(1, 2, 3, 4.0),), True)
    plain = Reservation(0, 0, 0.0, (), {}, False)
    told_apart = [
        each.name for each in fields(Reservation) if each.init and getattr(plan, each.name) == getattr(plain, each.name)
    ]
    assert not told_apart, "every field is to be one that would be missed"
    other = use.copy()
    assert plan.sparing({0: 2}, other) == replace(plan, spare={0: 2}, use=other)
