"""Evicted jobs in a replay: they wait again, keep what they saved, pay for starting again, and the log adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import POLICIES, ClusterSpec
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.policies import at_once, by_submission
from schedmate.simulator import Conditions, Estimates, Perfect, Predicted, Preemptible, Restarts, SizeClasses, simulate

PROMPT = replace(POLICIES["core"], order=by_submission, reserve_from=at_once)
SPEC = ClusterSpec.uniform(2, 8)


@dataclass(frozen=True)
class Quantiles:
    p50: float
    p90: float


class Claims:
    """Says of every job what it is told to."""

    def __init__(self, claimed_s: dict[str, float]) -> None:
        self._claimed_s = claimed_s

    def quantiles(self, record: JobRecord) -> Quantiles:
        claimed_s = self._claimed_s.get(record.job_id, record.requested_s or 0.0)
        return Quantiles(claimed_s, claimed_s)

    def observe(self, record: JobRecord) -> None:
        """Learns nothing."""


#: At 100 ``wide`` is promised everything; ``guest`` says 60 and takes 250.
JOBS = [
    JobRecord("running", 0.0, 100.0, 8, requested_s=100.0),
    JobRecord("wide", 0.0, 50.0, 16, requested_s=50.0),
    JobRecord("guest", 0.0, 250.0, 8, requested_s=400.0),
]


def knowledge(restarts: Restarts) -> Estimates:
    return Preemptible(Predicted(Claims({"guest": 60.0})), restarts)


@pytest.mark.parametrize(
    ("restarts", "end_s", "lost_s"),
    [
        (Restarts(checkpoint_s=None, restart_s=0.0), 150.0 + 250, 100.0),
        (Restarts(checkpoint_s=None, restart_s=20.0), 150.0 + 20 + 250, 100.0),
        (Restarts(checkpoint_s=30.0, restart_s=20.0), 150.0 + 20 + 160, 10.0),
        (Restarts(checkpoint_s=None, grace_s=5.0, restart_s=0.0), 150.0 + 155, 5.0),
    ],
)
def test_lost_work_and_restarts_are_replayed(restarts: Restarts, end_s: float, lost_s: float) -> None:
    result = simulate(JOBS, SPEC, PROMPT, knowledge(restarts))
    assert result.start_s.tolist() == [0.0, 100.0, 0.0]
    assert result.end_s.tolist() == [100.0, 150.0, end_s]
    assert (result.evictions, result.lost_gpu_s) == (1, 8 * lost_s)
    assert (result.waiting_jobs[-1], result.allocated_gpus[-1]) == (0, 0)


def test_what_was_held_is_there_for_every_run() -> None:
    result = simulate(JOBS, SPEC, PROMPT, knowledge(Restarts(checkpoint_s=None, restart_s=20.0)), keep_placements=True)
    guest = [(stay.from_s, stay.until_s) for stay in result.stays() if stay.job == 2]
    assert guest == [(0.0, 100.0), (150.0, result.end_s[2])]
    held_s = sum(sum(share[1] for share in stay.shares) * (stay.until_s - stay.from_s) for stay in result.stays())
    assert held_s == pytest.approx(result.gar.integral() * SPEC.gpus)


def test_without_leave_to_evict_nobody_is_let_in_on_a_hint() -> None:
    result = simulate(JOBS, SPEC, PROMPT, Predicted(Claims({"guest": 60.0})))
    assert result.start_s.tolist() == [0.0, 100.0, 150.0]
    assert result.evictions == 0


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([None, 1.0, 3.0]), st.sampled_from([0.0, 2.0]), st.sampled_from([0.0, 1.0]))
def test_the_log_adds_up_whatever_is_claimed(
    data: st.DataObject, checkpoint_s: float | None, restart_s: float, grace_s: float
) -> None:
    row = st.tuples(st.integers(0, 12), st.integers(1, 16), st.integers(1, 9), st.integers(0, 9), st.integers(0, 12))
    rows = sorted(data.draw(st.lists(row, min_size=1, max_size=12)), key=lambda r: r[0])
    jobs = [
        JobRecord(f"j{i}", float(submit), float(run), gpus, requested_s=float(run + more))
        for i, (submit, gpus, run, more, _) in enumerate(rows)
    ]
    claims = Claims({f"j{i}": float(claimed) for i, (*_, claimed) in enumerate(rows)})
    costs = Restarts(checkpoint_s, grace_s, restart_s)
    result = simulate(jobs, SPEC, PROMPT, Preemptible(Predicted(claims), costs))
    assert result.job_ids == [job.job_id for job in jobs]
    work_s = sum(job.gpus * (job.duration_s or 0.0) for job in jobs)
    used_s = result.gar.integral() * SPEC.gpus
    most_s = work_s + result.lost_gpu_s + restart_s * 16 * result.evictions
    assert work_s + result.lost_gpu_s - 1e-6 <= used_s <= most_s + 1e-6
    assert result.evictions > 0 or used_s == pytest.approx(work_s)


def test_moves_are_paid_for_and_counted() -> None:
    """Two jobs of 3 of 8 GPUs, alone on their nodes after 100 s, are put together when one has saved its state."""
    moving = replace(PROMPT, defragment=Disruption(rest_s=1000.0, left_broken=0.0))
    jobs = [
        JobRecord("left", 0.0, 5000.0, 3, requested_s=5000.0),
        JobRecord("filler", 0.0, 100.0, 5, requested_s=100.0),
        JobRecord("right", 0.0, 5000.0, 3, requested_s=5000.0),
        JobRecord("tick", 1210.0, 10.0, 8, requested_s=10.0),
    ]
    restarts = Restarts(checkpoint_s=600.0, restart_s=20.0)
    results = {
        name: simulate(jobs, SPEC, policy, Preemptible(Perfect(), restarts))
        for name, policy in (("still", PROMPT), ("moving", moving))
    }
    moved = results["moving"]
    assert (results["still"].moves, moved.moves, moved.evictions) == (0, 1, 1)
    assert (moved.lost_gpu_s, moved.restart_gpu_s) == (0.0, 3 * 20.0)
    assert sorted(moved.end_s) == [100.0, 1220.0, 5000.0, 5020.0]
    assert moved.summary()["moves"] == 1


@pytest.mark.parametrize(
    ("gpu_s", "priority"), [(0.0, 0), (599.0, 0), (600.0, -1), (5999.0, -1), (6000.0, -2), (6e6, -5)]
)
def test_a_class_lower_for_ten_times_the_gpu_time(gpu_s: float, priority: int) -> None:
    assert SizeClasses(Perfect()).job(JobRecord("a", 0.0, gpu_s / 2, 2)).priority == priority


def test_with_classes_by_size_a_small_job_takes_the_place_of_a_large_one() -> None:
    """After its least run time of 300 s ``large`` leaves for ``small``, and goes on from its checkpoint."""
    jobs = [JobRecord("large", 0.0, 9000.0, 16), JobRecord("small", 100.0, 10.0, 8)]
    restarts = Restarts(checkpoint_s=100.0, restart_s=20.0)
    conditions = Conditions(restarts=restarts, size_classes=True)
    result = simulate(jobs, SPEC, "core", conditions=conditions)
    assert result.start_s.tolist() == [0.0, 300.0]
    assert result.end_s.tolist() == [310.0 + 20 + 8700, 310.0]
    assert simulate(jobs, SPEC, "core", conditions=Conditions(restarts)).start_s[1] == 9000
