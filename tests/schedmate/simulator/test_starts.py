"""Estimates that want to know what runs are told so: each start, each stop, nothing of an end before it comes."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec, Job
from schedmate.simulator import Estimates, Preemptible, Restarts, SizeClasses, simulate
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.estimates import Noted
from schedmate.simulator.of_tenants import OfOwners


@dataclass
class Listening:
    """Hears of everything; says the requested time. ``heard``: (what, job, when)."""

    name: str = "listening"
    learns: bool = True
    heard: list[tuple[str, str, float]] = field(default_factory=list)

    def job(self, record: JobRecord) -> Job:
        self.heard.append(("asked", record.job_id, record.submit_s))
        return Job(record.job_id, record.gpus, record.submit_s, record.requested_s, record.requested_s)

    def started(self, record: JobRecord, at_s: float) -> None:
        assert record.duration_s is None and record.outcome is None and record.end_s is None
        self.heard.append(("started", record.job_id, at_s))

    def stopped(self, record: JobRecord, at_s: float) -> None:
        self.heard.append(("stopped", record.job_id, at_s))

    def ended(self, record: JobRecord) -> None:
        self.heard.append(("ended", record.job_id, record.end_s or 0.0))


def records(jobs: list[tuple[int, int, int]]) -> list[JobRecord]:
    found, at_s = [], 0.0
    for number, (gap_s, runtime_s, gpus) in enumerate(jobs):
        at_s += gap_s
        found.append(JobRecord(f"j{number}", at_s, float(runtime_s), gpus, requested_s=3.0 * runtime_s, user="u"))
    return found


workloads = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 400), st.integers(1, 8)), min_size=1, max_size=14)
EVICTING = Conditions(restarts=Restarts(checkpoint_s=20.0, restart_s=2.0), size_classes=True)


@settings(max_examples=60, deadline=None)
@given(workloads, st.booleans())
def test_starts_stops_and_ends_are_told_in_turn(jobs: list[tuple[int, int, int]], evicting: bool) -> None:
    listening = Listening()
    result = simulate(
        records(jobs), ClusterSpec.uniform(1, 8), "core", listening, conditions=EVICTING if evicting else Conditions()
    )
    times = [at_s for what, _, at_s in listening.heard]
    assert times == sorted(times)
    for number in range(len(jobs)):
        told = [what for what, job_id, _ in listening.heard if job_id == f"j{number}"]
        stops = told.count("stopped")
        assert told == ["asked", *["started", "stopped"] * stops, "started", "ended"]
    assert sum(what == "stopped" for what, _, _ in listening.heard) == result.evictions


def test_an_evicted_job_is_told_of_as_stopped() -> None:
    """A large job has the cluster when a small one of a better class comes."""
    listening = Listening()
    simulate(records([(0, 4_000, 8), (100, 60, 8)]), ClusterSpec.uniform(1, 8), "core", listening, conditions=EVICTING)
    told = [(what, job_id) for what, job_id, _ in listening.heard]
    assert told[:5] == [("asked", "j0"), ("started", "j0"), ("asked", "j1"), ("stopped", "j0"), ("started", "j1")]


def test_whatever_is_made_of_estimates_hands_the_starts_on() -> None:
    listening = Listening()
    around: Estimates = Noted(OfOwners(SizeClasses(Preemptible(listening))))
    simulate(records([(0, 50, 8)]), ClusterSpec.uniform(1, 8), "core", around)
    assert [what for what, _, _ in listening.heard] == ["asked", "started", "ended"]
