"""The most that any policy could do, by hand; the picture; a policy of the core on a short stream."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from benchmarks import bounds, gfr_picture, kant_like
from benchmarks.baselines.gang_cluster import Job

HOUR_S = 3600.0


def row(submit_s: float, gpus: int, duration_s: float) -> Job:
    return Job(submit_s, gpus, duration_s, limit_s=1e9, predicted_s=duration_s)


def test_work_that_exists() -> None:
    rows = [row(0.0, 4, 100.0), row(50.0, 2, 1000.0)]
    assert bounds.existing_gpu_s(rows, np.array([0.0, 50.0, 150.0])).tolist() == [0.0, 200.0, 600.0]


def test_no_policy_works_more_than_there_is_or_than_fits() -> None:
    rows = [row(0.0, 8, HOUR_S), row(HOUR_S, 8, HOUR_S)]
    assert bounds.most_gpu_s(rows, 16, 2 * HOUR_S, 0.0, 0.0) == pytest.approx(16 * HOUR_S), "what exists"
    # Only half of the first hour's work fits into the first hour; the second hour has to do with the same 4 GPUs.
    assert bounds.most_gpu_s(rows, 4, 2 * HOUR_S, 0.0, 0.0) == pytest.approx(8 * HOUR_S), "what the cluster has"
    # An idle first hour is lost for good, also if all of the second hour's capacity is used.
    late = [row(HOUR_S, 100, HOUR_S)]
    assert bounds.most_gpu_s(late, 16, 2 * HOUR_S, 0.0, 0.0) == pytest.approx(16 * HOUR_S)
    assert bounds.most_gpu_s(late, 16, 2 * HOUR_S, HOUR_S, 5.0) == pytest.approx(16 * HOUR_S + 5.0)


@pytest.fixture(scope="module")
def small_mix() -> dict[str, object]:
    """The mix on 20 nodes for a day and a half, without the gangs that are wider than that."""
    mix = copy.deepcopy(kant_like.load_mix())
    mix["cluster"] |= {"nodes": 20, "nodes_per_leaf": 5}
    mix["sizes"] = [size for size in mix["sizes"] if size["gpus"] <= 64]
    for size in mix["sizes"]:
        size["share"] *= 1.5
    mix["max_run_s"] = 20000
    mix["run"]["warm_up_days"] = 0.25
    return mix


def test_moves_leave_fewer_nodes_broken_and_what_they_lose_is_counted(small_mix: dict[str, object]) -> None:
    still = kant_like.run_one("core, all movable but unmoved", 1, small_mix, 1.5)
    moved = kant_like.run_one("core, moves, all movable", 1, small_mix, 1.5)
    assert still.moves == 0 < moved.moves
    assert moved.gfr < still.gfr
    lost = 100 * moved.moved_gpu_s / (1.25 * 86400 * 160)
    assert moved.goodput == pytest.approx(moved.sor - lost)
    assert 0 < lost < 2
    most = bounds.most_gpu_s(kant_like.jobs(1, small_mix, 1.5), 160, 1.5 * 86400, 0.0, 0.0)
    assert still.sor * 1.25 * 86400 * 160 / 100 <= most


def test_the_picture_shows_every_policy() -> None:
    drawn = gfr_picture.svg({"still": [1.0, 3.0], "moving": [0.0]}, 10, 1.0)
    texts = [text.text for text in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"still", "moving"} <= set(texts)
    averages = gfr_picture.averages([(0.0, 1), (43200.0, 3)], 1.0)
    assert [round(value, 6) for value in averages] == [1.0] * 6 + [3.0] * 6
