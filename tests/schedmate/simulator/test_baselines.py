"""Baseline policies on cases that can be checked by hand, and hints that are wrong on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.knowledge import uses_estimates, why_not
from schedmate.scheduler import POLICIES, ClusterSpec
from schedmate.scheduler.policies import DAY_S
from schedmate.simulator import Hostile, Predicted, simulate
from schedmate.simulator.estimates import HOSTILE_FACTOR

ONE = ClusterSpec.uniform(1, 8)
RUNNING = JobRecord("running", 0.0, 100.0, 6)
HEAD = JobRecord("head", 1.0, 10.0, 8)


def job(name: str, submit_s: float, runtime_s: float, gpus: int, user: str = "u") -> JobRecord:
    return JobRecord(name, submit_s, runtime_s, gpus, user=user, requested_s=runtime_s)


def starts(records: Sequence[JobRecord], policy: str) -> dict[str, float]:
    found = simulate(records, ONE, policy)
    return dict(zip(found.job_ids, found.start_s.tolist(), strict=True))


def skipping(jobs: Sequence[tuple[int, int, int]], gpus: int) -> list[float]:
    """FIFO that skips what does not fit, written a second time; jobs are (submit, gpus, runtime), in order."""
    started = [-1.0] * len(jobs)
    now = 0
    while min(started) < 0:
        free = gpus - sum(g for s, (_, g, run) in zip(started, jobs, strict=True) if s >= 0 and s <= now < s + run)
        for i, (submit, size, _) in enumerate(jobs):
            if started[i] < 0 and submit <= now and size <= free:
                started[i], free = float(now), free - size
        now += 1
    return started


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=14))
def test_best_effort_is_first_fit_in_order(jobs: list[tuple[int, int, int]]) -> None:
    ordered = sorted(jobs, key=lambda each: each[0])
    records = [JobRecord(f"j{i}", float(s), float(run), gpus) for i, (s, gpus, run) in enumerate(ordered)]
    result = simulate(records, ClusterSpec.uniform(1, 6), "best-effort")
    assert result.start_s.tolist() == skipping(ordered, 6)


def test_best_effort_starves_a_large_job_where_easy_does_not() -> None:
    small = [JobRecord(f"s{i}", 2.0 + 40 * i, 100.0, 2) for i in range(20)]
    records = [RUNNING, HEAD, *small]
    assert starts(records, "easy")["head"] == 100
    assert starts(records, "best-effort")["head"] == 2 + 40 * 19 + 100


def test_smallest_gpu_time_first_and_nobody_is_passed_for_longer_than_a_day() -> None:
    records = [job("running", 0, 100, 8), job("wide", 1, 10, 8), job("long", 2, 50, 1), job("short", 3, 5, 4)]
    assert starts(records, "saf") == {"running": 0, "short": 100, "long": 100, "wide": 150}
    stream = [job(f"s{i}", 600.0 * i, 1000, 4) for i in range(int(3 * DAY_S / 600))]
    records = sorted([*stream, job("large", 1, 1000, 8)], key=lambda each: each.submit_s)
    assert DAY_S < starts(records, "saf")["large"] <= DAY_S + 1 + 2000
    assert starts(records, "best-effort")["large"] > 2 * DAY_S


@dataclass(frozen=True)
class Said:
    p50: float
    p90: float


class LastOfUser:
    """Predicts what the user's last ended job took, an hour where there is none."""

    def __init__(self) -> None:
        self._last_s: dict[str | None, float] = {}

    def quantiles(self, record: JobRecord) -> Said:
        seconds = self._last_s.get(record.user, 3600.0)
        return Said(seconds, seconds)

    def observe(self, record: JobRecord) -> None:
        self._last_s[record.user] = record.duration_s or 0.0


def test_qssf_goes_by_what_the_ended_jobs_of_the_user_took() -> None:
    """Whose jobs were short goes first, though this time its job is long; a blocked head lets nobody pass."""
    records = [
        job("a0", 0, 10, 4, "a"), job("b0", 0, 100, 4, "b"), job("filler", 100, 50, 6, "c"),
        job("b1", 101, 1, 4, "b"), job("a1", 102, 500, 8, "a"), job("b2", 103, 1, 1, "b"),
    ]  # fmt: skip
    found = simulate([replace(each, requested_s=None) for each in records], ONE, "qssf", Predicted(LastOfUser()))
    began = dict(zip(found.job_ids, found.start_s.tolist(), strict=True))
    # Predicted GPU seconds: a1 80, b1 400, b2 100: a1 is the head from 102 on.
    assert began == {
        "a0": 0,
        "b0": 0,
        "filler": 100,
        "a1": 150,
        "b2": 650,
        "b1": 650,
    }


@pytest.mark.parametrize("policy", ["qssf", "multifactor"])
def test_without_users_there_are_no_figures(policy: str) -> None:
    assert why_not(POLICIES[policy], "perfect", [RUNNING, HEAD]) == "the trace does not say whose its jobs are"
    assert why_not(POLICIES[policy], "perfect", [RUNNING, replace(HEAD, user="u")]) is None


def test_skipping_knows_nothing_of_runtimes() -> None:
    assert not any(uses_estimates(POLICIES[name]) for name in ("best-effort", "tiresias"))
    assert all(uses_estimates(POLICIES[name]) for name in ("saf", "qssf", "multifactor", "srtf", "easy", "core"))


RUNTIMES = st.lists(st.integers(1, 100_000), min_size=1, max_size=60)


@given(RUNTIMES, st.integers(0, 5))
def test_hostile_hints_are_the_same_for_a_seed_and_wrong_in_the_ways_that_are_stated(
    runtimes: list[int], seed: int
) -> None:
    records = [JobRecord(f"j{i}", float(i), float(runtime), 1) for i, runtime in enumerate(runtimes)]
    one, two = ([known.job(each) for each in records] for known in (Hostile(seed), Hostile(seed)))
    assert one == two
    for i, (told, true_s) in enumerate(zip(one, runtimes, strict=True)):
        assert told.estimate_s is not None
        mirrored_s = min(runtimes[: i + 1]) * max(runtimes[: i + 1]) / true_s
        ways = (mirrored_s, true_s * HOSTILE_FACTOR, true_s / HOSTILE_FACTOR)
        assert any(told.estimate_s == pytest.approx(each) for each in ways)


def test_a_hostile_limit_is_that_of_the_trace() -> None:
    told = Hostile().job(JobRecord("a", 0.0, 50.0, 1, requested_s=80.0))
    assert (told.limit_s, told.hints is not None and told.hints.source) == (80.0, "hostile")
    assert Hostile().job(JobRecord("a", 0.0, 50.0, 1)).limit_s is None


@pytest.mark.parametrize("policy", ["kant", "core", "saf"])
def test_hostile_hints_make_nobody_wait_without_end(policy: str) -> None:
    """A stream of jobs that could pass for ever: kant's grace is a day at most, as is the bound of saf. Then the
    running jobs (1,000 s) end, and whoever is due in the meantime goes first."""
    stream = [job(f"s{i}", 600.0 * i, 1000, 4) for i in range(int(3 * DAY_S / 600))]
    records = sorted([*stream, job("large", 1, 1000, 8)], key=lambda each: each.submit_s)
    for seed in range(5):
        found = simulate(records, ONE, policy, Hostile(seed))
        assert found.start_s[found.job_ids.index("large")] <= 1.1 * DAY_S
