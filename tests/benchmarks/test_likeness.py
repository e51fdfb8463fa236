"""Ways to tell which jobs are alike: by a text, by signs, and what those that are found say."""

from __future__ import annotations

import pytest

from analyzers.types import JobRecord
from benchmarks.likeness import Both, Likeness, Newest, Signs, Vectors, n_grams, say_s, walk


def job(name: str, submit_s: float, duration_s: float, user: str = "u") -> JobRecord:
    return JobRecord(
        job_id=f"{name}@{submit_s}", submit_s=submit_s, start_s=submit_s, duration_s=duration_s, gpus=1, user=user,
        name=name, command=f"python {name}.py --epochs 3",
    )  # fmt: skip


JOBS = [job("resnet" if n % 2 else "llama", 1000.0 * n, 100.0 if n % 2 else 900.0, f"u{n % 3}") for n in range(40)]


@pytest.mark.parametrize("way", ["signs", "n-grams", "both"])
def test_jobs_of_the_same_text_are_found(way: str) -> None:
    embed = n_grams(JOBS)
    likeness: Likeness = {"signs": Signs(), "n-grams": Vectors(embed), "both": Both(embed)}[way]
    logs = [log for log, _, _ in walk(JOBS, likeness, 3)]
    assert max(logs[5:]) < 0.01


def test_what_is_not_told_apart_is_told_wrong() -> None:
    for likeness in (Newest(by_user=False), Newest(by_user=True)):
        assert max(log for log, _, _ in walk(JOBS, likeness, 3)) > 2.0


def test_nothing_is_looked_up_before_it_has_ended() -> None:
    long = [job("a", float(n), 1e6) for n in range(5)]
    assert not list(walk(long, Newest(by_user=False), 3))


def test_the_middle_is_weighted() -> None:
    said = [(job("a", 0, 10.0), 0.1), (job("b", 0, 20.0), 0.1), (job("c", 0, 500.0), 0.9)]
    assert say_s(said) == 500.0
    assert say_s([(job("a", 0, 10.0), 0.0)]) is None
