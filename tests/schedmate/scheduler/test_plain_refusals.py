"""Policies without the queue layer look at sizes, GPU types and times; whoever asks for more is told so."""

from __future__ import annotations

from typing import Any

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Job, PoolSpec, Scheduler, Unschedulable
from schedmate.scheduler.demand import Role

SPEC = ClusterSpec((PoolSpec("a100", 2, 8), PoolSpec("v100", 2, 8)))
PLAIN = sorted(name for name, policy in POLICIES.items() if policy.reservations is None)
ASKS: list[dict[str, Any]] = [
    {"priority": 1},
    {"priority": -1},
    {"tenant": "lab"},
    {"gpu_types": ("v100", "a100")},
    {"demand": Demand.of((Role(replicas=8, gpus=1),))},
    {"demand": Demand.of(gpus=8, level="node", required=True)},
]


@pytest.mark.parametrize("policy", PLAIN)
@pytest.mark.parametrize("asks", ASKS, ids=lambda asks: next(iter(asks)))
def test_what_would_be_ignored_is_refused_in_words(policy: str, asks: dict[str, Any]) -> None:
    scheduler = Scheduler(SPEC, POLICIES[policy])
    with pytest.raises(Unschedulable, match=f"job j has .* which policy {policy} does not look at: take core"):
        scheduler.submit(Job("j", 8, 0.0, 60.0, **asks))
    assert scheduler.cycle(0.0) == []


@pytest.mark.parametrize("policy", PLAIN)
def test_packed_gpus_may_be_asked_for_either_way(policy: str) -> None:
    scheduler = Scheduler(SPEC, POLICIES[policy])
    slots = [scheduler.submit(Job("a", 8, 0.0, 60.0, demand=Demand.plain(8))), scheduler.submit(Job("b", 8, 0.0, 60.0))]
    assert scheduler.cycle(0.0) == slots


@pytest.mark.parametrize("policy", [name for name in PLAIN if POLICIES[name].knows_tenants])
def test_with_the_queue_layer_it_is_looked_at(policy: str) -> None:
    scheduler = Scheduler(SPEC, POLICIES[policy].with_queue_layer())
    scheduler.submit(Job("low", 16, 0.0, 60.0))
    high = scheduler.submit(Job("high", 16, 0.0, 60.0, gpu_types=("v100", "a100"), priority=1))
    assert scheduler.cycle(0.0)[0] == high
    placed = scheduler.decision(high).placement
    assert placed is not None
    assert placed.pool == "v100"
