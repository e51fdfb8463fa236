"""Placement as data: rules differ in where a job goes, never in whether it fits; and how patient a job is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Hints, Job, Scheduler
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.placement.choices import RULES, rule_named
from schedmate.scheduler.policies import PATIENCE, by_due_time, by_patience


@pytest.mark.parametrize("detailed", [False, True], ids=["plain", "detailed"])
@pytest.mark.parametrize(("placement", "nodes"), [("e-binpack", 1), ("best-fit", 1), ("least-allocated", 3)])
def test_small_jobs_share_a_node_or_do_not(placement: str, nodes: int, detailed: bool) -> None:
    spec = ClusterSpec.uniform(3, 8)
    policy = replace(POLICIES["core"], placement=placement)
    scheduler = Scheduler(spec.in_detail() if detailed else spec, policy)
    slots = [scheduler.submit(Job(f"j{i}", 2, 0.0, limit_s=10.0)) for i in range(3)]
    assert scheduler.cycle(0.0) == slots
    shares = [scheduler.state.table.shares[slot] or () for slot in slots]
    assert len({share[0] for each in shares for share in each}) == nodes


@pytest.mark.parametrize("detailed", [False, True], ids=["plain", "detailed"])
@given(st.lists(st.integers(1, 20), max_size=12), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_whether_a_job_fits_is_the_same_for_all(detailed: bool, before: list[int], gpus: int) -> None:
    spec = ClusterSpec.uniform(5, 4)
    index = Cluster(spec.in_detail() if detailed else spec).pools[0]
    for each in before:
        shares = RULES["least-allocated"](index, Demand.plain(each))
        if shares is not None:
            index.take(shares)
    found = {name: rule(index, Demand.plain(gpus)) for name, rule in RULES.items()}
    assert len({shares is None for shares in found.values()}) == 1
    for shares in found.values():
        if shares is not None:
            index.copy().take(shares)
            assert sum(share[1] for share in shares) == gpus


def test_an_unknown_placement_is_refused() -> None:
    with pytest.raises(ValueError, match="no placement 'worst-fit'; there are e-binpack, best-fit"):
        rule_named("worst-fit")


def test_nobody_stands_back_for_longer_than_twice_its_run() -> None:
    wide = Job("wide", 2048, 1000.0, limit_s=1e6, hints=Hints(14400.0, 20000.0))
    assert by_due_time(wide, 8000) > 1000.0 + 12 * 3600
    assert by_patience(wide, 8000) == 1000.0 + PATIENCE * 14400.0
    small = Job("small", 1, 1000.0, limit_s=1e6, hints=Hints(14400.0, 20000.0))
    assert by_patience(small, 8000) == by_due_time(small, 8000) < 1000.0 + 600.0
