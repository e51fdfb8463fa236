"""Loads, intervals over replicates, and the bounded data that pictures are drawn from."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Perfect, Requested, simulate
from schedmate.simulator.detail import detail, held
from schedmate.simulator.estimates import Noted
from schedmate.simulator.headline import HEADLINES, headline
from schedmate.simulator.intervals import Interval, paired_ratio
from schedmate.simulator.load import at_load

JOBS = [
    JobRecord(
        str(i), 1.6e9 + 50.0 * i, 300.0 + 90 * (i % 7), (1, 2, 8, 4, 16)[i % 5], user=f"u{i % 20}", requested_s=9e3
    )
    for i in range(200)
]
CLUSTER = ClusterSpec.uniform(5, 4)


def test_load_scales_the_times_between_submissions() -> None:
    faster = at_load(JOBS, 2.0)
    assert [job.submit_s for job in faster] == pytest.approx([1.6e9 + 25.0 * i for i in range(200)])
    assert [job.duration_s for job in faster] == [job.duration_s for job in JOBS]


def test_intervals_are_those_of_student() -> None:
    interval = Interval.of([1.0, 2.0, 3.0, 4.0])
    assert (interval.mean, interval.n) == (2.5, 4)
    assert (interval.low, interval.high) == pytest.approx((2.5 - 2.0541, 2.5 + 2.0541), abs=1e-3)
    assert Interval.of([7.0]) == Interval(7.0, None, None, 1)
    assert paired_ratio([2.0, 6.0], [1.0, 2.0]) == Interval.of([2.0, 3.0])
    assert paired_ratio([1.0], [0.0]) is None and paired_ratio([], []) is None


_STAY = st.tuples(st.floats(0, 100), st.floats(0, 100), st.integers(1, 9)).map(lambda t: (min(t[:2]), max(t[:2]), t[2]))


@settings(deadline=None)
@given(st.lists(_STAY, max_size=12), st.floats(0, 50), st.floats(51, 120), st.integers(1, 9))
def test_what_is_held_in_a_stretch_is_its_integral(
    stays: list[tuple[float, float, int]], low: float, high: float, parts: int
) -> None:
    edges = np.linspace(low, high, parts + 1)
    columns = np.array(stays, dtype=float).reshape(-1, 3).T
    found = held(*columns, edges)
    for at, mean in enumerate(found):
        a, b = edges[at], edges[at + 1]
        expected = sum(amount * max(0.0, min(b, until) - max(a, since)) for since, until, amount in stays) / (b - a)
        assert mean == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("policy", ["fifo", "easy", "core"])
def test_the_map_of_nodes_adds_up_to_the_utilisation(policy: str) -> None:
    noted = Noted(Requested())
    result = simulate(JOBS, CLUSTER, policy, noted, keep_placements=True)
    found = detail(result, noted.told)
    json.dumps(found, allow_nan=False)
    rows = np.array(found["occupancy"][0]["percent"])
    assert rows.shape == (5, 200)
    assert rows.mean(axis=0) / 100 == pytest.approx(np.array(found["gar"]), abs=0.006)
    assert sum(row["gpu_s"] for row in found["owners"]["rows"]) == pytest.approx(result.gar.integral() * 20)
    assert sum(row["jobs"] for row in found["owners"]["rows"]) == 200
    assert found["owners"]["count"] == 20 and found["owners"]["rows"][-1]["owner"] == "4 others"
    assert 0 < found["owners"]["jain_index"] <= 1
    assert found["predicted"]["jobs"] == 200 and found["predicted"]["within_high"] is None
    assert found["waiting_cdf"]["all"]["wait_s"][-1] == pytest.approx(result.waiting_s.max(), abs=1e-3)


def test_noting_changes_nothing_and_headlines_are_those_of_the_summary() -> None:
    plain, noted = simulate(JOBS, CLUSTER, "kant"), simulate(JOBS, CLUSTER, "kant", Noted(Perfect()))
    assert headline(plain) == headline(noted)
    assert headline(plain).keys() == HEADLINES.keys()
    summary = plain.summary()
    assert headline(plain)["queueing_p99_s"] == summary["queueing_s"]["p99"]
    assert headline(plain)["gfr"] == summary["gfr"]["mean"]
