"""What is said of a waiting job is true: were the named blocker gone it would start, and so it would with each change
that is said to start it. All of it is tried on a copy of the scheduler, by its public calls alone."""

from __future__ import annotations

import copy
import importlib.util
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Job, PoolSpec, Quota, Role, Scheduler, Tenant
from schedmate.scheduler.cluster_types import UNLIMITED, Health, NodeShape
from schedmate.scheduler.explain import Blocker, Explanation
from schedmate.scheduler.policies import at_once, by_submission
from schedmate.scheduler.tenants import ROOT
from schedmate.scheduler.topology import Topology


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


random_events = _beside("random_events")
world = _beside("world")


def slot_of(scheduler: Scheduler, name: str) -> int:
    return next(slot for slot, job in enumerate(scheduler.state.table.jobs) if job is not None and job.job_id == name)


def without(scheduler: Scheduler, blocker: Blocker, now: float) -> Scheduler:
    """A copy in which the blocker is gone."""
    other = copy.deepcopy(scheduler)
    for name in blocker.running:
        other.end(slot_of(other, name), now)
    for name in blocker.waiting:
        other.withdraw(slot_of(other, name))
    for place in blocker.nodes:
        pool, _, node = place.partition("/")
        index = other.state.cluster.pools[other.state.cluster.by_name[pool]]
        for device in range(8):
            if index.bad.get(int(node), 0) >> device & 1:
                other.set_device_health(pool, int(node), device, True, now)
        other.set_node_health(pool, int(node), Health.HEALTHY, now)
    return other


def lifted(scheduler: Scheduler, tenants: tuple[Tenant, ...], slot: int) -> tuple[Tenant, ...]:
    """The same tree with no limit on what the job's tenant and those above it use: neither one of their own, nor what
    others do not lend."""
    layer, lane = scheduler.state.layer, scheduler.state.table.queue_lanes[slot]
    assert layer is not None
    assert lane is not None
    tree, path = layer.tree, [ROOT, *layer.tree.path(lane.tenant)]

    def quota(number: int, pool: int) -> Quota:
        guaranteed, most = tree.guaranteed[number][pool], tree.most[number][pool]
        return Quota(
            guaranteed / 1000, None if number in path or most >= UNLIMITED else (most - guaranteed) / 1000, None
        )

    def again(tenant: Tenant) -> Tenant:
        number = tree.numbers[tenant.name]
        quotas = {name: quota(number, pool) for pool, name in enumerate(tree.pools)}
        below = tuple(again(child) for child in tenant.children)
        return Tenant(tenant.name, quotas, below, tenant.weight, queueing=tenant.queueing)

    return tuple(again(tenant) for tenant in tenants)


def keep_place(scheduler: Scheduler, slot: int, place: tuple[float, int, int]) -> None:
    """Of the plain queue, in which a reservation puts a job before all others: one that is submitted anew is not."""
    if scheduler.state.layer is None and place[0] == -math.inf:
        scheduler.state.dequeue(slot)
        scheduler.state.enqueue(slot, (place[0], place[1], slot))


def check(scheduler: Scheduler, slot: int, now: float, tenants: tuple[Tenant, ...] = ()) -> Explanation:
    """Everything that is said of one waiting job."""
    twin = copy.deepcopy(scheduler)
    found, job = scheduler.explain(slot, now), scheduler.state.table.jobs[slot]
    assert job is not None
    assert found.words()
    assert scheduler.wake_s == twin.wake_s
    assert scheduler.state.cluster == twin.state.cluster
    assert scheduler.decision(slot, now) == twin.decision(slot, now)
    for blocker in found.blockers:
        assert blocker.words()
        if blocker.kind == "quota":
            other = copy.deepcopy(scheduler)
            other.set_tenants(lifted(scheduler, tenants, slot), now)
        else:
            other = without(scheduler, blocker, now)
        assert slot in other.cycle(now), f"{job.job_id} does not start without {blocker}"
    for change in found.sooner:
        other = copy.deepcopy(scheduler)
        if change.job is None:
            other.set_tenants(lifted(scheduler, tenants, slot), now)
            mine = slot
        elif scheduler.state.table.evictions[slot]:
            continue  # it waits at the head of its class, where one that is submitted anew does not
        else:
            other.withdraw(slot)
            mine = other.submit(replace(change.job, submit_s=job.submit_s - 1e-9))  # not behind those of the same time
            keep_place(other, mine, scheduler.state.table.entries[slot])
        assert mine in other.cycle(now), f"{job.job_id} does not start with {change}"
    if found.expected_start_s is not None:
        assert found.earliest_s is not None
        assert found.latest_s is not None
        assert found.earliest_s <= found.expected_start_s <= found.latest_s
    assert copy.deepcopy(scheduler).cycle(now) == twin.cycle(now), "and it left no trace"
    return found


def situations(policy: str, seed: int) -> tuple[int, int]:
    """Explains what waits in a random run, again and again; how many were explained, and how many had a blocker."""
    draw = random_events.Seeded(seed)
    chosen = random_events.policies()[policy]
    full = chosen.reservations is not None
    spec = random_events.cluster(draw)
    tenants = random_events.tenants(draw, spec) if full else ()
    place = world.World(spec, chosen, tenants)
    asked = named = 0
    while place.events < 60:
        random_events.event(place, draw, full)
        waiting = [slot for slot, track in place.tracks.items() if track.start_s is None]
        if waiting and place.events % 6 == 0:
            place.cycle()
            waiting = [slot for slot, track in place.tracks.items() if track.start_s is None]
            if waiting:
                found = check(place.scheduler, draw.one_of(waiting), place.now, tenants)
                asked, named = asked + 1, named + bool(found.blockers)
    return asked, named


@pytest.mark.parametrize("policy", ["core at once", "core, two reserved", "core, strict", "core", "easy", "fifo"])
def test_what_is_said_is_true(policy: str) -> None:
    total = [situations(policy, seed) for seed in range(10)]
    asked, named = sum(a for a, _ in total), sum(n for _, n in total)
    assert asked >= 34, "six policies explain more than 200 situations"
    assert named >= 0.8 * asked, "and hardly any job waits without somebody being named for it"


@pytest.mark.parametrize(
    ("policy", "seed"),
    [
        ("core at once", 9055),  # quota named where a guarantee would have been taken back
        ("core at once", 9125),
        ("core, two reserved", 9137),
        ("core at once", 20165),  # a replica that started elsewhere spared one here, and nobody looked again
        ("easy", 9000),
    ],
)
def test_what_was_once_said_wrongly(policy: str, seed: int) -> None:
    asked, _ = situations(policy, seed)
    assert asked


CORE = replace(POLICIES["core"], order=by_submission, reserve_from=at_once)


def detailed(nodes: int, name: str = "p", **groups: int) -> PoolSpec:
    return PoolSpec.detailed(name, ((nodes, NodeShape(8)),), Topology.regular(nodes, groups))


def test_a_smaller_job_another_type_and_a_shorter_limit_are_offered() -> None:
    scheduler = Scheduler(ClusterSpec((PoolSpec("a", 2, 8), PoolSpec("b", 2, 8))), CORE)
    for name, gpus, limit_s in (("old", 8, 100.0), ("head", 16, 50.0), ("mine", 8, 500.0)):
        scheduler.submit(Job(name, gpus, 0, limit_s=limit_s, gpu_type="a"))
    scheduler.cycle(0)
    head, mine = check(scheduler, 1, 0), check(scheduler, 2, 0)
    assert {change.kind: change.words for change in head.sooner} == {"smaller": "8 GPUs", "type": "GPUs of type b"}
    assert head.blockers == (Blocker("jobs", ("old",)),)
    assert (head.expected_start_s, head.guaranteed_start_s) == (100, 100)
    assert {change.kind: change.words for change in mine.sooner} == {
        "type": "GPUs of type b", "limit": "a time limit of 100 s",
    }  # fmt: skip
    assert mine.blockers == (Blocker("jobs", (), ("head",)),)
    assert mine.ahead == 1
    assert "would start now with" in mine.words()
    assert scheduler.explain(0).words().startswith("old runs")


def test_a_looser_topology_level_is_offered() -> None:
    scheduler = Scheduler(ClusterSpec((detailed(4, leaf=2),)), CORE)
    slots = [scheduler.submit(Job(f"old{i}", 8, 0, limit_s=100)) for i in range(4)]
    scheduler.cycle(0)
    on = {(scheduler.state.table.shares[slot] or ())[0][0]: slot for slot in slots}
    for node in (0, 2):
        scheduler.end(on[node], 1)
    gang = Demand.of((Role("w", 2, gpus=8),), level="leaf", required=True)
    slot = scheduler.submit(Job("gang", 16, 1, limit_s=100, demand=gang))
    scheduler.cycle(1)
    found = check(scheduler, slot, 1)
    assert {change.kind for change in found.sooner} == {"smaller", "level"}
    assert "leaf preferred, not required" in found.words()
    assert len(found.blockers) == 1
    assert len(found.blockers[0].running) == 1, "one more node of either group would do"


def test_quota_and_health_are_named() -> None:
    tenants = (Tenant("lab", {"p": Quota(8, borrow_limit=0)}), Tenant("other", {"p": Quota(8)}))
    scheduler = Scheduler(ClusterSpec((detailed(2),)), CORE, tenants)
    scheduler.submit(Job("mine", 8, 0, limit_s=100, tenant="lab"))
    more = scheduler.submit(Job("more", 8, 0, limit_s=100, tenant="lab"))
    scheduler.cycle(0)
    found = check(scheduler, more, 0, tenants)
    assert Blocker("quota", tenant="lab") in found.blockers
    assert Blocker("jobs", ("mine",)) in found.blockers
    assert "quota" in {change.kind for change in found.sooner}
    scheduler = Scheduler(ClusterSpec((detailed(2),)), CORE)
    scheduler.set_node_health("p", 1, Health.DRAINING, 0)
    wide = scheduler.submit(Job("wide", 16, 0, limit_s=100))
    scheduler.cycle(0)
    found = check(scheduler, wide, 0)
    assert found.blockers == (Blocker("health", nodes=("p/1",)),)
    assert "but for nodes that take no work: p/1" in found.words()


def test_nothing_is_in_the_way_of_a_job_that_starts_in_the_next_cycle() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), CORE)
    found = check(scheduler, scheduler.submit(Job("new", 8, 0, limit_s=100.0)), 0)
    assert (found.blockers, found.sooner) == ((), ())
