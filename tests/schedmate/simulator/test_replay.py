"""The event loop: order within a moment, what is left out, determinism."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from predictors import OnlineDurationPredictor
from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec
from schedmate.simulator import Predicted, Result, simulate
from schedmate.simulator import replay as replay_module

SPEC = ClusterSpec.uniform(2, 4)
policies = st.sampled_from(sorted(POLICIES))
those_that_never_evict = st.sampled_from(sorted(name for name in POLICIES if POLICIES[name].ranking is None))


@st.composite
def traces(draw: st.DrawFn) -> list[JobRecord]:
    row = st.tuples(st.integers(0, 20), st.integers(1, 8), st.integers(0, 9), st.integers(0, 12), st.integers(0, 2))
    rows = sorted(draw(st.lists(row, min_size=1, max_size=15)), key=lambda r: r[0])
    return [
        JobRecord(
            f"j{i}", float(submit), float(runtime), gpus, user=f"u{user}", requested_s=float(max(requested, runtime))
        )
        for i, (submit, gpus, runtime, requested, user) in enumerate(rows)
    ]


def decisions(result: Result) -> list[tuple[float, tuple[tuple[int, int], ...]]]:
    return [(float(start), result.placement(i).shares) for i, start in enumerate(result.start_s)]


@dataclass(frozen=True)
class Middle:
    p50: float
    p90: float


@settings(max_examples=100, deadline=None)
@given(traces(), policies)
def test_the_same_input_gives_the_same_result(jobs: list[JobRecord], policy: str) -> None:
    first, second = (simulate(iter(jobs), SPEC, policy, keep_placements=True) for _ in range(2))
    assert decisions(first) == decisions(second)
    assert first.times_s.tolist() == second.times_s.tolist()
    assert first.allocated_gpus.tolist() == second.allocated_gpus.tolist()


@settings(max_examples=100, deadline=None)
@given(traces(), those_that_never_evict)
def test_every_job_runs_once_for_its_runtime_and_the_log_adds_up(jobs: list[JobRecord], policy: str) -> None:
    result = simulate(jobs, SPEC, policy)
    assert result.job_ids == [job.job_id for job in jobs]
    assert result.runtime_s.tolist() == pytest.approx([job.duration_s for job in jobs])
    assert (result.waiting_s >= 0).all()
    gpu_seconds = float((result.runtime_s * result.gpus).sum())
    assert result.gar.integral() * SPEC.gpus == pytest.approx(gpu_seconds)
    assert result.allocated_gpus.max() <= SPEC.gpus
    assert (result.allocated_gpus[-1], result.waiting_jobs[-1], result.fragmented_nodes[-1]) == (0, 0, 0)


def test_ends_come_before_arrivals_of_the_same_moment() -> None:
    jobs = [JobRecord("a", 0.0, 10.0, 8), JobRecord("b", 10.0, 5.0, 8)]
    assert simulate(jobs, SPEC).start_s.tolist() == [0, 10]


def test_arrivals_of_one_moment_are_weighed_together_even_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [JobRecord("long", 3.0, 10.0, 8), JobRecord("short", 3.0, 2.0, 8)]
    monkeypatch.setattr(replay_module, "_CHUNK", 1)
    assert simulate(jobs, SPEC, "sjf").start_s.tolist() == [5, 3]


def test_what_can_not_be_replayed_is_left_out_and_counted() -> None:
    good = JobRecord("good", 1.0, 2.0, 8)
    bad = [
        replace(good, job_id="running", duration_s=None),
        replace(good, job_id="negative", duration_s=-1.0),
        replace(good, job_id="nan", duration_s=math.nan),
        replace(good, job_id="endless", duration_s=math.inf),
        replace(good, job_id="never", submit_s=math.nan),
        replace(good, job_id="cpu", gpus=0),
        replace(good, job_id="large", gpus=9),
        replace(good, job_id="alien", gpu_type="tpu"),
    ]
    result = simulate([*bad, good], SPEC)
    assert result.job_ids == ["good"]
    assert sum(result.skipped.values()) == 8
    assert result.skipped["runtime is negative or not finite"] == 3
    assert result.skipped["larger than the cluster, or of a GPU type that it lacks"] == 2
    assert len(result.examples) == 5


def test_records_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="job b was submitted before"):
        simulate([JobRecord("a", 2.0, 1.0, 1), JobRecord("b", 1.0, 1.0, 1)], SPEC)


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="known: fifo, sjf, easy, easy-predicted-sjbf, kant"):
        simulate([], SPEC, "lifo")


def test_no_jobs_at_all() -> None:
    summary = simulate([], SPEC).summary()
    assert (summary["jobs"], summary["sor"], summary["makespan_s"]) == (0, None, 0)


def test_the_history_predictor_learns_on_the_way() -> None:
    """One user whose jobs all take 100 s and ask for an hour: after some ends the predictor knows, and EASY uses it."""
    asked: list[float] = []

    class Spy(OnlineDurationPredictor):
        def quantiles(self, record: JobRecord) -> Middle:  # type: ignore[override]
            found = super().quantiles(record)
            asked.append(found.p50)
            return Middle(found.p50, found.p90)

    jobs = [JobRecord(f"j{i}", 200.0 * i, 100.0, 8, user="u", requested_s=3600.0) for i in range(20)]
    simulate(jobs, SPEC, "easy", Predicted(Spy()))
    assert abs(asked[0] - 100) > abs(asked[-1] - 100)
    assert asked[-1] == pytest.approx(100, rel=0.2)


def test_jobs_that_are_left_out_do_not_stretch_the_window() -> None:
    cluster = ClusterSpec.uniform(1, 4)
    played = [JobRecord("a", 100.0, 10.0, 4), JobRecord("b", 105.0, 5.0, 2)]
    left_out = [JobRecord("early", 0.0, 1.0, 9), JobRecord("late", 9_999.0, 1.0, 9)]
    alone = simulate(played, cluster, "fifo").summary()
    among = simulate([left_out[0], *played, left_out[1]], cluster, "fifo").summary()
    assert among["skipped"] == {replay_module.TOO_LARGE: 2}
    for metric in ("sor", "sor_while_arriving", "gar", "gfr", "makespan_s"):
        assert among[metric] == alone[metric]
    assert among["sor"] == pytest.approx((40 + 10) / (4 * 15))


@pytest.mark.filterwarnings("error")
def test_a_replay_of_a_few_ticks_of_the_clock_has_finite_metrics() -> None:
    late_s = 1e13
    result = simulate([JobRecord("a", late_s, math.ulp(late_s), 1)], ClusterSpec.uniform(1, 2), "fifo")
    assert result.summary()["gar"]["series"] == {"start_s": [late_s], "mean": [0.5]}
