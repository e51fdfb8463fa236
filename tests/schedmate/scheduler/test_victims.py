"""Victims against brute force on small clusters: none can be spared, and few jobs are cleared as cheaply as can be."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Job, PoolSpec, Quota, Role, Scheduler, Tenant
from schedmate.scheduler.claims import standing
from schedmate.scheduler.clearing import clear_nodes
from schedmate.scheduler.cluster_types import WHOLE_MILLI, NodeShape
from schedmate.scheduler.eviction_rules import Candidate, Later, Rules, Toll
from schedmate.scheduler.eviction_search import FEW, excesses, find_victims
from schedmate.scheduler.placement import place
from schedmate.scheduler.policies import at_once, by_submission
from schedmate.scheduler.topology import Topology
from schedmate.scheduler.vacated import Vacated

NOW = 100.0
CORE = replace(POLICIES["core"], order=by_submission, reserve_from=at_once, min_run_s=0.0, preempts=False)
PLAIN = ClusterSpec((PoolSpec("gpu", 5, 4),))
DETAILED = ClusterSpec(
    (PoolSpec.detailed("gpu", ((6, NodeShape(4, cpus_milli=8000)),), Topology.regular(6, {"leaf": 3})),)
)


@st.composite
def situations(draw: st.DrawFn, detailed: bool) -> tuple[Scheduler, int]:
    """A packed cluster, and the slot of a job of a middle class that waits."""
    spec = DETAILED if detailed else PLAIN
    guaranteed = draw(st.tuples(st.integers(0, 10), st.integers(0, 10)))
    tenants = [Tenant(name, {"gpu": Quota(float(n))}) for name, n in zip("ab", guaranteed, strict=True)]
    scheduler = Scheduler(spec, CORE, tenants if draw(st.booleans()) else ())
    names = st.sampled_from([None, "a", "b"] if scheduler.state.layer and scheduler.state.layer.use else [None])
    for i in range(draw(st.integers(4, 14))):
        gpus = draw(st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8]))
        checkpoint_s = draw(st.sampled_from([None, 10.0, 30.0, 70.0]))
        job = Job(
            f"r{i}", gpus, 0.0, limit_s=1e6, tenant=draw(names), priority=draw(st.integers(0, 2)),
            preemptible=draw(st.integers(0, 3)) > 0, checkpoint_s=checkpoint_s,
            service=draw(st.sampled_from([None, None, "s"])), least_replicas=1,
        )  # fmt: skip
        scheduler.submit(job)
    scheduler.cycle(0.0)
    for slot in [slot for slot, shares in enumerate(scheduler.state.table.shares) if shares is None]:
        scheduler.withdraw(slot)
    demand = draw(st.sampled_from(_demands(detailed)))
    return scheduler, scheduler.submit(
        Job("new", demand.gpus, NOW, limit_s=10.0, tenant=draw(names), priority=1, demand=demand)
    )


def _demands(detailed: bool) -> list[Demand]:
    sizes = [Demand.plain(gpus) for gpus in (1, 2, 3, 4, 6, 8, 12)]
    if not detailed:
        return sizes
    return [
        *sizes,
        Demand.of(gpus=8, level="leaf", required=True),
        Demand.of((Role(replicas=3, gpus=2),)),
        Demand.of((Role(replicas=2, gpus=2, cpus_milli=4000),), level="leaf", required=True),
        Demand.of((Role(replicas=2, gpus=2),), level="node", required=True),
        Demand.of((Role(gpus=2, cpus_milli=6000),)),
    ]


def search(scheduler: Scheduler, slot: int) -> tuple[Vacated, Rules, list[Candidate]]:
    state = scheduler.state
    rules = Rules(state, standing(state), slot, 0, NOW)
    what_if = Vacated(state.cluster.pools[0], state.table.shares, (), place, state.table.demands[slot])
    return what_if, rules, rules.candidates()[0]


@st.composite
def plans_ahead(draw: st.DrawFn, scheduler: Scheduler) -> Later | None:
    """What tenants use when a plan begins: as now, without those that have left by then, and with more."""
    state, layer = scheduler.state, scheduler.state.layer
    if layer is None or layer.use is None or draw(st.booleans()):
        return None
    table, use, ends_s = state.table, layer.use.copy(), dict[int, float]()
    for slot in [slot for slot, shares in enumerate(table.shares) if shares is not None]:
        lane, ends_s[slot] = table.queue_lanes[slot], draw(st.sampled_from([NOW + 5.0, 1e6]))
        if lane is not None and ends_s[slot] < 1e6:
            use.charge(lane.tenant, 0, -WHOLE_MILLI * table.gpus[slot])
    use.charge(draw(st.integers(0, 2)), 0, WHOLE_MILLI * draw(st.integers(0, 8)))
    return Later(use, NOW + 7.0, draw(st.sampled_from([ends_s, ends_s, None])))


def suffice(what_if: Vacated, rules: Rules, chosen: tuple[Candidate, ...]) -> bool:
    if not rules.allow(chosen) or (shares := what_if.fits_without(chosen)) is None:
        return False
    nodes = {share[0] for share in shares}
    aside = sorted(each.milli for each in chosen if not nodes & {share[0] for share in what_if.shares_of(each)})
    return sum(aside[:-1]) <= rules.milli  # what goes for quota alone is about what is asked for


@pytest.mark.parametrize("detailed", [False, True])
@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_victim_can_be_spared_and_few_are_cheapest(detailed: bool, data: st.DataObject) -> None:
    scheduler, slot = data.draw(situations(detailed))
    what_if, rules, candidates = search(scheduler, slot)
    later = data.draw(plans_ahead(scheduler))
    if later is not None:
        rules.also_then(later)
    if suffice(what_if, rules, ()):
        return
    before = what_if.index.copy()
    found = find_victims(what_if, rules, candidates)
    assert what_if.index == before, "the search leaves nothing behind"
    single = what_if.demand.gpus <= 4 and sum(role.replicas for role in what_if.demand.roles) <= 1
    if found is None:
        for size in range(1, min(4, len(candidates)) + 1 if len(candidates) <= FEW or single else 1):
            for chosen in combinations(candidates, size):
                assert not suffice(what_if, rules, chosen), f"{chosen} would do"
        return
    assert suffice(what_if, rules, found.chosen)
    for size in range(len(found.chosen)):
        for fewer in combinations(found.chosen, size):
            assert not suffice(what_if, rules, fewer), f"{fewer} of {found.chosen} would do"
    if len(candidates) <= FEW or (single and rules.has_quota(Toll())):
        # on one node of four GPUs no more than four can be needed
        sets = (
            c for n in range(1, min(len(candidates), 4 if single else FEW) + 1) for c in combinations(candidates, n)
        )
        better = (c for c in sets if rank(what_if, candidates, c) < rank(what_if, candidates, found.chosen))
        assert not any(suffice(what_if, rules, chosen) for chosen in better), "another set is better"


def test_victims_that_hold_more_than_twice_the_need_are_found_among_many() -> None:
    """Eleven gangs with two GPUs on each of two nodes: for three GPUs of a node two of them have to go, which hold
    eight, though neither by itself holds twice what is asked for."""
    spec = ClusterSpec((PoolSpec("gpu", 11, 4),))
    scheduler = Scheduler(spec, CORE)
    ring = [tuple(sorted((node, (node + 1) % 11))) for node in range(11)]
    slots = [scheduler.submit(Job(f"r{i}", 4, 0.0, limit_s=1e6, preemptible=True)) for i in range(11)]
    scheduler.transaction.begin()
    for slot, (one, other) in zip(slots, ring, strict=True):
        scheduler.transaction.start(slot, 0, ((one, 2), (other, 2)), 0.0, "")
    scheduler.transaction.commit()
    slot = scheduler.submit(Job("new", 3, NOW, limit_s=10.0, priority=1))
    found = find_victims(*search(scheduler, slot))
    assert found is not None and (found.gpus, found.excess) == (8, 1)


def rank(what_if: Vacated, candidates: list[Candidate], chosen: tuple[Candidate, ...]) -> tuple[int, int, int]:
    """Excess, number, milliseconds of GPU time lost."""
    held = sum(each.gpus for each in chosen)
    excess = next(i for i, most in enumerate(excesses(what_if.demand, candidates)) if held <= most)
    return excess, len(chosen), round(1000 * sum(each.lost_gpu_s for each in chosen))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_who_is_no_candidate_is_in_no_set_that_may_go(data: st.DataObject) -> None:
    scheduler, slot = data.draw(situations(False))
    _, rules, candidates = search(scheduler, slot)
    table, among = scheduler.state.table, {each.slot for each in candidates}
    running = [
        Candidate(0.0, job.priority, 0.0, 0.0, other, lane.tenant, WHOLE_MILLI * table.gpus[other], table.gpus[other])
        for other, (job, lane) in enumerate(zip(table.jobs, table.queue_lanes, strict=True))
        if job is not None and lane is not None and job.preemptible and table.shares[other] is not None
    ]
    for size in range(1, 4):
        for chosen in combinations(running, size):
            assert not rules.allow(chosen) or {each.slot for each in chosen} <= among


@pytest.mark.parametrize("detailed", [False, True])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(data=st.data())
def test_clearing_nodes_spares_whom_it_can(detailed: bool, data: st.DataObject) -> None:
    scheduler, slot = data.draw(situations(detailed))
    what_if, rules, candidates = search(scheduler, slot)
    if suffice(what_if, rules, ()):
        return
    cleared = what_if.without(candidates)
    if what_if.place(cleared) is None:
        return
    before = what_if.index.copy()
    found = clear_nodes(what_if, cleared, rules, candidates, math.inf)
    assert what_if.index == before
    if found is not None:
        assert suffice(what_if, rules, found.chosen)
        for spared in found.chosen:
            fewer = tuple(each for each in found.chosen if each is not spared)
            assert not suffice(what_if, rules, fewer), f"{spared.slot} need not leave"
