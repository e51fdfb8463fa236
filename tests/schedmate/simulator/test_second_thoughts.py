"""Estimates that learn are asked again about who still waits, seldom, and told nothing of how its run will end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec, Hints, Job
from schedmate.simulator import Estimates, Preemptible, SizeClasses, simulate
from schedmate.simulator.estimates import Noted
from schedmate.simulator.of_tenants import OfOwners
from schedmate.simulator.second_thoughts import GROWTH, LEAST

ONE = ClusterSpec.uniform(1, 8)


@dataclass
class Learning:
    """Says an hour of every job until ten have ended, from then on the time in its name, at which ``thinks`` again."""

    name: str = "learning"
    learns: bool = True
    ends: int = 0
    asked: list[tuple[int, str, float]] = field(default_factory=list)  # ended by then, job, when

    def job(self, record: JobRecord) -> Job:
        hints = self._hints(record)
        return Job(record.job_id, record.gpus, record.submit_s, hints.expected_s, None, hints=hints)

    def again(self, record: JobRecord, at_s: float) -> Hints | None:
        assert record.duration_s is None and record.outcome is None and record.start_s is None and record.end_s is None
        self.asked.append((self.ends, record.job_id, at_s))
        return self._hints(record)

    def ended(self, record: JobRecord) -> None:
        self.ends += 1

    def _hints(self, record: JobRecord) -> Hints:
        said_s = float(record.job_id.split("-")[1]) if self.ends >= LEAST else 3600.0
        return Hints(said_s, said_s, "learning")


class Silent(Learning):
    """Has nothing else to say."""

    def again(self, record: JobRecord, at_s: float) -> Hints | None:
        super().again(record, at_s)
        return None


def records(runtimes_s: Sequence[int], gap_s: float = 1.0) -> list[JobRecord]:
    return [JobRecord(f"{i}-{run_s}", i * gap_s, float(run_s), 8) for i, run_s in enumerate(runtimes_s)]


def test_who_waits_is_put_in_order_by_what_was_learned_since() -> None:
    """Forty jobs wait when the first ten have ended: long ones that came early let short ones pass from then on."""
    jobs = records([10] * 11 + [500, 20] * 20)
    thinking, silent = Learning(), Silent()
    again, once = (simulate(jobs, ONE, "core", each) for each in (thinking, silent))
    assert again.waiting_s.mean() < 0.75 * once.waiting_s.mean()
    assert thinking.asked and all(at_s > 0 for _, _, at_s in thinking.asked)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.sampled_from([0.0, 3.0, 40.0]))
def test_only_who_waits_is_asked_about_and_seldom(runtimes_s: list[int], gap_s: float) -> None:
    learning = Learning()
    result = simulate(records(runtimes_s, gap_s), ONE, "core", learning)
    starts = dict(zip(result.job_ids, result.start_s, strict=True))
    assert all(at_s <= starts[job] for _, job, at_s in learning.asked)
    looks = sorted({ended for ended, _, _ in learning.asked})
    assert all(later - last >= max(LEAST, int(GROWTH * last)) for last, later in zip([0, *looks], looks, strict=False))


def test_whatever_is_made_of_estimates_hands_the_question_on() -> None:
    learning = Learning()
    around: Estimates = Noted(OfOwners(SizeClasses(Preemptible(learning))))
    simulate(records([10] * 30), ONE, "core", around)
    assert learning.asked
