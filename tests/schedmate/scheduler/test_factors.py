"""Multifactor priority: its factors by hand, and EASY where they say nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import POLICIES, ClusterSpec, Job, Policy, Scheduler
from schedmate.scheduler.factors import NO_STANDING, Accounts, Factors, Standing
from schedmate.simulator import simulate

ONE = ClusterSpec.uniform(1, 8)
WEEK_S = 7 * 24 * 3600.0


def with_weights(**weights: float) -> Policy:
    nothing = {"age": 0.0, "fair_share": 0.0, "size": 0.0}
    return replace(POLICIES["multifactor"], factors=Factors(**{**nothing, **weights}))  # type: ignore[arg-type]


def row(name: str, submit_s: float, runtime_s: float, gpus: int, user: str = "u") -> JobRecord:
    return JobRecord(name, submit_s, runtime_s, gpus, user=user)


def starts(records: list[JobRecord], policy: Policy) -> dict[str, float]:
    found = simulate(records, ONE, policy)
    return dict(zip(found.job_ids, found.start_s.tolist(), strict=True))


def test_the_sum_of_the_page_of_slurm() -> None:
    factors = Factors(1000.0, 10_000.0, 2000.0, 500.0, max_age_s=WEEK_S, top_qos=4)
    job = Job("j", 16, 100.0, account="a", priority=3)
    standing = Standing(0.0, {"a": 0.25})
    expected = 1000 * 0.5 + 10_000 * 0.25 + 2000 * 16 / 64 + 500 * 3 / 4
    assert factors.priority(job, standing, 64, 100.0 + WEEK_S / 2) == pytest.approx(expected)
    assert factors.priority(job, standing, 64, 100.0 + 3 * WEEK_S) == pytest.approx(expected + 500)
    assert factors.priority(replace(job, account="new", priority=0), NO_STANDING, 64, 100.0) == 10_000 + 500


def test_use_fades_and_what_is_held_counts_meanwhile() -> None:
    """By a plain sum over seconds, each of which counts half as much after the half-life."""
    accounts = Accounts(half_life_s=100.0)
    accounts.charge("a", 4, 0.0)
    accounts.charge("a", -4, 50.0)
    accounts.charge("b", 2, 20.0)
    plain = {
        "a": sum(4 * 0.5 ** ((130.0 - second - 0.5) / 100.0) for second in range(50)),
        "b": sum(2 * 0.5 ** ((130.0 - second - 0.5) / 100.0) for second in range(20, 130)),
    }
    assert {name: accounts._gpu_s(use, 130.0) for name, use in accounts.uses.items()} == pytest.approx(plain, rel=1e-4)
    assert accounts.standing(130.0).by_account == {"a": 1.0, "b": 0.5}


def test_equal_use_is_equal_standing() -> None:
    accounts = Accounts(half_life_s=100.0)
    for name in ("a", "b", "c"):
        accounts.charge(name, 1 + (name == "c"), 0.0)
    assert accounts.standing(10.0).by_account == {"a": 1.0, "b": 1.0, "c": pytest.approx(1 / 3)}


def test_who_has_used_less_goes_first() -> None:
    records = [row("had", 0, 400, 8, "a"), row("a1", 1, 10, 8, "a"), row("b1", 2, 10, 8, "b")]
    assert starts(records, with_weights(age=1.0)) == {"had": 0, "a1": 400, "b1": 410}
    assert starts(records, with_weights(fair_share=1.0)) == {"had": 0, "a1": 410, "b1": 400}


def test_what_was_used_while_jobs_waited_counts_at_the_next_period() -> None:
    """Both accounts are new when a1 and b1 come; then b runs for longer, and falls behind at the end of a period."""
    records = [
        row("a0", 0, 10, 4, "a"), row("b0", 0, 1000, 4, "b"), row("b1", 1, 10, 8, "b"), row("a1", 2, 10, 8, "a"),
    ]  # fmt: skip
    assert starts(records, with_weights(age=1.0))["b1"] == 1000
    found = starts(records, with_weights(fair_share=1.0))
    assert (found["a1"], found["b1"]) == (1000, 1010)


def test_size_counts_for_a_job() -> None:
    records = [row("running", 0, 100, 8), row("small", 1, 10, 4), row("large", 2, 10, 8)]
    assert starts(records, with_weights(size=1.0)) == {"running": 0, "large": 100, "small": 110}


def test_priorities_are_worked_out_though_nothing_else_happens() -> None:
    """b1 is the head while b has used nothing; after a period of 60 s it has, and what a1 asks for fits."""
    policy = with_weights(fair_share=1.0, period_s=60.0)
    records = [row("b0", 0, 1000, 6, "b"), row("b1", 1, 1000, 8, "b"), row("a1", 2, 5000, 2, "a")]
    began = starts(records, policy)
    assert began["a1"] == 60
    assert began["b1"] == 60 + 5000


def test_backfill_does_not_delay_the_first() -> None:
    records = [row("running", 0, 100, 6, "a"), row("head", 1, 10, 8, "b"), row("short", 2, 50, 2, "c"),
               row("long", 60, 500, 2, "d")]  # fmt: skip
    assert starts(records, POLICIES["multifactor"]) == {"running": 0, "head": 100, "short": 2, "long": 110}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8), st.integers(1, 30)), min_size=1, max_size=12),
    st.sampled_from([1.0, 7.0, 300.0]),
)
def test_by_age_alone_it_is_easy(jobs: list[tuple[int, int, int]], period_s: float) -> None:
    records = [row(f"j{i}", float(s), float(run), gpus) for i, (s, gpus, run) in enumerate(sorted(jobs))]
    assert starts(records, with_weights(age=1.0, period_s=period_s)) == starts(records, POLICIES["easy"])


def test_a_class_is_looked_at_where_it_has_a_weight() -> None:
    scheduler = Scheduler(ONE, with_weights(qos=1.0))
    low, high = (scheduler.submit(Job(f"q{q}", 8, 0.0, 10.0, priority=q)) for q in (0, 1))
    assert scheduler.cycle(0.0) == [high]
    scheduler.end(high, 10.0)
    assert scheduler.cycle(10.0) == [low]


@pytest.mark.parametrize("wrong", [{"age": -1.0}, {"period_s": 0.0}, {"half_life_s": math.inf}, {"top_qos": 0}])
def test_factors_that_can_not_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weight below 0"):
        Factors(**wrong)  # type: ignore[arg-type]
