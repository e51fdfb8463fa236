"""Hardware that breaks under gangs: what is repaired, what is released, and what is remembered of a node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Job, PoolSpec, Role, Scheduler
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import Health, NodeShape
from schedmate.scheduler.elastic import counts
from schedmate.scheduler.events import CycleRan, NodeChanged, NodeSuspected, Submitted
from schedmate.scheduler.policies import DAY_S, by_submission
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.simulator.audit import audit

CORE = replace(POLICIES["core"], order=by_submission)
NODES = 6


def cluster() -> ClusterSpec:
    return ClusterSpec((PoolSpec.detailed("p", ((NODES, NodeShape(4)),)),))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    gangs=st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(1, 4), st.booleans()), min_size=1, max_size=6
    ),
    down=st.lists(st.tuples(st.integers(0, NODES - 1), st.booleans()), min_size=1, max_size=8),
)
def test_no_gang_is_ever_below_its_minimum_and_room_is_used_for_repair(
    gangs: list[tuple[int, int, int, bool]], down: list[tuple[int, bool]]
) -> None:
    scheduler = Scheduler(cluster(), CORE)
    for number, (least, extra, gpus, repairable) in enumerate(gangs):
        demand = Demand.of((Role("w", least + extra, gpus=gpus, min_replicas=least if extra else None),))
        if scheduler.state.cluster.pools_for(demand):
            scheduler.submit(Job(f"g{number}", demand.gpus, 0, limit_s=900, demand=demand, repairable=repairable))
    scheduler.cycle(0)
    table, index = scheduler.state.table, scheduler.state.cluster.pools[0]
    assert isinstance(index, PoolIndex)
    for at, (node, breaks) in enumerate(down, start=1):
        before = {slot: counts(table.demands[slot], table.shares[slot] or ()) for slot in table.running()}
        lost = scheduler.set_node_health("p", node, Health.DOWN if breaks else Health.HEALTHY, float(at))
        assert not audit(scheduler)
        assert set(lost).isdisjoint(scheduler.repaired)
        for slot in lost:
            job, demand = table.jobs[slot], table.demands[slot]
            assert table.shares[slot] is None
            assert table.live[slot] is not None
            assert job is not None
            if demand.elastic or job.repairable:  # released for want of room only
                assert index.free_gpus < demand.least_gpus or scheduler.state.place(index, demand) is None
        for slot in set(before) - set(lost):
            have = counts(table.demands[slot], table.shares[slot] or ())
            if have != before[slot]:  # nothing was left out that there was room for
                assert slot in scheduler.repaired
                gpus = table.demands[slot].roles[0].gpus
                assert max(free.bit_count() if n not in index.health else 0 for n, free in enumerate(index.free)) < gpus
        scheduler.cycle(float(at))
        assert not audit(scheduler)


def test_faults_of_a_node_fade_and_survive_a_rebuild() -> None:
    scheduler = Scheduler(cluster(), CORE)
    scheduler.set_node_health("p", 1, Health.DOWN, 0)
    scheduler.set_node_health("p", 1, Health.HEALTHY, 10)
    scheduler.set_device_health("p", 1, 2, False, DAY_S)
    scheduler.suspect("p", 3, DAY_S, weight=0.25)
    index = scheduler.state.cluster.pools[0]
    assert isinstance(index, PoolIndex)
    assert index.faults[1].by(DAY_S, DAY_S) == pytest.approx(1.5)
    assert index.faults[1].by(2 * DAY_S, DAY_S) == pytest.approx(0.75)
    assert index.faults[3].by(DAY_S, DAY_S) == 0.25
    rebuilt = Cluster.rebuilt(scheduler.state.cluster.spec, [], scheduler.state.cluster.conditions)
    assert rebuilt == scheduler.state.cluster


def test_suspicion_is_an_event() -> None:
    scheduler = Scheduler(cluster(), CORE)
    scheduler.apply(NodeSuspected(1, "p", 0))
    scheduler.apply(Submitted(2, Job("wide", 8, 2, limit_s=100)))
    assert scheduler.apply(CycleRan(2)).started == ("wide",)
    placement = scheduler.decision(0).placement
    assert placement is not None
    assert 0 not in placement.nodes


def test_a_repaired_gang_is_told_of_and_an_event_that_can_not_be_changes_nothing() -> None:
    scheduler = Scheduler(cluster(), CORE)
    for name, repairable in (("a", True), ("b", False)):
        scheduler.apply(Submitted(0, Job(name, 8, 0, limit_s=100, repairable=repairable)))
    scheduler.apply(CycleRan(0))
    struck = {name: scheduler.decision(slot).placement for slot, name in enumerate("ab")}
    for name, effect in (("a", ("resized", ("a",))), ("b", ("evicted", ("b",)))):
        placement = struck[name]
        assert placement is not None
        assert getattr(scheduler.apply(NodeChanged(1, "p", placement.nodes[0], Health.DOWN)), effect[0]) == effect[1]
    plain = Scheduler(ClusterSpec.uniform(2), CORE)
    slot = plain.submit(Job("a", 8, 0))
    plain.cycle(0)
    with pytest.raises(ValueError, match="known by counts only"):
        plain.set_node_health("gpu", 0, Health.DOWN, 1)
    assert plain.state.table.shares[slot] is not None
