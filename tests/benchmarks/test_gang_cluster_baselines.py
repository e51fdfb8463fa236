"""The reference simulator of gangs: hand-computed GFR and SOR, queue rules, placements, consolidation."""

from __future__ import annotations

import random

import pytest

from benchmarks.baselines import lifetime, node_choice
from benchmarks.baselines.gang_cluster import Cluster, Job, Outcome, Simulation, no_moves

HOUR_S = 3600.0


def job(submit_s: float, gpus: int, run_s: float, limit_s: float | None = None, movable: bool = False) -> Job:
    return Job(submit_s, gpus, run_s, limit_s or run_s, run_s, movable)


def simulate(jobs: list[Job], queue: str, nodes: int = 2, until_s: float = 10 * HOUR_S) -> Outcome:
    simulation = Simulation(Cluster(nodes, 8, 32), node_choice.tight_best_fit, queue)
    return simulation.run(jobs, 0.0, until_s)


def test_gfr_and_sor_by_hand() -> None:
    # 2 nodes, 10 h. 4 GPUs for 5 h: one of two nodes partly used half the time; 20 of 160 GPU h.
    outcome = simulate([job(0, 4, 5 * HOUR_S)], "strict")
    assert outcome.gfr == pytest.approx(25.0)
    assert outcome.sor == pytest.approx(12.5)


def test_a_strict_queue_blocks_and_backfill_does_not() -> None:
    def blocked() -> list[Job]:
        return [job(0, 8, 4 * HOUR_S), job(1, 16, HOUR_S), job(2, 4, HOUR_S)]

    strict, easy = blocked(), blocked()
    simulate(strict, "strict")
    simulate(easy, "backfill")
    assert strict[2].start_s == pytest.approx(5 * HOUR_S)
    assert easy[2].start_s == pytest.approx(2)
    assert easy[1].start_s == strict[1].start_s == pytest.approx(4 * HOUR_S)


def test_backfill_never_delays_the_head_beyond_its_reservation() -> None:
    late = [job(0, 8, 4 * HOUR_S), job(1, 16, HOUR_S), job(2, 4, HOUR_S, limit_s=6 * HOUR_S)]
    simulate(late, "backfill")
    assert late[1].start_s == pytest.approx(4 * HOUR_S)
    assert late[2].start_s == pytest.approx(5 * HOUR_S)


def test_best_effort_lets_a_gang_wait() -> None:
    stream = [job(0, 8, 4 * HOUR_S), job(1, 16, HOUR_S), job(2, 4, 6 * HOUR_S)]
    simulate(stream, "best-effort")
    assert stream[1].start_s == pytest.approx(6 * HOUR_S + 2)


@pytest.mark.parametrize(("place", "node"), [(node_choice.tight_best_fit, 0), (node_choice.least_allocated, 2)])
def test_where_a_small_job_goes(place: object, node: int) -> None:
    cluster = Cluster(3, 8, 32)
    for target, gpus in ((0, 6), (1, 3)):
        cluster.start(job(0, gpus, HOUR_S), [target], 0.0)
    assert callable(place)
    assert place(cluster, job(0, 2, HOUR_S), 0.0, lambda n: True) == node


def test_least_extension_prefers_the_node_that_stays_used_anyway() -> None:
    cluster = Cluster(3, 8, 32)
    cluster.start(job(0, 6, HOUR_S), [0], 0.0)
    cluster.start(job(0, 2, 9 * HOUR_S), [1], 0.0)
    assert lifetime.least_extension(cluster, job(0, 2, 5 * HOUR_S), 0.0, lambda n: True) == 1
    assert lifetime.least_extension(cluster, job(0, 2, 0.5 * HOUR_S), 0.0, lambda n: True) == 0


def test_consolidation_frees_a_node_and_loses_nothing() -> None:
    cluster = Cluster(3, 8, 32)
    stay, move = job(0, 6, 9 * HOUR_S), job(0, 2, 9 * HOUR_S, movable=True)
    cluster.start(stay, [0], 0.0)
    cluster.start(move, [1], 0.0)
    assert lifetime.consolidate(0)(cluster, HOUR_S) == [(move, 0)]
    assert lifetime.consolidate(2)(cluster, HOUR_S) == []


def test_a_job_that_may_not_move_stays() -> None:
    cluster = Cluster(3, 8, 32)
    cluster.start(job(0, 6, 9 * HOUR_S), [0], 0.0)
    cluster.start(job(0, 2, 9 * HOUR_S), [1], 0.0)
    assert lifetime.consolidate(0)(cluster, HOUR_S) == []


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("queue", ["strict", "best-effort", "backfill"])
def test_random_streams_keep_the_books(seed: int, queue: str) -> None:
    rng = random.Random(seed)
    stream = []
    for i in range(300):
        run_s = rng.uniform(60, 4 * HOUR_S)
        gpus = rng.choice([1, 2, 3, 4, 8, 16, 64])
        stream.append(Job(60.0 * i, gpus, run_s, run_s * rng.uniform(1, 5), run_s * rng.uniform(0.3, 3), gpus < 8))
    moves = lifetime.consolidate(1) if queue == "backfill" else no_moves
    cluster = Cluster(16, 8, 4)
    outcome = Simulation(cluster, lifetime.least_extension, queue, consolidate=moves).run(stream, 0.0, 400 * HOUR_S)
    assert outcome.unstarted == 0
    assert cluster.allocated == 0
    assert cluster.free == [8] * 16
    assert len(cluster.free_nodes()) == 16
    assert not cluster.limit_end_s.any()
    used_gpu_s = sum(j.gpus * j.duration_s for j in stream)
    assert outcome.sor == pytest.approx(100 * used_gpu_s / (400 * HOUR_S * 128))
    assert (outcome.moves > 0) == (queue == "backfill")
