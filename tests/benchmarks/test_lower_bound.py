"""The bound: below every schedule, and what it is made of done again in the plainest way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from benchmarks.lower_bound import Jobs, Prices, best_bound_s, bound_s, used_gpus
from schedmate.scheduler import POLICIES, ClusterSpec
from schedmate.simulator import simulate

GPUS = 4
_JOB = st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, GPUS))
_JOBS = st.lists(_JOB, min_size=1, max_size=12)
_PRICES = st.lists(st.floats(0, 2), min_size=1, max_size=12)


def jobs_of(rows: list[tuple[int, int, int]]) -> Jobs:
    return Jobs(*np.array(rows, dtype=float).T)


@settings(deadline=None)
@given(_JOBS, _PRICES, st.sampled_from([5.0, 7.5]))
def test_each_job_picks_the_cheapest_start_there_is(
    rows: list[tuple[int, int, int]], per_s: list[float], step_s: float
) -> None:
    """Against a start at every quarter of a second, between which nothing can be cheaper."""
    jobs, prices = jobs_of(rows), Prices(0.0, step_s, np.array(per_s))
    chosen = prices.cheapest(jobs)
    for i, (submit_s, run_s, gpus) in enumerate(rows):
        at_s = submit_s + np.arange(0, 4 * 200) / 4
        costs = at_s - submit_s + gpus * (prices.until(at_s + run_s) - prices.until(at_s))
        assert chosen.cost_s[i] == pytest.approx(costs.min(), abs=1e-6)
        own = chosen.start_s[i]
        own_cost = own - submit_s + gpus * (prices.until(own + run_s) - prices.until(own))
        assert own >= submit_s and own_cost == pytest.approx(chosen.cost_s[i], abs=1e-6)


@settings(deadline=None, max_examples=50)
@given(_JOBS, _PRICES, st.sampled_from(sorted(POLICIES)))
def test_no_policy_without_eviction_goes_below_it(
    rows: list[tuple[int, int, int]], per_s: list[float], policy: str
) -> None:
    """Whatever the prices, good or bad, and with those that it finds itself."""
    if POLICIES[policy].ranking is not None:
        return
    rows.sort()
    records = [JobRecord(str(i), s, r, g, user="u", requested_s=r) for i, (s, r, g) in enumerate(rows)]
    result = simulate(records, ClusterSpec.uniform(1, GPUS), policy)
    mean_s, jobs = float(result.waiting_s.mean()), jobs_of(rows)
    assert bound_s(jobs, Prices(0.0, 10.0, np.array(per_s)), GPUS)[0] <= mean_s + 1e-6
    assert best_bound_s(jobs, GPUS, float(result.end_s.max()), 5.0, 60) <= mean_s + 1e-6


def test_it_is_the_truth_where_jobs_can_only_run_one_after_the_other() -> None:
    """Ten jobs of the whole cluster at once wait 0, 10, ... 90 s; the search for prices ends a little below."""
    jobs = jobs_of([(0, 10, GPUS)] * 10)
    assert 43.0 < best_bound_s(jobs, GPUS, 100.0, 10.0, 1000) <= 45.0


def test_without_a_queue_it_is_nothing() -> None:
    assert best_bound_s(jobs_of([(0, 10, 1), (1, 10, 2)]), GPUS, 11.0, 5.0, 50) == 0.0


def test_gpus_in_use_by_hand() -> None:
    jobs = jobs_of([(0, 15, 2), (0, 5, 1)])
    used = used_gpus(jobs, np.array([0.0, 12.5]), Prices(0.0, 10.0, np.zeros(2)))
    assert used.tolist() == pytest.approx([2.0, (2 * 5 + 5) / 10])
