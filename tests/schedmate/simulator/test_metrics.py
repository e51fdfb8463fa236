"""Each metric on a case small enough to work out by hand (docs/metrics.md shows the working)."""

from __future__ import annotations

import numpy as np
import pytest

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec, PoolSpec
from schedmate.simulator import Result, Steps, simulate
from schedmate.simulator.headline import headline
from schedmate.simulator.metrics import Distribution, bounded_slowdown, jtted, least_nodes, waiting_by_size


@pytest.fixture(scope="module")
def result() -> Result:
    """Two nodes of 4 GPUs: a (6 GPUs, 0-10), b (4 GPUs, asked at 2, waits for a whole node until 10, runs to 30)."""
    jobs = [JobRecord("a", 0.0, 10.0, 6), JobRecord("b", 2.0, 20.0, 4), JobRecord("c", 4.0, 1.0, 1)]
    return simulate(jobs, ClusterSpec.uniform(2, 4), "fifo", keep_placements=True)


def test_starts_and_ends(result: Result) -> None:
    assert result.start_s.tolist() == [0, 10, 10]
    assert result.end_s.tolist() == [10, 30, 11]
    assert [result.placement(i).shares for i in range(3)] == [((0, 4), (1, 2)), ((0, 4),), ((1, 1),)]


def test_jct_queueing_and_slowdown(result: Result) -> None:
    summary = result.summary()
    assert result.jct_s.tolist() == [10, 28, 7]
    assert result.waiting_s.tolist() == [0, 8, 6]
    assert summary["jct_s"]["mean"] == 15
    assert summary["queueing_s"]["mean"] == pytest.approx(14 / 3)
    assert summary["queueing_s"]["p50"] == 6
    assert summary["queueing_s"]["p99"] == pytest.approx(6 + 0.98 * 2)
    # 10/10, 28/20, and 7 over 10 because a runtime of 1 counts as 10, then at least 1
    assert summary["bounded_slowdown"]["mean"] == pytest.approx((1 + 1.4 + 1) / 3)
    assert summary["makespan_s"] == 30


def test_gar_and_sor(result: Result) -> None:
    # 6 of 8 for 10 s, 5 of 8 for 1 s, 4 of 8 for 19 s
    assert result.gar.integral() == pytest.approx((60 + 5 + 76) / 8)
    assert result.summary()["sor"] == pytest.approx(141 / 240)
    # until the last submission, at 4: 6 of 8 all the time
    assert result.summary()["sor_while_arriving"] == pytest.approx(0.75)


def test_gfr(result: Result) -> None:
    # node 1 holds 2 of 4 for 10 s, then 1 of 4 for 1 s, then nothing; node 0 is whole all the time
    assert result.summary()["gfr"]["mean"] == pytest.approx((10 + 1) / (2 * 30))


@pytest.mark.parametrize(("pools", "has_one"), [((1, 8), False), ((8, 1), False), ((2, 2), True)])
def test_fragmentation_has_no_meaning_without_several_nodes_of_several_gpus(
    pools: tuple[int, int], has_one: bool
) -> None:
    result = simulate([JobRecord("a", 0, 10, 1)], ClusterSpec.uniform(*pools))
    assert (result.summary()["gfr"]["mean"] is not None) == ("gfr" in headline(result)) == has_one


def test_jwtd_by_size() -> None:
    gpus = np.array([1, 2, 4, 5, 8, 9, 64, 65, 512, 513.0])
    found = waiting_by_size(gpus, np.arange(10.0))
    counts = {name: count for name, (count, _) in found.items()}
    assert counts == {"1": 1, "2-4": 2, "5-8": 2, "9-64": 2, "65-512": 2, ">512": 1}
    assert found["2-4"][1] == Distribution(1.5, 1.5, pytest.approx(1.9), pytest.approx(1.99), 2.0)
    assert waiting_by_size(gpus[:0], gpus[:0])["1"] == (0, Distribution(None, None, None, None, None))


def test_jtted_counts_nodes_beyond_the_fewest() -> None:
    gpus, pool = np.array([8.0, 9, 3]), np.array([0, 0, 1])
    least = least_nodes(gpus, [8, 2], pool)
    assert least.tolist() == [1, 2, 2]
    # one node more than one doubles the nodes and costs 114.8/98.0 - 1 (Jeon et al. 2019); none more costs nothing
    assert jtted(np.array([2.0, 2, 3]), least) == pytest.approx([114.8 / 98.0, 1.0, 1 + (114.8 / 98.0 - 1) / 2])


def test_bounded_slowdown_is_at_least_one() -> None:
    assert bounded_slowdown(np.array([5.0, 100, 40]), np.array([5.0, 1, 20])).tolist() == [1.0, 10.0, 2.0]


def test_a_step_function_resampled_keeps_its_integral() -> None:
    steps = Steps(np.array([0.0, 1, 4, 10]), np.array([2.0, 0, 5, 9]))
    assert steps.integral() == 2 + 0 + 30
    coarse = steps.resampled(5)
    assert coarse.times_s.tolist() == [0, 2, 4, 6, 8]
    assert coarse.values.tolist() == [1, 0, 5, 5, 5]
    assert steps.until(5).integral() == 2 + 5
    assert steps.until(99) is steps


def test_no_time_gives_no_mean() -> None:
    result = simulate([JobRecord("a", 5.0, 0.0, 1)], ClusterSpec((PoolSpec("p", 1, 1),)))
    assert result.summary()["sor"] is None
    assert result.summary()["jct_s"]["max"] == 0
