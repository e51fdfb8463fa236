"""Elastic gangs: which replicas come and go, what a change of size changes, and that undoing it leaves no trace."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Job, PoolSpec, Quota, Role, Scheduler, Tenant
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.elastic import counts, minimum, slowest, speed
from schedmate.scheduler.placement.elastic import more, shrunk
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import PoolLayout
from schedmate.scheduler.topology import Topology
from schedmate.simulator.audit import audit

CORE = replace(POLICIES["core"], resize_every_s=10.0)


def gang(least: int, replicas: int, gpus: int = 2, **asks: int) -> Demand:
    return Demand.of((Role("worker", replicas, gpus=gpus, min_replicas=least, **asks),))


def pool(nodes: int = 4, gpus: int = 4, **has: int) -> PoolSpec:
    return PoolSpec.detailed("p", ((nodes, NodeShape(gpus, **has)),), Topology.regular(nodes, {"leaf": 2}))


def started(least: int, replicas: int, tenants: tuple[Tenant, ...] = (), **asks: float) -> tuple[Scheduler, int]:
    """A gang that runs small, because half of the cluster was in use; that is free now. It is the first tenant's."""
    scheduler = Scheduler(ClusterSpec((pool(),)), CORE, tenants)
    tenant = tenants[0].name if tenants else None
    old = scheduler.submit(Job("old", 8, 0, limit_s=100, tenant=tenants[-1].name if tenants else None))
    demand = gang(least, replicas)
    slot = scheduler.submit(Job("gang", demand.gpus, 0, demand=demand, tenant=tenant, **asks))
    assert scheduler.cycle(0) == [old, slot]
    assert scheduler.state.table.gpus[slot] == 8
    scheduler.end(old, 100)
    return scheduler, slot


@given(
    used=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    gpus=st.integers(1, 4),
    replicas=st.integers(1, 8),
    least=st.integers(1, 8),
    room=st.integers(0, 20),
    nics=st.integers(0, 1),
)
def test_a_gang_grows_as_far_as_there_is_room_and_shrinks_to_what_is_asked(
    used: list[int], gpus: int, replicas: int, least: int, room: int, nics: int
) -> None:
    index = PoolIndex(PoolLayout(pool(nics=4)))
    for node, taken in enumerate(used):
        if taken:
            index.take(index.share(node, index.layout.parts(Demand.plain(1))[0]._replace(gpus=taken), 1))  # type: ignore[union-attr]
    demand = gang(min(least, replicas), replicas, gpus, nics=nics)
    first = next((node for node in range(4) if 4 - used[node] >= gpus), None)
    if first is None:
        return
    part = index.layout.parts(demand)[0]
    shares = index.share(first, part, 1)  # type: ignore[arg-type]
    index.take(shares)
    holds = sum((4 - taken) // gpus for taken in used) - 1
    added = more(index, demand, shares, room * 1000)
    assert counts(demand, added) == (min(holds, replicas - 1, room // gpus),)
    index.take(added)
    have = counts(demand, (*shares, *added))[0]
    for keep in range(have + 1):
        left = shrunk(index, demand, (*shares, *added), (keep,))
        assert counts(demand, left) == (keep,)
        assert sum(share[1] for share in left) == keep * gpus
        assert {share[0] for share in left} <= {share[0] for share in (*shares, *added)}
    assert more(index, demand, (*shares, *added), 0) == ()
    with pytest.raises(ValueError, match="can not shrink"):
        shrunk(index, demand, shares, (2,))


def test_shrinking_gives_up_the_nodes_that_are_named_first() -> None:
    index = PoolIndex(PoolLayout(pool()))
    demand = gang(1, 8)
    shares = tuple(each for node in range(4) for each in index.share(node, index.layout.parts(demand)[0], 2))  # type: ignore[arg-type]
    assert {share[0] for share in shrunk(index, demand, shares, (6,), nodes=(2,))} == {0, 1, 3}


def test_speed_follows_the_replicas_with_gpus() -> None:
    demand = Demand.of((Role("server", 2, cpus_milli=1000), Role("worker", 8, gpus=1, min_replicas=2)))
    job = Job("gang", 8, 0, demand=demand)
    assert [speed(job, demand, (2, n)) for n in (2, 4, 8)] == [0.25, 0.5, 1.0]
    assert slowest(replace(job, scaling=0.5), demand) == 0.5
    assert slowest(replace(job, scaling=0.0), demand) == 1.0
    with pytest.raises(ValueError, match="scaling"):
        replace(job, scaling=1.5)


def test_a_discarded_change_of_size_leaves_no_trace() -> None:
    tenants = Tenant("lab", {"p": Quota(8)}), Tenant("other", {"p": Quota(8)})
    scheduler, slot = started(2, 8, tenants, limit_s=1000, restart_s=5)
    table, twin = scheduler.state.table, copy.deepcopy(scheduler)
    demand, shares = table.demands[slot], table.shares[slot]
    assert shares is not None
    index = scheduler.state.cluster.pools[0]
    assert isinstance(index, PoolIndex)
    scheduler.transaction.begin()
    scheduler.transaction.resize(slot, shrunk(index, demand, shares, minimum(demand)), 100)
    assert (table.gpus[slot], scheduler.state.cluster.allocated_gpus) == (4, 4)
    point = scheduler.transaction.savepoint()
    scheduler.transaction.resize(slot, (*(now := table.shares[slot] or ()), *more(index, demand, now)), 100)
    assert (table.gpus[slot], scheduler.state.cluster.allocated_gpus) == (16, 16)
    scheduler.transaction.back_to(point)
    assert (table.gpus[slot], scheduler.resized) == (4, (slot,))
    assert not audit(scheduler)
    scheduler.transaction.discard()
    assert not audit(scheduler)
    assert scheduler.resized == ()
    assert scheduler.state.cluster == twin.state.cluster
    assert (table.shares, table.phases, table.gpus) == (
        twin.state.table.shares, twin.state.table.phases, twin.state.table.gpus,
    )  # fmt: skip
    mine, theirs = scheduler.state.layer, twin.state.layer
    assert mine is not None
    assert theirs is not None
    assert (mine.use, mine.ends[0].order) == (theirs.use, theirs.ends[0].order)
    assert scheduler.cycle(100) == twin.cycle(100)
    assert scheduler.resized == twin.resized


def test_a_gang_may_not_be_smaller_than_its_minimum() -> None:
    scheduler, slot = started(2, 8)
    table, index = scheduler.state.table, scheduler.state.cluster.pools[0]
    assert isinstance(index, PoolIndex)
    too_few = shrunk(index, table.demands[slot], table.shares[slot] or (), (1,))
    scheduler.transaction.begin()
    with pytest.raises(ValueError, match="may not run with"):
        scheduler.transaction.resize(slot, too_few, 100)
    rigid = scheduler.submit(Job("rigid", 1, 100))
    with pytest.raises(ValueError, match="runs no elastic job"):
        scheduler.transaction.resize(rigid, too_few, 100)
    scheduler.transaction.discard()
    assert not audit(scheduler)


@pytest.mark.parametrize(("borrow", "small", "gpus"), [(16, 8, 16), (6, 8, 14), (1, 8, 8), (0, 8, 8), (-3, 4, 4)])
def test_a_gang_starts_and_grows_within_quota(borrow: int, small: int, gpus: int) -> None:
    lab, other = Tenant("lab", {"p": Quota(min(8, 8 + borrow), max(0, borrow))}), Tenant("other", {"p": Quota(8)})
    scheduler = Scheduler(ClusterSpec((pool(),)), CORE, (lab, other))
    old = scheduler.submit(Job("old", 8, 0, limit_s=100, tenant="other"))
    slot = scheduler.submit(Job("gang", 16, 0, limit_s=1000, demand=gang(2, 8), tenant="lab"))
    assert scheduler.cycle(0) == [old, slot]
    assert scheduler.state.table.gpus[slot] == small
    scheduler.end(old, 100)
    scheduler.cycle(100)
    assert scheduler.state.table.gpus[slot] == gpus
    assert not audit(scheduler)


def test_saved_work_is_counted_at_full_size() -> None:
    scheduler, slot = started(2, 8, limit_s=1000, checkpoint_s=30, restart_s=10)
    table = scheduler.state.table
    assert table.gpus[slot] == 8
    scheduler.cycle(100)  # grows to its full size, having worked 100 s at half speed
    assert (table.gpus[slot], scheduler.resized) == (16, (slot,))
    assert table.work_s(slot, 150) == 50 + 40
    assert table.saved_s(slot, 150, told=False) == 50 + 30
    assert table.done_at(slot, 90) == 150
    scheduler.evict(slot, 150)
    assert table.done_s[slot] == 80
    assert table.assumed[slot].limit_s == 1000 - 80 + 10
