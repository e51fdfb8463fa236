"""The numbers of a trace, against small ones that are worked out by hand and slow ones that are plainly right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.ports import TraceNotes
from schedmate.repeats import SAME_ID
from schedmate.trace_summary import collect, summarise
from schedmate.trace_summary.load import load_of
from schedmate.trace_summary.summary import gini

JOBS = [
    JobRecord("a", 0, 3600, 1, start_s=100, user="ann", state="completed", requested_s=7200, eligible_s=40),
    JobRecord("b", 10, 7200, 8, start_s=10, user="bob", state="failed", requested_s=7200, attempts=3),
    JobRecord("c", 20, 600, 4, start_s=620, user="ann", state="completed", gpu_milli=500, gpu_type="a100"),
    JobRecord("d", 30, None, 2, user="ann", state="pending"),
    JobRecord("a", 40, 60, 0, start_s=45, user="cy", state="completed"),
]


def test_by_hand() -> None:
    told = summarise(collect(JOBS), TraceNotes(rows=5, remarks={SAME_ID: 1}))
    assert told["jobs"] == 5 and told["repeated_ids"] == 1
    assert told["gpu_hours"] == pytest.approx(1 + 16 + 2 * 600 / 3600)
    assert {name: part["jobs"] for name, part in told["sizes"].items() if part["jobs"]} == {
        "0": 1, "1": 1, "2-4": 2, "5-8": 1,
    }  # fmt: skip
    assert told["waiting_s"]["all"]["max"] == 600 and told["waiting_s"]["by_size"]["1"]["mean"] == 100
    assert told["waiting_s"]["held_before_eligible"]["mean"] == 40
    assert told["requested"]["used_share"]["max"] == 1 and told["requested"]["different_limits"] == 1
    assert [owner["name"] for owner in told["users"]["busiest"]] == ["bob", "ann", "cy"]
    assert told["states"]["completed"]["jobs"] == 3 and next(iter(told["states"])) == "completed"
    assert told["attempts"] == {"jobs_started_again": 1, "most": 3}
    assert told["at_the_end"] == {"running": 0, "suspended": 0, "pending": 1}
    assert told["clock"]["first_submit"] is None and told["clock"]["in_order"]


def test_what_is_missing_is_told_with_what_needs_it() -> None:
    missing = {each["field"]: each for each in summarise(collect(JOBS), TraceNotes())["missing"]}
    assert "user" not in missing and "state" not in missing
    assert missing["requested_s"]["share"] == 0.4 and "--estimates requested" in missing["requested_s"]["rules_out"]
    assert missing["gpu_type"]["share"] == 0.25  # of those that ask for GPUs


@pytest.mark.parametrize(
    ("first_s", "epoch_s", "expected"),
    [
        (0.0, 1_000_000_000.0, "2001-09-09T01:46:40+00:00"),
        (1_000_000_000.0, None, "2001-09-09T01:46:40+00:00"),
        (1_000_000_000.0, 0.0, "2001-09-09T01:46:40+00:00"),
        (5.0, None, None),
        (1e13, None, None),
    ],
)
def test_dates(first_s: float, epoch_s: float | None, expected: str | None) -> None:
    jobs = collect([JobRecord("a", first_s, 1, 1)])
    assert summarise(jobs, TraceNotes(epoch_s=epoch_s))["clock"]["first_submit"] == expected


def test_a_trace_of_nothing_but_waiting_jobs() -> None:
    told = summarise(collect([JobRecord("a", 0, None, 2, state="pending")]), TraceNotes())
    assert told["load"] is None and told["waiting_s"] is None and told["duration_s"]["mean"] is None


RUNS = st.lists(
    st.builds(
        lambda start, ran, gpus: JobRecord("x", 0, float(ran), gpus, start_s=float(start)),
        st.integers(0, 50),
        st.integers(1, 40),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(jobs=RUNS)
def test_load_is_that_of_every_second(jobs: list[JobRecord]) -> None:
    load = load_of(collect(jobs))
    assert load is not None
    used = [sum(j.gpus for j in jobs if j.start_s <= t < j.start_s + j.duration_s) for t in range(91)]  # type: ignore[operator]
    seconds = used[int(load.begin_s) : int(load.end_s)]
    assert load.peak == max(seconds)
    assert load.mean == pytest.approx(sum(seconds) / len(seconds))
    assert float(load.gpus.mean()) == pytest.approx(load.mean)


@given(values=st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_gini_is_the_mean_difference_over_twice_the_mean(values: list[float]) -> None:
    array = np.array(values)
    found = gini(array)
    if array.sum() <= 0:
        assert found is None
        return
    slow = np.abs(array[:, None] - array[None, :]).mean() / (2 * array.mean())
    assert found == pytest.approx(slow, abs=1e-9)


def test_gpu_hours_are_one_thing_everywhere() -> None:
    """Two jobs still run, one has no recorded start: load, owners and states add up to the same GPU hours."""
    jobs = [
        JobRecord("a", 0, 3600, 2, start_s=0, end_s=3600, user="ann", state="completed"),
        JobRecord("b", 0, None, 4, start_s=1800, user="bob", state="running"),
        JobRecord("c", 600, 1800, 1, user="ann", state="completed"),
        JobRecord("d", 7200, None, 1, user="cy", state="pending"),
        JobRecord("e", 0, None, 1, start_s=3600, user="cy", state="suspended", gpu_milli=500),
    ]
    collected = collect(jobs)
    told, load = summarise(collected, TraceNotes(rows=5)), load_of(collected)
    assert told["gpu_hours"] == pytest.approx(2 + 4 * 1.5 + 0.5 + 0.5)
    assert load is not None and load.mean * (load.end_s - load.begin_s) / 3600 == pytest.approx(told["gpu_hours"])
    assert sum(owner["gpu_hours"] for owner in told["users"]["busiest"]) == pytest.approx(told["gpu_hours"])
    assert sum(part["share_of_gpu_hours"] for part in told["states"].values()) == pytest.approx(1)
    assert told["states"]["running"]["share_of_gpu_hours"] == pytest.approx(6 / 9)
