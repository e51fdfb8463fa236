"""Hints that are wrong on purpose: each in the way that its name says, and the same every time."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.knowledge import WRONG, estimates_named, is_wrong
from schedmate.simulator import Estimates
from schedmate.simulator.wrong_hints import (
    MIRROR_S,
    TENANTS,
    Constant,
    Noisy,
    OneLies,
    OwnedBy,
    Owners,
    Reversed,
    liar_among,
)


def record(number: int, runtime_s: float = 100.0, **more: object) -> JobRecord:
    return JobRecord(f"j{number}", float(number), runtime_s, 1, **more)  # type: ignore[arg-type]


def said_s(estimates: Estimates, of: JobRecord) -> float:
    hints = estimates.job(of).hints
    assert hints is not None and hints.expected_s is not None and hints.expected_s == hints.high_s
    return hints.expected_s


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_noise_is_log_normal_around_the_truth(sigma: float) -> None:
    noisy = Noisy(sigma)
    logs = np.log([said_s(noisy, record(i)) / 100.0 for i in range(4000)])
    assert abs(logs.mean()) < 4 * sigma / math.sqrt(4000)
    assert logs.std() == pytest.approx(sigma, rel=0.05)


def test_noise_is_that_of_the_job_in_whatever_order_they_come_and_another_one_for_another_seed() -> None:
    jobs = [record(i) for i in range(20)]
    forth, back = Noisy(seed=3), Noisy(seed=3)
    assert [said_s(forth, job) for job in jobs] == [said_s(back, job) for job in reversed(jobs)][::-1]
    assert said_s(Noisy(seed=3), jobs[0]) != said_s(Noisy(seed=4), jobs[0])
    assert said_s(Noisy(0.0), jobs[0]) == 100.0


@given(st.lists(st.floats(1.0, 1e7), min_size=2, max_size=20))
def test_reversed_hints_have_the_opposite_order(runtimes: list[float]) -> None:
    found = [said_s(Reversed(), record(i, runtime_s)) for i, runtime_s in enumerate(runtimes)]
    assert [said * true_s for said, true_s in zip(found, runtimes, strict=True)] == pytest.approx(
        [MIRROR_S**2] * len(runtimes)
    )


def test_a_constant_is_the_same_of_all() -> None:
    assert {said_s(Constant(), record(i, 10.0 * i)) for i in range(5)} == {3600.0}
    assert {said_s(estimates_named("one-minute"), record(i, 10.0 * i)) for i in range(5)} == {60.0}


def test_wrong_hints_leave_the_limit_of_the_trace() -> None:
    asked = record(1, 100.0, requested_s=500.0)
    for name in WRONG:
        job = estimates_named(name, [asked]).job(asked)
        assert job.limit_s == 500.0
        assert job.hints is not None and job.hints.confidence >= 0.9


def test_owners_are_those_that_the_trace_names_else_drawn_by_seed() -> None:
    owners = Owners(7)
    assert owners.of(record(1, tenant="lab", user="ann")) == "lab"
    assert owners.of(record(1, user="ann")) == "ann"
    drawn = Counter(owners.of(record(i)) for i in range(4000))
    assert len(drawn) == TENANTS
    assert min(drawn.values()) > 0.8 * 4000 / TENANTS
    assert [owners.of(record(i)) for i in range(50)] != [Owners(8).of(record(i)) for i in range(50)]


def test_one_lies_and_the_others_tell_the_truth() -> None:
    jobs, owners = [record(i, 100.0 + i) for i in range(200)], Owners(2)
    liar = liar_among(jobs, owners, 2)
    one_lies = OneLies(liar, owners)
    for job in jobs:
        assert said_s(one_lies, job) == (60.0 if owners.of(job) == liar else job.duration_s)
    assert {job.hints.source for job in map(one_lies.job, jobs) if job.hints is not None} == {"user"}


def test_who_has_more_jobs_is_likelier_to_be_the_liar() -> None:
    jobs = [record(i, user="big" if i % 10 else "small") for i in range(100)]
    drawn = Counter(liar_among(jobs, Owners(), seed) for seed in range(200))
    assert drawn["big"] > 3 * drawn["small"] > 0
    assert liar_among([], Owners()) == ""


def test_owned_jobs_have_their_owner_as_account() -> None:
    assert OwnedBy(Reversed(), Owners()).job(record(1, user="ann")).account == "ann"


@pytest.mark.parametrize("name", [*WRONG, "noisy:0", "noisy:0.5", "noisy:2"])
def test_each_name_is_known_to_be_wrong(name: str) -> None:
    assert is_wrong(name) and not estimates_named(name, [record(1)]).learns


@pytest.mark.parametrize("name", ["", "noise", "noisy:", "noisy:x", "noisy:-1", "noisy:nan", "noisy:99", "reversed:2"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="give"):
        estimates_named(name)


@pytest.mark.parametrize("sigma", [-1.0, math.inf, math.nan])
def test_a_deviation_that_can_not_be_is_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="standard deviation"):
        Noisy(sigma)
