"""Quota in the tenant tree: tables, and properties against a plain account of who uses what."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Job, PoolSpec, Quota, Scheduler, Tenant, Unschedulable
from schedmate.scheduler.tenants import ROOT, Queueing, TenantTree, TenantUse

SPEC = ClusterSpec((PoolSpec("a", 8, 4), PoolSpec("b", 4, 4)))
GPU = 1000


def use_of(*tenants: Tenant) -> TenantUse:
    return TenantUse(TenantTree(SPEC, tenants, Queueing.BACKFILL))


def room(use: TenantUse, name: str, pool: int = 0) -> int:
    """How many single GPUs more the tenant may use."""
    tenant, gpus = use.tree.numbers[name], 0
    while use.bound(tenant, pool, (gpus + 1) * GPU) < 0:
        gpus += 1
    return gpus


@pytest.mark.parametrize(
    ("quota", "other", "isolated", "expected"),
    [
        (Quota(8), Quota(24), False, 32),  # borrows all that is idle
        (Quota(8, borrow_limit=4), Quota(24), False, 12),
        (Quota(8, borrow_limit=0), Quota(24), False, 8),
        (Quota(8), Quota(24, lend_limit=6), False, 14),
        (Quota(8), Quota(24, lend_limit=0), False, 8),
        (Quota(8), Quota(20, lend_limit=0), False, 12),  # 4 are nobody's
        (Quota(8), Quota(24), True, 8),
        (Quota(0), Quota(24), False, 32),
    ],
)
def test_guaranteed_borrowed_lent(quota: Quota, other: Quota, isolated: bool, expected: int) -> None:
    use = use_of(Tenant("one", {"a": quota}, isolated=isolated), Tenant("two", {"a": other}))
    assert room(use, "one") == expected


def test_an_isolated_tenant_lends_nothing() -> None:
    use = use_of(Tenant("one", {"a": Quota(8)}), Tenant("two", {"a": Quota(24)}, isolated=True))
    assert room(use, "one") == 8


def test_what_is_borrowed_comes_back_when_it_is_not_used() -> None:
    use = use_of(Tenant("one", {"a": Quota(8)}), Tenant("two", {"a": Quota(24)}))
    one, two = use.tree.numbers["one"], use.tree.numbers["two"]
    use.charge(one, 0, 20 * GPU)
    assert room(use, "two") == 12
    assert use.is_entitled(two, 0, 24 * GPU)
    assert not use.is_entitled(one, 0, GPU)
    use.charge(one, 0, -20 * GPU)
    assert room(use, "two") == 32


def test_a_parent_binds_its_children_together() -> None:
    teams = (Tenant("x", {"a": Quota(4)}), Tenant("y", {"a": Quota(4)}))
    use = use_of(Tenant("lab", {"a": Quota(8, borrow_limit=0)}, teams), Tenant("rest", {"a": Quota(24)}))
    assert room(use, "x") == 8
    use.charge(use.tree.numbers["y"], 0, 6 * GPU)
    assert room(use, "x") == 2
    assert room(use, "rest") == 26


def test_a_parent_without_quota_has_what_its_children_have() -> None:
    use = use_of(Tenant("lab", children=(Tenant("x", {"a": Quota(4)}),), isolated=True))
    assert room(use, "x") == 4


@pytest.mark.parametrize(
    ("quota", "other", "isolated", "own_use", "other_use", "limited"),
    [
        (Quota(0), Quota(24), False, 0, 24, False),  # the cluster is full of what others use
        (Quota(0), Quota(24), False, 28, 0, False),  # the same, of its own
        (Quota(0, borrow_limit=8), Quota(24), False, 4, 28, True),
        (Quota(0, borrow_limit=8), Quota(24), False, 0, 28, False),
        (Quota(8), Quota(24, lend_limit=0), False, 8, 24, True),
        (Quota(8), Quota(24, lend_limit=4), False, 4, 28, False),  # others have borrowed from it
        (Quota(8), Quota(24, lend_limit=4), False, 8, 20, True),
        (Quota(8), Quota(24), True, 4, 24, True),
        (Quota(8), Quota(16), False, 4, 4, False),
    ],
)
def test_only_a_limit_that_was_set_is_one(
    quota: Quota, other: Quota, isolated: bool, own_use: int, other_use: int, limited: bool
) -> None:
    use = use_of(Tenant("one", {"a": quota}, isolated=isolated), Tenant("two", {"a": other}))
    one, two = use.tree.numbers["one"], use.tree.numbers["two"]
    use.charge(one, 0, own_use * GPU)
    use.charge(two, 0, other_use * GPU)
    assert use.is_limited(one, 0, 8 * GPU) == limited


def test_types_are_apart() -> None:
    use = use_of(Tenant("one", {"a": Quota(8, borrow_limit=0)}))
    use.charge(use.tree.numbers["one"], 0, 8 * GPU)
    assert (room(use, "one", 0), room(use, "one", 1)) == (0, 16)


@pytest.mark.parametrize(
    ("tenants", "words"),
    [
        ((Tenant("x", {"c": Quota(1)}),), "GPU type c, which no pool has"),
        ((Tenant("x"), Tenant("x")), "same name"),
        ((Tenant("x", {"a": Quota(33)}),), "the cluster has 32 GPUs of type a to give, 33 are guaranteed"),
        ((Tenant("x", {"a": Quota(4)}, (Tenant("y", {"a": Quota(5)}),)),), "tenant x has 4 GPUs"),
    ],
)
def test_trees_that_can_not_be_kept_are_refused(tenants: tuple[Tenant, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TenantTree(SPEC, tenants, Queueing.STRICT)


def test_amounts_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Quota(-1)
    with pytest.raises(ValueError, match="weight"):
        Tenant("x", weight=0)


limits = st.none() | st.integers(0, 8)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Tenant, ...]:
    found, left = [], 32
    for name in "pq":
        given_here = draw(st.integers(0, left))
        left -= given_here
        children, below = [], given_here
        for number in range(draw(st.integers(0, 2))):
            part = draw(st.integers(0, below))
            below -= part
            children.append(Tenant(f"{name}{number}", {"a": Quota(part, draw(limits), draw(limits))}))
        quota = Quota(given_here, draw(limits), draw(limits))
        found.append(Tenant(name, {"a": quota}, tuple(children), isolated=draw(st.booleans())))
    return tuple(found)


@settings(deadline=None)
@given(st.data(), trees())
def test_no_limit_is_ever_exceeded_and_guaranteed_gpus_can_always_be_had(
    data: st.DataObject, tenants: tuple[Tenant, ...]
) -> None:
    """What is used is counted a second time here, by tenant. Nobody borrows what others keep."""
    use = use_of(*tenants)
    tree, taken = use.tree, [0] * len(use.tree.names)
    for _ in range(data.draw(st.integers(0, 30))):
        tenant = data.draw(st.integers(ROOT, len(taken) - 1))
        gpus = data.draw(st.integers(1, 6))
        if data.draw(st.booleans()) and taken[tenant] >= gpus:
            taken[tenant] -= gpus
            use.charge(tenant, 0, -gpus * GPU)
        elif use.bound(tenant, 0, gpus * GPU) < 0:
            taken[tenant] += gpus
            use.charge(tenant, 0, gpus * GPU)
    for tenant, most in enumerate(use.rooms(0).tolist()):
        assert use.bound(tenant, 0, max(0, most)) < 0
        assert use.bound(tenant, 0, max(0, most) + 1) >= 0
    tenant, asked = data.draw(st.integers(ROOT, len(taken) - 1)), data.draw(st.integers(1, 12)) * GPU
    lack, less = use.lack(tenant, 0, asked), use.copy()
    gone = [data.draw(st.integers(0, gpus)) * GPU for gpus in taken]
    for other, milli in enumerate(gone):
        less.charge(other, 0, -milli)
    assert (lack > 0) == (use.bound(tenant, 0, asked) >= 0)
    assert less.bound(tenant, 0, asked) >= 0 or sum(gone) >= lack, "less than what is lacked does not do"
    below = taken.copy()
    for number in range(len(taken) - 1, ROOT, -1):
        below[tree.parents[number]] += below[number]
    for number, gpus in enumerate(below):
        assert gpus * GPU <= tree.most[number][0]
    for number in range(1, len(taken)):
        others = below[ROOT] - below[number]
        kept = tree.kept[number][0] if tree.parents[number] == ROOT else 0
        assert others * GPU + max(kept, below[number] * GPU) <= tree.guaranteed[ROOT][0]
    for tenant, gpus in enumerate(taken):
        use.charge(tenant, 0, -gpus * GPU)
    assert use == TenantUse(tree)


def test_refusals_and_reasons_name_the_quota() -> None:
    lab = Tenant("lab", {"a": Quota(4, borrow_limit=2), "b": Quota(0, borrow_limit=0)})
    scheduler = Scheduler(SPEC, POLICIES["core"], [lab])
    with pytest.raises(Unschedulable, match=r"quota of tenant lab for b: 0 GPUs of 0 guaranteed, none to borrow"):
        scheduler.submit(Job("x", 1, 0.0, gpu_type="b", tenant="lab"))
    with pytest.raises(Unschedulable, match="tenant other, which is not known"):
        scheduler.submit(Job("x", 1, 0.0, tenant="other"))
    first = scheduler.submit(Job("first", 4, 0.0, tenant="lab"))
    second = scheduler.submit(Job("second", 4, 0.0, tenant="lab"))
    anyone = scheduler.submit(Job("anyone", 4, 0.0))
    assert scheduler.cycle(0.0) == [first, anyone]
    reason = "quota of tenant lab for a: 4 GPUs of 4 guaranteed and 2 to borrow in use"
    assert scheduler.decision(second).reason == reason


def test_a_copy_is_independent_of_what_it_was_made_from() -> None:
    old = use_of(Tenant("x", {"a": Quota(8)}), Tenant("y", {"a": Quota(8)}))
    old.charge(old.tree.numbers["x"], 0, 2 * GPU)
    new = old.copy()
    assert new == old
    new.charge(new.tree.numbers["x"], 0, 3 * GPU)
    assert (room(old, "x"), room(new, "x")) == (30, 27)
    old.charge(old.tree.numbers["x"], 0, -2 * GPU)
    assert (room(old, "x"), room(new, "x")) == (32, 27)
