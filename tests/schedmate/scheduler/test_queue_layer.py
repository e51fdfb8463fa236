"""The full queue layer: classes, fair share, starvation bound, queues, eviction, several reservations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, Policy, PoolSpec, Queueing, Quota, Scheduler, Tenant
from schedmate.scheduler.policies import DAY_S, at_once, by_submission

#: In the order of submission and with reservations at once, so that the tables stay short.
PROMPT = replace(POLICIES["core"], order=by_submission, reserve_from=at_once)
ONE = ClusterSpec.uniform(1, 8)


def submit(scheduler: Scheduler, job_id: str, gpus: int, submit_s: float = 0.0, **more: object) -> int:
    return scheduler.submit(Job(job_id, gpus, submit_s, **more))  # type: ignore[arg-type]


def run_in_turn(scheduler: Scheduler, slots: dict[int, str]) -> list[str]:
    """Every job runs for a second, one at a time; their order."""
    order, now = [], 0.0
    while len(order) < len(slots):
        (slot,) = scheduler.cycle(now)
        order.append(slots[slot])
        now += 1.0
        scheduler.end(slot, now)
    return order


def test_classes_go_first_and_keep_their_order() -> None:
    scheduler = Scheduler(ONE, PROMPT)
    asks = [("low", 0), ("high", 5), ("lower", 0), ("higher", 5), ("middle", 2)]
    slots = {submit(scheduler, name, 8, limit_s=1.0, priority=priority): name for name, priority in asks}
    assert run_in_turn(scheduler, slots) == ["high", "higher", "middle", "low", "lower"]


def test_a_new_job_is_looked_at_where_nothing_became_free_as_well() -> None:
    cluster = ClusterSpec((PoolSpec("a", 1, 8), PoolSpec("b", 1, 8)))
    scheduler = Scheduler(cluster, replace(PROMPT, queueing=Queueing.BEST_EFFORT))
    on_a = submit(scheduler, "on a", 8, gpu_type="a", limit_s=100.0)
    on_b = submit(scheduler, "on b", 4, gpu_type="b", limit_s=100.0)
    assert scheduler.cycle(0.0) == [on_a, on_b]
    scheduler.end(on_a, 10.0)
    submit(scheduler, "wide", 8, 10.0, gpu_type="b", limit_s=100.0)
    behind = submit(scheduler, "behind it", 4, 10.0, gpu_type="b", limit_s=100.0)
    assert scheduler.cycle(10.0) == [behind]


def test_waiting_lifts_a_job_over_a_slightly_higher_class() -> None:
    scheduler = Scheduler(ONE, replace(PROMPT, ageing_s=100.0))
    running = submit(scheduler, "running", 8, limit_s=300.0)
    assert scheduler.cycle(0.0) == [running]
    old = submit(scheduler, "old", 8, 0.0, limit_s=10.0)
    new = submit(scheduler, "new", 8, 250.0, limit_s=10.0, priority=2)
    higher = submit(scheduler, "higher", 8, 250.0, limit_s=10.0, priority=3)
    scheduler.end(running, 260.0)
    order = []
    for now in (260.0, 270.0, 280.0):
        (slot,) = scheduler.cycle(now)
        order.append(slot)
        scheduler.end(slot, now + 10.0)
    assert order == [higher, old, new]


@pytest.mark.parametrize(
    ("queueing", "expected"),
    [
        (Queueing.BEST_EFFORT, ["calm", "calm", "busy", "busy"]),
        # While one runs on the whole cluster the other one has the smaller share, and the reservation.
        (Queueing.BACKFILL, ["calm", "busy", "calm", "busy"]),
    ],
)
def test_the_tenant_that_has_used_less_goes_first(queueing: Queueing, expected: list[str]) -> None:
    tenants = [Tenant("busy"), Tenant("calm"), Tenant("heavy", weight=3.0)]
    scheduler = Scheduler(ONE, replace(PROMPT, queueing=queueing), tenants)
    first = submit(scheduler, "first", 8, tenant="busy", limit_s=100.0)
    assert scheduler.cycle(0.0) == [first]
    names = ["busy", "calm", "busy", "calm"]
    slots = {submit(scheduler, f"{name}{i}", 8, 1.0, tenant=name, limit_s=1.0): name for i, name in enumerate(names)}
    scheduler.end(first, 100.0)
    order = []
    for now in range(100, 104):
        (slot,) = scheduler.cycle(float(now))
        order.append(slots[slot])
        scheduler.end(slot, now + 1.0)
    assert order == expected


def test_use_of_long_ago_counts_no_more() -> None:
    scheduler = Scheduler(ONE, replace(PROMPT, fair_share_s=1000.0, half_life_s=10.0), [Tenant("busy"), Tenant("calm")])
    first = submit(scheduler, "first", 8, tenant="busy", limit_s=1000.0)
    assert scheduler.cycle(0.0) == [first]
    scheduler.end(first, 1000.0)
    layer = scheduler.state.layer
    assert layer is not None
    assert layer.fair is not None
    busy = layer.tree.numbers["busy"]
    assert layer.fair.standing(busy, 1000.0) == pytest.approx(1.0)
    assert layer.fair.standing(busy, 1010.0) == pytest.approx(0.5)
    assert layer.fair.standing(busy, 2000.0) < 1e-12


def test_beyond_the_starvation_bound_a_job_goes_before_every_class() -> None:
    scheduler = Scheduler(ONE, replace(PROMPT, starvation_bound_s=100.0))
    low = submit(scheduler, "low", 8, limit_s=10.0, priority=0)
    high = submit(scheduler, "high", 8, limit_s=1000.0, priority=9)
    assert scheduler.cycle(0.0) == [high]
    submit(scheduler, "higher", 8, 50.0, limit_s=10.0, priority=9)
    assert scheduler.cycle(50.0) == []
    assert scheduler.wake_s == 100.0
    assert scheduler.cycle(100.0) == []
    scheduler.end(high, 110.0)
    assert scheduler.cycle(110.0) == [low]


def test_who_waits_too_long_without_any_hard_limit_locks_its_nodes_as_they_free_up() -> None:
    """Both running jobs have no limit and hints that are too short; the newcomer claims to be short as well."""
    scheduler = Scheduler(ClusterSpec.uniform(2, 8), replace(PROMPT, starvation_bound_s=100.0))
    olds = [submit(scheduler, f"old{i}", 8, hints=Hints(500.0, 500.0)) for i in range(2)]
    assert scheduler.cycle(0.0) == olds
    wide = submit(scheduler, "wide", 16, 1.0, hints=Hints(10.0, 10.0))
    assert scheduler.cycle(1.0) == []
    assert scheduler.cycle(101.0) == []
    scheduler.end(olds[0], 102.0)
    thief = submit(scheduler, "thief", 8, 102.0, hints=Hints(1.0, 1.0))
    sure = submit(scheduler, "sure", 8, 102.0, hints=Hints(1.0, 1.0), limit_s=300.0)
    assert scheduler.cycle(102.0) == [sure]
    decision = scheduler.decision(wide)
    assert (decision.expected_start_s, decision.guaranteed_start_s) == (500.0, None)
    assert scheduler.decision(thief).verdict == "waiting"
    scheduler.end(olds[1], 200.0)
    scheduler.end(sure, 200.0)
    assert scheduler.cycle(200.0) == [wide]


def queues(queueing: Queueing) -> tuple[Scheduler, list[int]]:
    """Of 16 GPUs 8 run until 100; 16 are wanted, then 8 for long, then 8 for less than 100."""
    policy = replace(PROMPT, queueing=queueing)
    scheduler = Scheduler(ClusterSpec.uniform(2, 8), policy)
    running = submit(scheduler, "running", 8, limit_s=100.0)
    assert scheduler.cycle(0.0) == [running]
    asks = [("wide", 16, 50.0), ("long", 8, 500.0), ("short", 8, 100.0)]
    return scheduler, [submit(scheduler, name, gpus, limit_s=limit_s) for name, gpus, limit_s in asks]


@pytest.mark.parametrize(
    ("queueing", "started", "guaranteed_s"),
    [(Queueing.STRICT, [], 100.0), (Queueing.BACKFILL, [2], 100.0), (Queueing.BEST_EFFORT, [1], None)],
)
def test_what_passes_a_blocked_job(queueing: Queueing, started: list[int], guaranteed_s: float | None) -> None:
    scheduler, slots = queues(queueing)
    assert scheduler.cycle(0.0) == [slots[i] for i in started]
    assert scheduler.decision(slots[0]).guaranteed_start_s == guaranteed_s
    if queueing is Queueing.STRICT:
        assert scheduler.decision(slots[1]).reason == "stands behind job wide in the strict queue of the cluster"


@pytest.mark.parametrize(
    ("more", "starts"),
    [
        ({"limit_s": 100.0}, True),
        ({"limit_s": 101.0}, False),
        ({"limit_s": 900.0, "preemptible": True, "hints": Hints(50.0, 100.0)}, True),
        ({"limit_s": 900.0, "preemptible": True, "hints": Hints(50.0, 101.0)}, False),
        ({"limit_s": 900.0, "preemptible": True, "hints": Hints(50.0, 90.0, confidence=0.5)}, False),
        ({"limit_s": 900.0, "preemptible": True, "hints": Hints(50.0, 90.0), "min_run_s": 101.0}, False),
        ({"limit_s": 900.0, "hints": Hints(50.0, 90.0)}, False),
    ],
)
def test_others_borrow_behind_a_blocked_strict_head_when_taking_it_back_is_sure(
    more: dict[str, object], starts: bool
) -> None:
    tenants = [Tenant("owner", {"gpu": Quota(16)}, queueing=Queueing.STRICT), Tenant("guest", {"gpu": Quota(0)})]
    scheduler = Scheduler(ClusterSpec.uniform(2, 8), PROMPT, tenants)
    running = submit(scheduler, "running", 8, tenant="owner", limit_s=100.0)
    assert scheduler.cycle(0.0) == [running]
    head = submit(scheduler, "head", 16, tenant="owner", limit_s=50.0)
    behind = submit(scheduler, "behind", 1, tenant="owner", limit_s=1.0)
    guest = submit(scheduler, "guest", 8, tenant="guest", **more)
    assert scheduler.cycle(0.0) == ([guest] if starts else [])
    assert scheduler.decision(behind).verdict == "waiting"
    scheduler.end(running, 100.0)
    if starts and more["limit_s"] == 100.0:
        scheduler.end(guest, 100.0)
    assert scheduler.cycle(100.0) == [head]
    assert scheduler.evicted == ((guest,) if starts and more["limit_s"] != 100.0 else ())


def overstayer(**more: object) -> tuple[Scheduler, int, int]:
    """A guest let in on its hint beside a job that is promised all GPUs at 100."""
    scheduler = Scheduler(ClusterSpec.uniform(2, 8), PROMPT)
    running = submit(scheduler, "running", 8, limit_s=100.0)
    assert scheduler.cycle(0.0) == [running]
    wide = submit(scheduler, "wide", 16, limit_s=50.0)
    guest = submit(scheduler, "guest", 8, limit_s=400.0, preemptible=True, hints=Hints(30.0, 60.0), **more)
    assert scheduler.cycle(0.0) == [guest]
    assert scheduler.decision(guest).reason.endswith("and is evicted at 100 s if it does not")
    return scheduler, wide, guest


@pytest.mark.parametrize(
    ("more", "saved_s"),
    [
        ({}, 0.0),
        ({"checkpoint_s": 30.0}, 90.0),
        ({"grace_s": 20.0}, 80.0),
        ({"checkpoint_s": 30.0, "grace_s": 5.0}, 95.0),
    ],
)
def test_who_overstays_is_evicted_with_what_it_saved_and_waits_at_the_head(
    more: dict[str, float], saved_s: float
) -> None:
    scheduler, wide, guest = overstayer(restart_s=7.0, **more)
    assert scheduler.wake_s <= 100.0
    newer = submit(scheduler, "newer", 8, -DAY_S, limit_s=400.0)
    assert scheduler.told_to_leave(100.0 - more.get("grace_s", 0.0)) == [(guest, 100.0)]
    assert scheduler.told_to_leave(99.0 - more.get("grace_s", 0.0)) == []
    scheduler.end(next(iter(set(scheduler.state.table.running()) - {guest})), 100.0)
    assert scheduler.cycle(100.0) == [wide]
    assert scheduler.evicted == (guest,)
    table = scheduler.state.table
    assert (table.done_s[guest], table.evictions[guest]) == (saved_s, 1)
    assert table.assumed[guest].limit_s == 400.0 - saved_s + 7.0
    scheduler.end(wide, 150.0)
    assert scheduler.cycle(150.0)[0] == guest
    scheduler.end(guest, 200.0)
    assert table.jobs[newer] is not None


def test_who_leaves_in_time_is_not_evicted() -> None:
    scheduler, wide, guest = overstayer()
    scheduler.end(guest, 60.0)
    running = scheduler.state.table.running()
    assert scheduler.cycle(60.0) == []
    scheduler.end(running[0], 100.0)
    assert scheduler.cycle(100.0) == [wide]
    assert scheduler.evicted == ()


def test_a_guest_stays_when_nobody_needs_its_place_any_more() -> None:
    scheduler, wide, guest = overstayer()
    scheduler.withdraw(wide)
    assert scheduler.cycle(100.0) == []
    assert scheduler.evicted == ()
    assert guest in scheduler.state.table.running()


def test_a_waiting_job_is_withdrawn_and_a_running_one_is_not() -> None:
    scheduler = Scheduler(ONE, PROMPT)
    first, second = submit(scheduler, "first", 8, limit_s=10.0), submit(scheduler, "second", 8, limit_s=10.0)
    assert scheduler.cycle(0.0) == [first]
    with pytest.raises(ValueError, match="does not wait"):
        scheduler.withdraw(first)
    scheduler.withdraw(second)
    assert scheduler.state.reservations == {}
    third = submit(scheduler, "third", 8, limit_s=10.0)
    assert third == second
    scheduler.end(first, 5.0)
    assert scheduler.cycle(5.0) == [third]


@pytest.mark.parametrize(("most", "reserved"), [(1, 1), (2, 2), (3, 3), (math.inf, 4)])
def test_as_many_blocked_jobs_as_the_policy_says_have_a_reservation(most: float, reserved: int) -> None:
    scheduler = Scheduler(ONE, replace(PROMPT, reservations=most))
    running = submit(scheduler, "running", 8, limit_s=100.0)
    assert scheduler.cycle(0.0) == [running]
    slots = [submit(scheduler, f"j{i}", 8, limit_s=10.0) for i in range(4)]
    scheduler.cycle(0.0)
    starts = [scheduler.decision(slot).guaranteed_start_s for slot in slots]
    assert starts == [100.0 + 10 * i if i < reserved else None for i in range(4)]


def test_a_policy_without_the_queue_layer_gets_it_with_tenants() -> None:
    strict = Scheduler(ONE, POLICIES["fifo"], [Tenant("x")]).state.policy
    assert (strict.reservations, strict.queueing) == (1, Queueing.STRICT)
    easy = Scheduler(ONE, POLICIES["easy"], [Tenant("x")]).state.policy
    assert (easy.reservations, easy.queueing) == (1, Queueing.BACKFILL)
    assert POLICIES["core"].with_queue_layer() is POLICIES["core"]


def test_a_verdict_holds_until_something_is_freed_that_matters() -> None:
    """What is remembered not to fit is not tried again after a release that leaves no node with enough free GPUs."""
    tried = []
    scheduler = Scheduler(ClusterSpec.uniform(2, 8), replace(PROMPT, reserve_from=lambda job, gpus: math.inf))
    place = scheduler.state.place

    def spy(view, demand, *leaning):  # type: ignore[no-untyped-def]
        tried.append(demand.gpus)
        return place(view, demand, *leaning)

    small = [submit(scheduler, f"s{i}", 4, limit_s=1000.0) for i in range(4)]
    assert scheduler.cycle(0.0) == small
    submit(scheduler, "wanted", 8, limit_s=10.0)
    scheduler.cycle(1.0)
    scheduler.state.place = spy
    scheduler.end(small[0], 2.0)
    assert scheduler.cycle(2.0) == []
    assert tried == []
    scheduler.end(small[1], 3.0)
    assert len(scheduler.cycle(3.0)) == 1
    assert tried == [8]


@pytest.mark.parametrize("policy", [PROMPT, POLICIES["conservative"]], ids=lambda policy: policy.name)
def test_pools_do_not_wait_for_each_other(policy: Policy) -> None:
    from schedmate.scheduler import PoolSpec

    scheduler = Scheduler(ClusterSpec((PoolSpec("a", 1, 8), PoolSpec("b", 1, 8))), policy)
    times = {"estimate_s": 100.0, "limit_s": 100.0}
    first = submit(scheduler, "first", 8, gpu_type="a", **times)
    blocked = submit(scheduler, "blocked", 8, gpu_type="a", **times)
    other = submit(scheduler, "other", 8, gpu_type="b", **times)
    assert sorted(scheduler.cycle(0.0)) == sorted([first, other])
    assert scheduler.decision(blocked).verdict == "reserved"
