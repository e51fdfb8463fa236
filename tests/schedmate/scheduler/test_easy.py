"""EASY: against two independent implementations, and its promise to the head of the queue."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Job, PoolSpec, Scheduler


def _beside(name: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


easy_oracle, playing = _beside("easy_oracle"), _beside("playing")

Timed = tuple[int, int, int, int]  # submit, gpus, runtime, estimate


def run(
    jobs: list[Timed],
    spec: ClusterSpec,
    policy: str = "easy",
    watch: Callable[[Scheduler, float], None] = lambda scheduler, now: None,
    limits: bool = False,
    types: Sequence[str | None] = (),
) -> list[float]:
    """Start times, from a loop of its own: the simulator is not what is tested here."""
    made = []
    for i, (submit, gpus, runtime, estimate) in enumerate(jobs):
        limit_s = float(estimate) if limits else None
        made.append((Job(str(i), gpus, submit, float(estimate), limit_s, types[i] if types else None), runtime))
    return playing.play(Scheduler(spec, POLICIES[policy]), made, watch)


@st.composite
def workloads(draw: st.DrawFn, largest: int, slack: int = 0) -> list[Timed]:
    """Up to 14 jobs; runtimes of at least 1 and estimates that exceed them by up to ``slack``."""
    job = st.tuples(st.integers(0, 12), st.integers(1, largest), st.integers(1, 9), st.integers(0, slack))
    return [
        (submit, gpus, runtime, runtime + more)
        for submit, gpus, runtime, more in draw(st.lists(job, min_size=1, max_size=14))
    ]


@pytest.mark.parametrize("slack", [0, 6])
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_same_as_the_textbook_on_one_pool_of_gpus(slack: int, data: st.DataObject) -> None:
    """With exact estimates, and with estimates that jobs end before."""
    jobs = data.draw(workloads(largest=6, slack=slack))
    assert run(jobs, ClusterSpec.uniform(1, 6)) == easy_oracle.flat(jobs, 6)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(2, 4), st.integers(2, 4))
def test_same_as_the_plain_one_on_nodes(data: st.DataObject, nodes: int, capacity: int) -> None:
    jobs = data.draw(workloads(largest=nodes * capacity))
    expected = easy_oracle.on_nodes([job[:3] for job in jobs], nodes, capacity)
    assert run(jobs, ClusterSpec.uniform(nodes, capacity)) == expected


class Promises:
    """Remembers the first start that each job was promised."""

    def __init__(self, guaranteed: bool) -> None:
        self.first: dict[str, float] = {}
        self._guaranteed = guaranteed

    def __call__(self, scheduler: Scheduler, now: float) -> None:
        for plans in scheduler.state.reservations.values():
            for plan in plans:
                job = scheduler.state.table.jobs[plan.slot]
                assert scheduler.state.table.live[plan.slot] is not None, "planned for a job that does not wait"
                assert job is None or sum(gpus for _, gpus in plan.shares) == job.gpus, "the plan of another job"
                if plan.guaranteed == self._guaranteed and job is not None:
                    self.first.setdefault(job.job_id, plan.start_s)


@pytest.mark.parametrize("slack", [0, 6])
@settings(max_examples=300, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 4), capacity=st.integers(1, 4))
def test_the_head_never_starts_later_than_reserved(slack: int, data: st.DataObject, nodes: int, capacity: int) -> None:
    """Whatever the jobs, as long as none outlives its estimate."""
    jobs = data.draw(workloads(largest=nodes * capacity, slack=slack))
    promises = Promises(guaranteed=False)
    starts = run(jobs, ClusterSpec.uniform(nodes, capacity), watch=promises)
    for job_id, promised_s in promises.first.items():
        assert starts[int(job_id)] <= promised_s


@settings(max_examples=300, deadline=None)
@given(data=st.data(), slack=st.sampled_from([0, 6]), nodes=st.integers(1, 3), capacity=st.integers(1, 3))
def test_no_head_on_any_of_two_pools_starts_later_than_reserved(
    data: st.DataObject, slack: int, nodes: int, capacity: int
) -> None:
    jobs = data.draw(workloads(largest=nodes * capacity, slack=slack))
    types = [data.draw(st.sampled_from(["a", "b", None])) for _ in jobs]
    promises = Promises(guaranteed=False)
    spec = ClusterSpec((PoolSpec("a", nodes, capacity), PoolSpec("b", nodes, capacity)))
    starts = run(jobs, spec, watch=promises, types=types)
    for job_id, promised_s in promises.first.items():
        assert starts[int(job_id)] <= promised_s


def test_the_plan_of_a_head_that_starts_on_the_other_pool_is_not_that_of_who_gets_its_slot() -> None:
    """Job 2 has a plan on b for 7, starts on a at 3, and is gone at 4, when the last job gets its slot."""
    jobs = [(0, 4, 3, 3), (0, 2, 9, 9), (1, 3, 1, 1), (0, 2, 7, 7), (4, 4, 1, 1)]
    promises = Promises(guaranteed=False)
    spec = ClusterSpec((PoolSpec("a", 2, 2), PoolSpec("b", 2, 2)))
    starts = run(jobs, spec, watch=promises, types=["a", "b", None, "b", "b"])
    assert starts == [0, 0, 3, 0, 9]
    assert promises.first["4"] == 9


@settings(max_examples=300, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 4), capacity=st.integers(1, 4))
def test_everything_starts_even_when_estimates_are_far_too_short(
    data: st.DataObject, nodes: int, capacity: int
) -> None:
    jobs = data.draw(workloads(largest=nodes * capacity))
    wrong = [(submit, gpus, runtime, data.draw(st.integers(0, runtime))) for submit, gpus, runtime, _ in jobs]
    assert min(run(wrong, ClusterSpec.uniform(nodes, capacity))) >= 0


def test_a_short_job_passes_and_a_long_one_that_would_delay_the_head_does_not() -> None:
    jobs = [(0, 6, 10, 10), (1, 8, 5, 5), (2, 2, 8, 8), (2, 2, 9, 9)]
    assert run(jobs, ClusterSpec.uniform(1, 8)) == [0, 10, 2, 15]


def test_a_long_job_passes_where_it_takes_nothing_that_is_reserved() -> None:
    # Two nodes of 4; the head needs a whole node and gets node 1 at 3: the long job fits node 0 beside it only.
    jobs = [(0, 2, 50, 50), (0, 4, 3, 3), (1, 4, 5, 5), (1, 2, 40, 40)]
    assert run(jobs, ClusterSpec.uniform(2, 4)) == [0, 0, 3, 1]


def test_enough_gpus_at_the_shadow_time_are_not_enough_when_no_node_is_whole() -> None:
    """Counting GPUs, the last job would do no harm; on nodes it would break the only node that becomes free."""
    jobs = [(0, 2, 50, 50), (0, 2, 10, 10), (0, 2, 50, 50), (1, 4, 5, 5), (2, 1, 40, 40), (2, 2, 40, 40)]
    starts = run(jobs, ClusterSpec.uniform(2, 4))
    by_counting = easy_oracle.flat(jobs, 8)
    assert by_counting[3] == 10
    assert starts[3] >= 50, "two nodes of 4 with 2 GPUs held on each until 50"


def test_a_plan_is_made_anew_when_a_job_outlives_its_estimate() -> None:
    """The first job says 100 and runs 1000: at 100 its end is expected at 200, at 200 at 400, at 400 at 800."""
    blocked = [(0, 6, 1000, 100), (1, 8, 5, 5)]
    spec = ClusterSpec.uniform(1, 8)
    for length, start in ((99, 1), (100, 100), (101, 200), (200, 200), (201, 400), (400, 400), (401, 800)):
        assert run([*blocked, (1, 2, length, length)], spec)[2] == start, length
    # At 800 the end is expected at 1600; whatever would run beyond that comes after the head.
    assert run([*blocked, (1, 2, 801, 801)], spec) == [0, 1000, 1005]


def test_a_far_too_short_estimate_is_extended_by_a_minute_at_least() -> None:
    blocked = [(0, 6, 500, 1), (1, 8, 5, 5)]
    spec = ClusterSpec.uniform(1, 8)
    for length, start in ((60, 1), (61, 61), (62, 122)):
        assert run([*blocked, (1, 2, length, length)], spec)[2] == start, length


@settings(max_examples=300, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 4), capacity=st.integers(1, 4))
def test_kant_keeps_every_guaranteed_start(data: st.DataObject, nodes: int, capacity: int) -> None:
    """With hard limits on all jobs and no hints; hostile hints are tested with the policy itself."""
    jobs = data.draw(workloads(largest=nodes * capacity, slack=6))
    promises = Promises(guaranteed=True)
    starts = run(jobs, ClusterSpec.uniform(nodes, capacity), policy="kant", watch=promises, limits=True)
    for job_id, promised_s in promises.first.items():
        assert starts[int(job_id)] <= promised_s
