"""Smallest expected GPU time first, with bounds on how long the larger ones are passed by."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, PoolSpec, Scheduler
from schedmate.scheduler.actions import pass_by
from schedmate.scheduler.pending import Backlog
from schedmate.scheduler.policies import Patience, Policy


def _beside(name: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle, easy_oracle, playing = (_beside(name) for name in ("patient_oracle", "easy_oracle", "playing"))

Timed = tuple[int, int, int]  # submit, gpus, runtime

#: Small bounds, so that small cases meet them.
patiences = st.builds(
    Patience,
    plans=st.integers(0, 3),
    after_s=st.integers(0, 6).map(float),
    promoted=st.integers(0, 3),
    backlogs=st.sampled_from([0.0, 0.5, 2.0]),
    longest_s=st.sampled_from([4.0, 10.0, 30.0]),
)


def patient(patience: Patience) -> Policy:
    return replace(POLICIES["patient"], patience=patience)


def job_of(number: int, timed: Timed, gpu_type: str | None = None) -> Job:
    submit, gpus, runtime = timed
    exact = Hints(expected_s=runtime, high_s=runtime)
    return Job(str(number), gpus, submit, hints=exact, gpu_type=gpu_type)


def run(
    jobs: list[Timed],
    spec: ClusterSpec,
    policy: Policy,
    watch: Callable[[Scheduler, float], None] = lambda scheduler, now: None,
    hints: Callable[[Job], Job] = lambda job: job,
) -> list[float]:
    """Start times of all jobs."""
    return playing.play(Scheduler(spec, policy), [(hints(job_of(i, job)), job[2]) for i, job in enumerate(jobs)], watch)


def workloads(largest: int) -> st.SearchStrategy[list[Timed]]:
    job = st.tuples(st.integers(0, 25), st.integers(1, largest), st.integers(1, 9))
    return st.lists(job, min_size=1, max_size=16)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.integers(1, 12), patiences)
def test_same_as_a_plain_second_implementation(data: st.DataObject, capacity: int, patience: Patience) -> None:
    """That makes every plan anew at every moment; on one node it does not matter."""
    jobs = data.draw(workloads(capacity))
    expected = oracle.Replay(jobs, 1, capacity, patience, easy_oracle.place).starts()
    assert run(jobs, ClusterSpec.uniform(1, capacity), patient(patience)) == expected


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4), patiences)
def test_same_on_nodes_when_no_plan_is_kept(data: st.DataObject, nodes: int, capacity: int, patience: Patience) -> None:
    """A plan that is kept stays on its nodes, although a new one for the same time might by now be on others."""
    jobs = data.draw(workloads(nodes * capacity))
    expected = oracle.Replay(jobs, nodes, capacity, patience, easy_oracle.place).starts()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pass_by._Walk, "_kept", lambda walk, slot: None)
        assert run(jobs, ClusterSpec.uniform(nodes, capacity), patient(patience)) == expected


@settings(max_examples=300, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4), patiences)
def test_who_goes_before_all_others_starts_no_later_than_planned(
    data: st.DataObject, nodes: int, capacity: int, patience: Patience
) -> None:
    """As long as nothing runs longer than expected."""
    jobs = data.draw(workloads(nodes * capacity))
    first: dict[str, float] = {}

    def watch(scheduler: Scheduler, now: float) -> None:
        for plans in scheduler.state.reservations.values():
            for plan in plans:
                if plan.slot in scheduler.state.reserved_for:
                    first.setdefault(scheduler.state.table.present(plan.slot).job_id, plan.start_s)

    starts = run(jobs, ClusterSpec.uniform(nodes, capacity), patient(patience), watch)
    for job_id, planned_s in first.items():
        assert starts[int(job_id)] <= planned_s


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), patiences)
def test_everything_starts_whatever_is_predicted(
    data: st.DataObject, nodes: int, capacity: int, patience: Patience
) -> None:
    jobs = data.draw(workloads(nodes * capacity))
    kinds = st.sampled_from([None, 0.1, 1.0, 100.0])

    def wrong(job: Job) -> Job:
        factor = data.draw(kinds)
        if factor is None or job.hints is None or job.hints.expected_s is None:
            return replace(job, hints=None)
        predicted_s = job.hints.expected_s * factor
        return replace(job, hints=Hints(expected_s=predicted_s, high_s=predicted_s))

    def watch(scheduler: Scheduler, now: float) -> None:
        waiting = scheduler.state.queue.slots()
        again, table = Backlog(), scheduler.state.table
        for slot in waiting:
            again.add(slot, table.assumed[slot].ends_s * table.gpus[slot])
        assert scheduler.state.queue.backlog == again

    assert min(run(jobs, ClusterSpec.uniform(nodes, capacity), patient(patience), watch, wrong)) >= 0


def test_a_large_job_is_passed_until_its_bound() -> None:
    """One node of 8 GPUs. A stream of small jobs leaves no room for the one that wants all of them: it is given a plan
    after an hour and goes first when the plan would have it wait for longer than two."""
    bound = Patience(plans=1, after_s=3600.0, promoted=1, backlogs=0.0, longest_s=7200.0)
    small = [(i * 1800, 4, 3600) for i in range(12)]
    jobs = [*small, (10, 8, 36_000)]
    never = run(jobs, ClusterSpec.uniform(1, 8), patient(replace(bound, promoted=0, plans=0)))
    assert never[-1] == max(never)
    assert run(jobs, ClusterSpec.uniform(1, 8), patient(bound))[-1] < 2 * 7200


def test_a_queue_that_is_long_makes_everybody_patient() -> None:
    assert Patience().bound_s(0.0) == Patience().after_s
    assert Patience().bound_s(3600.0) == Patience().after_s + Patience().backlogs * 3600.0
    assert Patience().bound_s(1e9) == Patience().longest_s


def test_types_of_gpus_do_not_wait_for_each_other() -> None:
    scheduler = Scheduler(ClusterSpec((PoolSpec("a", 1, 2), PoolSpec("b", 1, 2))), patient(Patience(after_s=0.0)))
    for i, (gpus, gpu_type) in enumerate([(1, "a"), (2, "a"), (2, "b"), (1, "a")]):
        scheduler.submit(job_of(i, (0, gpus, 10 + i), gpu_type))
    assert len(scheduler.cycle(0.0)) == 3
    assert [scheduler.state.table.present(slot).job_id for slot in scheduler.state.blocked] == ["1"]


def test_tenants_are_not_for_it() -> None:
    with pytest.raises(ValueError, match="policy patient knows no tenants"):
        POLICIES["patient"].with_queue_layer()


@pytest.mark.parametrize("policy", ["easy", "kant", "patient"])
def test_who_takes_back_its_job_leaves_no_plan_to_the_next_one(policy: str) -> None:
    """The place of a job that was taken back is used again, also before the next cycle."""
    chosen = POLICIES[policy]
    chosen = patient(Patience(after_s=0.0, backlogs=0.0)) if policy == "patient" else chosen
    scheduler = Scheduler(ClusterSpec.uniform(1, 4), chosen)
    running, blocked = (scheduler.submit(replace(job_of(i, (0, 3 + i, 10)), estimate_s=10.0)) for i in range(2))
    assert scheduler.cycle(0.0) == [running]
    scheduler.withdraw(blocked)
    again = scheduler.submit(replace(job_of(2, (1, 2, 100)), estimate_s=100.0))
    assert again == blocked
    later = scheduler.submit(replace(job_of(3, (1, 1, 100)), estimate_s=100.0))
    assert scheduler.cycle(1.0) == [later]
    scheduler.end(running, 10.0)
    assert scheduler.cycle(10.0) == [again]
