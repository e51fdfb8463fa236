"""Calls and events that can not be are refused in words, and the scheduler goes on as if they had never come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, Quota, Scheduler, Tenant
from schedmate.scheduler.events import CycleRan, Event, Evicted, NodeSuspected, Submitted
from schedmate.scheduler.tenants import MOST_LEVELS
from schedmate.simulator.audit import audit

NO_NUMBERS = (math.nan, math.inf, -math.inf)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("submit_s", NO_NUMBERS),
        ("estimate_s", (math.nan, -math.inf, -1.0)),
        ("limit_s", (math.nan, -math.inf, -1.0)),
        ("checkpoint_s", (*NO_NUMBERS, 0.0, -1.0)),
        ("grace_s", (*NO_NUMBERS, -1.0)),
        ("restart_s", (*NO_NUMBERS, -1.0)),
        ("min_run_s", (math.nan, -math.inf, -1.0)),
        ("scaling", (*NO_NUMBERS, -1.0, 2.0)),
        ("priority", (1 << 63, -(1 << 63), 10**400)),
        ("least_replicas", (-1,)),
        ("gpus", (0, -1)),
    ],
)
def test_no_job_of_impossible_amounts(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(ValueError, match="job 'j'"):
            Job(**{"job_id": "j", "gpus": 1, "submit_s": 0.0, field: value})


@pytest.mark.parametrize("field", ["confidence", "gpu_memory_mib", "utilization", "failure_probability"])
@pytest.mark.parametrize("value", [*NO_NUMBERS, -1.0])
def test_no_hint_of_impossible_amounts(field: str, value: float) -> None:
    with pytest.raises(ValueError, match="hint"):
        Hints(**{field: value})


@pytest.mark.parametrize("amount", [*NO_NUMBERS, -1.0])
def test_no_quota_of_impossible_amounts(amount: float) -> None:
    for quota in ((amount,), (1.0, amount), (1.0, None, amount)):
        with pytest.raises(ValueError, match="quota"):
            Quota(*quota)


def test_a_tenant_tree_is_not_endlessly_deep() -> None:
    tenant = Tenant("0")
    for level in range(1, MOST_LEVELS):
        tenant = Tenant(str(level), {}, (tenant,))
    Scheduler(ClusterSpec.uniform(1), POLICIES["core"], (tenant,))
    with pytest.raises(ValueError, match="more than 64 levels"):
        Tenant("one more", {}, (tenant,))


def full(policy: str) -> tuple[Scheduler, int, int]:
    """A scheduler by events, the slot of the job that runs on all there is, and of the one that waits."""
    scheduler = Scheduler(ClusterSpec.uniform(2).in_detail(), POLICIES[policy])
    for name in ("runs", "waits"):
        scheduler.apply(Submitted(0.0, Job(name, 16, 0.0, estimate_s=100.0, limit_s=100.0)))
    assert scheduler.apply(CycleRan(0.0)).started == ("runs",)
    return scheduler, 0, 1


@pytest.mark.parametrize("policy", ["core", "easy", "fifo"])
@pytest.mark.parametrize(
    "event",
    [
        Evicted(1.0, "waits"),
        Evicted(1.0, "nobody"),
        NodeSuspected(1.0, "gpu", 0, math.nan),
        NodeSuspected(1.0, "gpu", 0, math.inf),
        NodeSuspected(1.0, "gpu", 0, -1.0),
    ],
    ids=str,
)
def test_an_event_that_can_not_be_changes_nothing(policy: str, event: Event) -> None:
    scheduler, running, waiting = full(policy)
    twin, _, _ = full(policy)
    with pytest.raises(ValueError, match=r"not running|no job|suspected"):
        scheduler.apply(event)
    assert scheduler.state.table.since == twin.state.table.since
    assert scheduler.state.cluster == twin.state.cluster
    for each in (scheduler, twin):
        each.end(running, 2.0)
        assert each.cycle(2.0) == [waiting]
    assert not audit(scheduler)


@pytest.mark.parametrize("policy", ["core", "easy"])
@pytest.mark.parametrize("slot", [99, -1, -2])
@pytest.mark.parametrize(
    "call",
    [
        lambda scheduler, slot: scheduler.end(slot, 1.0),
        lambda scheduler, slot: scheduler.evict(slot, 1.0),
        lambda scheduler, slot: scheduler.withdraw(slot),
        lambda scheduler, slot: scheduler.update_hints(slot, None, 1.0),
        lambda scheduler, slot: scheduler.decision(slot),
        lambda scheduler, slot: scheduler.explain(slot),
    ],
    ids=["end", "evict", "withdraw", "update_hints", "decision", "explain"],
)
def test_a_slot_that_there_is_not(policy: str, slot: int, call: Callable[[Scheduler, int], object]) -> None:
    scheduler, running, waiting = full(policy)
    with pytest.raises(ValueError, match=f"slot {slot} "):
        call(scheduler, slot)
    scheduler.end(running, 2.0)
    assert scheduler.cycle(2.0) == [waiting]


@pytest.mark.parametrize("now", NO_NUMBERS)
def test_a_cycle_has_a_time(now: float) -> None:
    scheduler, _, waiting = full("easy")
    with pytest.raises(ValueError, match="a cycle at"):
        scheduler.cycle(now)
    assert scheduler.cycle(1.0) == []
    assert scheduler.decision(waiting).expected_start_s == 100
