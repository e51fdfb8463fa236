"""A job for which nobody makes room rests where many run, and is looked at again without anything happening."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Job, PoolSpec, Scheduler
from schedmate.scheduler.actions.plan import FOLLOW_S
from schedmate.scheduler.actions.preempt import CROWD, MOMENT_S

NODES = CROWD // 2 + 1


@pytest.mark.parametrize("origin_s", [0.0, 13.0])
def test_who_rests_is_looked_at_again_though_nothing_happens(origin_s: float) -> None:
    """When, is told by how long it has rested and not by the time of day."""
    spec = ClusterSpec((PoolSpec("p", NODES, 2),))
    scheduler = Scheduler(spec, replace(POLICIES["core"], min_run_s=0.0))
    for node in range(NODES):  # one on every node that may be evicted, and one that may not
        scheduler.submit(Job(f"soft-{node}", 1, origin_s, preemptible=True))
        scheduler.submit(Job(f"hard-{node}", 1, origin_s))
    table = scheduler.state.table
    by_name = {table.present(slot).job_id: slot for slot in scheduler.cycle(origin_s)}
    nodes = {name: (table.shares[slot] or ())[0][0] for name, slot in by_name.items()}
    wide = scheduler.submit(Job("wide", 2, origin_s + 1.0, priority=5))
    assert scheduler.cycle(origin_s + 1.0) == []
    gone = next(f"hard-{node}" for node in range(NODES) if list(nodes.values()).count(nodes[f"hard-{node}"]) == 2)
    beside = next(name for name, node in nodes.items() if node == nodes[gone] and name != gone)
    assert beside.startswith("soft"), "the two of a node are a soft and a hard one"
    scheduler.end(by_name[gone], origin_s + 2.0)
    assert scheduler.cycle(origin_s + 2.0) == [], "it rests"
    assert scheduler.wake_s == origin_s + 1.0 + FOLLOW_S
    assert scheduler.cycle(scheduler.wake_s) == [wide]
    assert scheduler.evicted == (by_name[beside],)


def test_one_is_helped_at_a_time_and_the_next_a_moment_later() -> None:
    spec = ClusterSpec((PoolSpec("p", CROWD, 2),))
    scheduler = Scheduler(spec, replace(POLICIES["core"], min_run_s=0.0))
    for node in range(CROWD):
        scheduler.submit(Job(f"soft-{node}", 2, 0.0, preemptible=True))
    assert len(scheduler.cycle(0.0)) == CROWD
    urgent = [scheduler.submit(Job(f"urgent-{i}", 2, 1.0, priority=5)) for i in range(3)]
    now = 1.0
    for slot in urgent:
        assert scheduler.cycle(now) == [slot], "in the order in which they came"
        assert len(scheduler.evicted) == 1
        assert scheduler.wake_s == now + MOMENT_S or slot == urgent[-1]
        now = scheduler.wake_s


def test_where_few_run_all_are_helped_at_once() -> None:
    scheduler = Scheduler(ClusterSpec((PoolSpec("p", 8, 2),)), replace(POLICIES["core"], min_run_s=0.0))
    for node in range(8):
        scheduler.submit(Job(f"soft-{node}", 2, 0.0, preemptible=True))
    scheduler.cycle(0.0)
    urgent = [scheduler.submit(Job(f"urgent-{i}", 2, 1.0, priority=5)) for i in range(3)]
    assert scheduler.cycle(1.0) == urgent
