"""Packing shared GPUs: what fits, FGD's measure by hand, kept equals recomputed, the tables, the draw."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks import openb
from benchmarks.baselines import packing
from benchmarks.baselines.candidates import (
    GPU_STEP_MILLI,
    Learner,
    expected_waste,
    pressure,
    remnant_table,
    stranding_table,
)
from benchmarks.baselines.fgd import Descent, States, TypicalPods, fgd, fgd_exact, fragmentation
from benchmarks.baselines.gpu_share import ClusterArrays, Pod, Policy, fits, tightest_devices

NODES = [(32_000, 100_000, 2, "A"), (64_000, 200_000, 4, "A"), (16_000, 50_000, 1, "B"), (96_000, 300_000, 8, "B")] * 3
PODS = [
    Pod(4_000, 8_000, 1, 300),
    Pod(4_000, 8_000, 1, 700),
    Pod(12_000, 16_000, 1, 1000),
    Pod(24_000, 30_000, 2, 1000, ("A",)),
    Pod(90_000, 90_000, 8, 1000),
    Pod(16_000, 20_000, 0, 0),
]
POLICIES = openb.policies()


def test_what_fits() -> None:
    cluster = ClusterArrays.of(NODES[:4])
    assert fits(cluster, PODS[3]).tolist() == [True, True, False, False]
    assert fits(cluster, PODS[4]).tolist() == [False, False, False, True]
    cluster.place(0, (0,), PODS[1])
    assert fits(cluster, PODS[3]).tolist() == [False, True, False, False]
    assert tightest_devices(cluster.gpu_free[0], PODS[0]) == (0,)


@pytest.mark.parametrize(
    ("node", "devices", "pod"),
    [
        (0, (0, 0), PODS[3]),
        (2, (0, 1), PODS[3]),
        (2, (1,), PODS[0]),
        (2, (0,), Pod(17_000, 1, 1, 100)),
        (0, (), PODS[0]),
    ],
)
def test_a_placement_that_is_not_there_is_refused(node: int, devices: tuple[int, ...], pod: Pod) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        ClusterArrays.of(NODES[:4]).place(node, devices, pod)


def test_fragmentation_by_hand() -> None:
    # 500 and 200 free and CPU for anything: a 300 pod cannot use the 200, a 700 pod none of it, nor a CPU pod.
    typical = TypicalPods.of([PODS[0], PODS[0], PODS[1], PODS[5]], ("A", "B"), share=1.0)
    states = States(np.array([64_000]), np.array([1]), np.array([[500, 200, 0]]), np.array([0]))
    assert fragmentation(typical)(states)[0] == pytest.approx(0.5 * 200 + 0.25 * 700 + 0.25 * 700)


def test_fragmentation_counts_missing_cpu_and_a_wrong_model() -> None:
    states = States(np.array([3_000]), np.array([1]), np.array([[1000, 1000]]), np.array([1]))
    only_cpu_missing = TypicalPods.of([PODS[0]], ("A", "B"), share=1.0)
    wrong_model = TypicalPods.of([Pod(1_000, 1, 1, 300, ("A",))], ("A", "B"), share=1.0)
    assert fragmentation(only_cpu_missing)(states)[0] == pytest.approx(2000)
    assert fragmentation(wrong_model)(states)[0] == pytest.approx(2000)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_only_places_what_fits_and_rejects_only_what_fits_nowhere(name: str) -> None:
    rng = random.Random(1)
    cluster = ClusterArrays.of(NODES)
    policy = POLICIES[name](1, PODS, cluster.model_names)
    rejected = 0
    for _ in range(200):
        pod = rng.choice(PODS)
        before = cluster.gpu_free.copy()
        found = policy(cluster, pod)
        assert (before == cluster.gpu_free).all()
        assert (found is None) == (not fits(cluster, pod).any())
        if found is not None:
            cluster.place(found[0], found[1], pod)
        rejected += found is None
    assert 0 < rejected < 200


@pytest.mark.parametrize("make", [fgd, fgd_exact, expected_waste])
def test_kept_growth_equals_growth_computed_anew(make: object) -> None:
    assert callable(make)
    rng = random.Random(2)
    cluster = ClusterArrays.of(NODES)
    kept: Descent = make(PODS, cluster.model_names)
    for _ in range(60):
        pod = rng.choice(PODS)
        found = kept(cluster, pod)
        assert found == Descent(kept.measure, kept.rank, kept.pull, kept.surcharge)(cluster, pod)
        if found is not None:
            cluster.place(found[0], found[1], pod)


def test_remnants_foresee_which_share_fills_a_device() -> None:
    typical = TypicalPods.of([PODS[0], PODS[1]], ("A",), share=1.0)
    table = remnant_table(typical, typical.frequency, hazard=1e-9)
    assert table[[20, 30, 60, 70]] == pytest.approx([200, 0, 0, 50], abs=1e-3)


def test_stranding_foresees_gpus_left_without_cpu() -> None:
    typical = TypicalPods.of([PODS[2]], ("A",), share=1.0)
    table = stranding_table(typical, typical.frequency, hazard=1e-9)
    assert table[24, 2000 // GPU_STEP_MILLI] == pytest.approx(1000, abs=1e-3)
    assert table[48, 2000 // GPU_STEP_MILLI] == pytest.approx(0, abs=1e-3)
    assert (np.diff(table, axis=0) <= 1e-9).all()


def test_pressure_is_higher_where_constrained_pods_must_go() -> None:
    typical = TypicalPods.of([PODS[2], PODS[3]], ("A", "B"), share=1.0)
    on_a, on_b = pressure(typical, np.array([10.0, 10.0]))
    assert on_a > on_b > 0
    assert pressure(TypicalPods.of([PODS[2]], ("A", "B"), share=1.0), np.array([10.0, 30.0])) == pytest.approx([1, 1])


def test_the_learner_knows_only_what_it_has_been_shown() -> None:
    shown: list[list[Pod]] = []

    def make(seen: list[Pod]) -> Policy:
        shown.append(list(seen))
        return packing.best_fit

    learner = Learner(make, first=4)
    cluster = ClusterArrays.of(NODES)
    for i in range(20):
        learner(cluster, PODS[i % 6])
    assert [len(seen) for seen in shown] == [4, 8, 16]
    assert shown[0] == PODS[:4]


def test_the_draw_reaches_its_target_and_repeats_for_a_seed() -> None:
    drawn = list(openb.draw(PODS, 7, 50_000))
    asked = [pod.total_gpu_milli for pod in drawn]
    assert sum(asked[:-1]) < 50_000 <= sum(asked)
    assert drawn == list(openb.draw(PODS, 7, 50_000)) != list(openb.draw(PODS, 8, 50_000))


def test_on_a_small_cluster_of_the_trace_ours_leaves_no_more_than_fgd(shared_data: Path) -> None:
    traces = shared_data / "traces"
    nodes, pods = openb.read_nodes(traces)[::8], openb.read_pods(traces / openb.POD_FILE)
    left = {
        name: np.mean([row.unallocated[1.3] for row in openb.measure(openb.policies()[name], nodes, pods, 2)])
        for name in ("random", "best-fit", "fgd", "expected waste")
    }
    assert left["random"] > left["best-fit"] > left["fgd"] >= left["expected waste"] > 0
