"""Conservative backfilling against a plain implementation, and its promise to every job."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Job, Policy, Scheduler
from schedmate.scheduler import plan_search as plan_module


def _beside(name: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle, playing = _beside("conservative_oracle"), _beside("playing")

Timed = tuple[int, int, int, int]


def run(
    jobs: list[Timed],
    spec: ClusterSpec,
    policy: Policy = POLICIES["conservative"],
    watch: Callable[[Scheduler], None] = lambda scheduler: None,
) -> list[float]:
    """Start times, from a loop of its own."""
    made = [(Job(str(i), gpus, submit, float(said)), runtime) for i, (submit, gpus, runtime, said) in enumerate(jobs)]
    return playing.play(Scheduler(spec, policy), made, lambda scheduler, now: watch(scheduler))


@st.composite
def workloads(draw: st.DrawFn, largest: int, slack: int) -> list[Timed]:
    job = st.tuples(st.integers(0, 12), st.integers(1, largest), st.integers(1, 9), st.integers(0, slack))
    return [
        (submit, gpus, runtime, runtime + more)
        for submit, gpus, runtime, more in draw(st.lists(job, min_size=1, max_size=14))
    ]


@pytest.mark.parametrize("slack", [0, 6])
@pytest.mark.parametrize("many_plans", [0, 3, math.inf], ids=["by table", "by both", "by looking ahead"])
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), nodes=st.integers(1, 4), capacity=st.integers(1, 6))
def test_same_as_the_plain_one(
    monkeypatch: pytest.MonkeyPatch, slack: int, many_plans: float, data: st.DataObject, nodes: int, capacity: int
) -> None:
    """With exact estimates, and with estimates that jobs end before; by both ways of finding the first start."""
    monkeypatch.setattr(plan_module, "MANY_PLANS", many_plans)
    jobs = data.draw(workloads(nodes * capacity, slack))
    assert run(jobs, ClusterSpec.uniform(nodes, capacity)) == oracle.starts(jobs, nodes, capacity)


@pytest.mark.parametrize("most", [2, 3, math.inf])
@settings(max_examples=200, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 3), capacity=st.integers(1, 4))
def test_nobody_starts_later_than_first_promised(most: float, data: st.DataObject, nodes: int, capacity: int) -> None:
    """Whatever ends early, as long as none outlives its estimate; with K reservations as with all."""
    jobs = data.draw(workloads(nodes * capacity, 6))
    promised: dict[str, float] = {}

    def watch(scheduler: Scheduler) -> None:
        for plans in scheduler.state.reservations.values():
            for plan in plans:
                job = scheduler.state.table.jobs[plan.slot]
                assert job is not None
                promised.setdefault(job.job_id, plan.start_s)

    starts = run(
        jobs, ClusterSpec.uniform(nodes, capacity), replace(POLICIES["conservative"], reservations=most), watch
    )
    for job_id, promised_s in promised.items():
        assert starts[int(job_id)] <= promised_s


@settings(max_examples=200, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 3), capacity=st.integers(1, 4))
def test_one_reservation_is_easy(data: st.DataObject, nodes: int, capacity: int) -> None:
    """With exact estimates; after an early end the plain path may reserve other nodes for the same time."""
    jobs = data.draw(workloads(nodes * capacity, 0))
    spec = ClusterSpec.uniform(nodes, capacity)
    assert run(jobs, spec, replace(POLICIES["easy"], reservations=1)) == run(jobs, spec, POLICIES["easy"])


def test_a_job_that_would_delay_any_waiting_one_waits() -> None:
    """8 GPUs: 6 are busy until 10; the third job may not delay the second reservation, the fourth delays nobody."""
    jobs = [(0, 6, 10, 10), (1, 8, 5, 5), (1, 8, 5, 5), (2, 2, 9, 9), (2, 2, 8, 8)]
    assert run(jobs, ClusterSpec.uniform(1, 8)) == [0, 10, 15, 20, 2]
