"""EASY by predictions, shortest first behind the head: against a plain implementation, and what it promises."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, Scheduler
from schedmate.scheduler.assumptions import by_bounds, doubled, predicted
from schedmate.scheduler.expected_ends import corrected_end_s
from schedmate.scheduler.policies import Policy, by_estimate
from schedmate.scheduler.tenants import Tenant


def _beside(name: str):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


easy_oracle, playing = _beside("easy_oracle"), _beside("playing")
SJBF = POLICIES["easy-predicted-sjbf"]

Timed = tuple[int, int, int, int]  # submit, gpus, runtime, said


@st.composite
def workloads(draw: st.DrawFn, largest: int, least: int, most: int) -> list[Timed]:
    """Up to 14 jobs; what is said of them is their runtime and from ``least`` to ``most`` more."""
    job = st.tuples(st.integers(0, 12), st.integers(1, largest), st.integers(1, 9), st.integers(least, most))
    rows = draw(st.lists(job, min_size=1, max_size=14))
    return [(submit, gpus, runtime, max(0, runtime + more)) for submit, gpus, runtime, more in rows]


@pytest.mark.parametrize("slack", [0, 6])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_same_as_the_plain_one_where_nothing_outlives_its_prediction(slack: int, data: st.DataObject) -> None:
    jobs = data.draw(workloads(6, 0, slack))
    made = [(Job(str(i), j[1], j[0], None, 99.0, None, Hints(j[3], j[3])), j[2]) for i, j in enumerate(jobs)]
    starts = playing.play(Scheduler(ClusterSpec.uniform(1, 6), SJBF), made)
    assert starts == easy_oracle.flat(jobs, 6, easy_oracle.by_estimate)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 3), capacity=st.integers(1, 4))
def test_admitted_by_requests_the_reserved_head_is_never_delayed(
    data: st.DataObject, nodes: int, capacity: int
) -> None:
    """Without predictions the requested time is what counts: then the first start that was told holds."""
    first: dict[str, float] = {}

    def watch(scheduler: Scheduler, now: float) -> None:
        assert not scheduler.evicted
        for plans in scheduler.state.reservations.values():
            for plan in plans:
                first.setdefault(scheduler.state.table.present(plan.slot).job_id, plan.start_s)

    jobs = data.draw(workloads(nodes * capacity, 0, 6))
    made = [(Job(str(i), j[1], j[0], None, float(j[3])), j[2]) for i, j in enumerate(jobs)]
    starts = playing.play(Scheduler(ClusterSpec.uniform(nodes, capacity), SJBF), made, watch)
    assert all(starts[int(name)] <= told_s for name, told_s in first.items())


@settings(max_examples=200, deadline=None)
@given(data=st.data(), nodes=st.integers(1, 3), capacity=st.integers(1, 4))
def test_however_wrong_the_predictions_nobody_is_evicted_and_all_start(
    data: st.DataObject, nodes: int, capacity: int
) -> None:
    def watch(scheduler: Scheduler, now: float) -> None:
        assert not scheduler.evicted
        table = scheduler.state.table
        for slot in table.running():  # the limit has not come, so it is expected to end after now and by then
            end_s = scheduler.state.ends.ends_s[slot] if scheduler.state.ends is not None else 0.0
            assert end_s <= table.starts_s[slot] + table.assumed[slot].limit_s

    jobs = data.draw(workloads(nodes * capacity, -9, 9))
    made = [
        (Job(str(i), j[1], j[0], None, float(j[2] + data.draw(st.integers(0, 5))), None, Hints(j[3], j[3] + 2)), j[2])
        for i, j in enumerate(jobs)
    ]
    assert min(playing.play(Scheduler(ClusterSpec.uniform(nodes, capacity), SJBF), made, watch)) >= 0


@settings(max_examples=500)
@given(
    st.floats(0, 1e9),
    st.floats(0, 1e7),
    st.floats(0, 1e7),
    st.none() | st.floats(0, 1e7),
    st.none() | st.floats(0, 1e7),
    st.sampled_from([doubled, by_bounds]),
)
def test_a_corrected_end_is_to_come_and_within_the_limit(
    began_s: float, said_s: float, ran_s: float, limit_s: float | None, high_s: float | None, rule: object
) -> None:
    hints = None if high_s is None else Hints(min(said_s, high_s), high_s)
    job, now = Job("j", 1, 0.0, said_s, limit_s, None, hints), began_s + ran_s
    longer = partial(doubled if rule is doubled else by_bounds, job)
    until_s = float("inf") if limit_s is None else began_s + limit_s
    end_s = corrected_end_s(longer, began_s, began_s + said_s, now, until_s)
    assert end_s > now
    if now < until_s:
        assert end_s <= until_s


def test_first_the_upper_bound_then_the_limit_then_doubled() -> None:
    job = Job("j", 1, 0.0, None, 1_000.0, None, Hints(100.0, 300.0))
    assert [by_bounds(job, ran_s) for ran_s in (100.0, 300.0, 1_000.0)] == [300.0, 1_000.0, 2_000.0]
    assert by_bounds(Job("j", 1, 0.0, 100.0), 100.0) == 200.0
    assert by_bounds(Job("j", 1, 0.0, None, 200.0, None, Hints(100.0, 300.0)), 100.0) == 200.0


def test_a_prediction_never_exceeds_the_limit_and_stands_before_the_estimate() -> None:
    assert predicted(Job("j", 1, 0.0, 50.0, 80.0, None, Hints(100.0, 300.0)))[:2] == (80.0, 80.0)
    assert predicted(Job("j", 1, 0.0, 50.0, 80.0))[:2] == (50.0, 50.0)
    assert predicted(Job("j", 1, 0.0, None, 80.0))[:2] == (80.0, 80.0)


def test_an_order_of_backfill_needs_a_plain_queue_with_a_reserved_head() -> None:
    for more in ({}, {"reserve_from": SJBF.reserve_from, "reservations": 1}):
        with pytest.raises(ValueError, match="plain queue"):
            Policy("x", "", by_estimate, predicted, backfill_by=by_estimate, **more)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="knows no tenants"):
        Scheduler(ClusterSpec.uniform(1, 4), SJBF, [Tenant("a")])
