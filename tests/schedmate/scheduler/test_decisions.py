"""Strict heads, several pools, and the words of every decision."""

from __future__ import annotations

import gc

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Job, PoolSpec, Scheduler, Unschedulable

TWO_POOLS = ClusterSpec((PoolSpec("a100", 1, 8), PoolSpec("v100", 2, 4)))


def test_a_strict_head_blocks_all_behind_it() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["fifo"])
    a, b, c = (scheduler.submit(Job(name, gpus, 0.0, 1.0)) for name, gpus in (("a", 5), ("b", 4), ("c", 3)))
    assert scheduler.cycle(0.0) == [a]
    assert scheduler.decision(b, 0.0).reason == "needs 4 GPUs, 3 of pool gpu are free"
    assert scheduler.decision(c, 0.0).reason == "stands behind job b"
    scheduler.end(a, 1.0)
    assert scheduler.cycle(1.0) == [b, c]


def test_shortest_first_among_those_that_wait() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["sjf"])
    times = {"a": 5.0, "b": 2.0, "c": None, "d": 2.0}
    slots = {name: scheduler.submit(Job(name, 8, 0.0, estimate)) for name, estimate in times.items()}
    order = []
    for now in range(4):
        (slot,) = scheduler.cycle(float(now))
        order.append(next(name for name, s in slots.items() if s == slot))
        scheduler.end(slot, now + 0.5)
    assert order == ["b", "d", "a", "c"]


def test_a_head_blocked_on_one_pool_does_not_block_the_other() -> None:
    scheduler = Scheduler(TWO_POOLS, POLICIES["fifo"])
    first = scheduler.submit(Job("first", 8, 0.0, gpu_type="a100"))
    blocked = scheduler.submit(Job("blocked", 1, 0.0, gpu_type="a100"))
    other = scheduler.submit(Job("other", 4, 0.0, gpu_type="v100"))
    either = scheduler.submit(Job("either", 4, 0.0))
    assert scheduler.cycle(0.0) == [first, other, either]
    placement = scheduler.decision(either, 0.0).placement
    assert placement is not None
    assert (placement.pool, placement.nodes, placement.gpus) == ("v100", (1,), 4)
    assert scheduler.decision(blocked, 0.0).verdict == "waiting"


def test_a_reservation_on_one_pool_leaves_the_other_alone() -> None:
    scheduler = Scheduler(TWO_POOLS, POLICIES["easy"])
    first = scheduler.submit(Job("first", 7, 0.0, 100.0, gpu_type="a100"))
    head = scheduler.submit(Job("head", 8, 0.0, 100.0, gpu_type="a100"))
    long = scheduler.submit(Job("long", 1, 0.0, 1000.0, gpu_type="a100"))
    either = scheduler.submit(Job("either", 1, 0.0, 1000.0))
    short = scheduler.submit(Job("short", 1, 0.0, 100.0, gpu_type="a100"))
    assert scheduler.cycle(0.0) == [first, either, short]
    decision = scheduler.decision(head, 0.0)
    assert (decision.verdict, decision.expected_start_s, decision.guaranteed_start_s) == ("reserved", 100.0, None)
    assert decision.placement is not None
    assert decision.placement.nodes == (0,)
    assert scheduler.decision(short, 0.0).reason == "backfilled: it ends before the reserved start"
    assert scheduler.decision(long, 0.0).verdict == "waiting"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (Job("x", 9, 0.0), "job x asks for 9 GPUs, the largest pool has 8"),
        (Job("x", 9, 0.0, gpu_type="v100"), "job x asks for 9 GPUs, the largest pool has 8"),
        (Job("x", 1, 0.0, gpu_type="h100"), "job x asks for GPUs of type h100, which no pool has"),
    ],
)
def test_what_no_pool_could_hold_is_refused_in_words(job: Job, words: str) -> None:
    with pytest.raises(Unschedulable, match=words):
        Scheduler(TWO_POOLS, POLICIES["fifo"]).submit(job)


def test_a_job_without_gpus_and_a_cluster_without_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="0 GPUs"):
        Job("x", 0, 0.0)
    with pytest.raises(ValueError, match="at least one node"):
        PoolSpec("p", 0, 8)
    with pytest.raises(ValueError, match="same name"):
        ClusterSpec((PoolSpec("p", 1, 8), PoolSpec("p", 1, 8)))


@pytest.mark.parametrize("on", [True, False])
def test_a_cycle_keeps_the_garbage_collector_out_and_leaves_it_as_it_was(on: bool) -> None:
    scheduler, passes = Scheduler(ClusterSpec.uniform(1), POLICIES["fifo"]), list[str]()

    def make_much(*_: object) -> None:
        assert not gc.isenabled()
        assert [[i] for i in range(100)]

    scheduler.actions = (make_much, *scheduler.actions)
    before, often = gc.isenabled(), gc.get_threshold()
    gc.set_threshold(10)
    (gc.enable if on else gc.disable)()
    gc.callbacks.append(lambda phase, info: passes.append(phase))
    try:
        scheduler.cycle(0.0)
        during = len(passes)
        kept = [[i] for i in range(100)]
        assert gc.isenabled() is on
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*often)
        (gc.enable if before else gc.disable)()
    assert during == 0
    assert bool(passes) is on, f"it makes up for it afterwards, {len(kept)} lists later at the latest"
