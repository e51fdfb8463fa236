"""The generator: the same seed gives the same workload, and it looks like the published figures."""

from __future__ import annotations

import ast
import json
from collections import Counter

import numpy as np
import pytest
import yaml

from schedmate.demo import params
from schedmate.demo.catalog import styles
from schedmate.demo.jobs import tree_name
from schedmate.demo.params import ClusterSpec, WorkloadSpec
from schedmate.demo.physics import gpu_memory_mib, step_seconds, steps_of
from schedmate.demo.projects import make_projects
from schedmate.demo.render import tree_files
from schedmate.demo.rng import Deck, stream
from schedmate.demo.sessions import make_workload

SEEDS = (1, 2, 3, 11)


@pytest.mark.parametrize("seed", SEEDS)
def test_same_seed_same_workload_other_seed_other_workload(seed: int) -> None:
    one, two = make_workload(WorkloadSpec(seed=seed)), make_workload(WorkloadSpec(seed=seed))
    assert one == two
    assert one.asks != make_workload(WorkloadSpec(seed=seed + 1)).asks


@pytest.mark.parametrize("seed", SEEDS)
def test_jobs_in_order_and_within_the_cluster(seed: int) -> None:
    work = make_workload(WorkloadSpec(seed=seed))
    submits = [ask.submit_s for ask in work.asks]
    assert len(work.asks) == 400 and submits == sorted(submits)
    assert len({ask.job_id for ask in work.asks}) == 400
    for ask in work.asks:
        truth = work.truth[ask.job_id]
        assert 1 <= ask.gpus <= 64 and ask.nodes == -(-ask.gpus // 8)
        assert 0 < truth.duration_s <= ask.limit_s
        assert (truth.failure is not None) == (truth.outcome == "failed")
        assert 0 <= truth.steps_done <= truth.steps_planned
        if truth.outcome == "timeout":
            assert truth.duration_s == ask.limit_s


def test_load_is_what_was_asked_for() -> None:
    spec = WorkloadSpec(seed=5, load=0.8)
    work = make_workload(spec)
    gpu_s = sum(ask.gpus * work.truth[ask.job_id].duration_s for ask in work.asks)
    assert gpu_s / (spec.cluster.gpus * work.span_s) == pytest.approx(0.8)


def test_outcomes_and_sizes_are_near_the_published_shares() -> None:
    """Philly: 69.3 % passed, 13.5 % killed, 17.2 % unsuccessful; Helios: more than half on one GPU."""
    outcomes: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    for seed in range(20):
        work = make_workload(WorkloadSpec(seed=seed))
        outcomes.update(truth.outcome for truth in work.truth.values())
        sizes.update(ask.gpus for ask in work.asks)
    total = sum(outcomes.values())
    assert outcomes["completed"] / total == pytest.approx(0.66, abs=0.05)
    assert outcomes["cancelled"] / total == pytest.approx(0.15, abs=0.04)
    assert (outcomes["failed"] + outcomes["timeout"]) / total == pytest.approx(0.19, abs=0.04)
    assert sizes[1] / total > 0.5
    assert sum(n for gpus, n in sizes.items() if gpus > 8) / total < 0.12


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cause_of_failure_that_can_occur_does(seed: int) -> None:
    work = make_workload(WorkloadSpec(seed=seed))
    found = {truth.failure for truth in work.truth.values()} - {None}
    assert found >= set(params.FAILURE_SHARE) - params.NEEDS_SEVERAL_NODES


@pytest.mark.parametrize("seed", SEEDS)
def test_every_tree_is_readable_source(seed: int) -> None:
    work = make_workload(WorkloadSpec(seed=seed))
    for project in work.trees.values():
        files = tree_files(project)
        assert files, project.name
        for path, text in files.items():
            assert "{{" not in text and "{%" not in text, path
            if path.suffix == ".py":
                ast.parse(text)
            elif path.suffix == ".json":
                json.loads(text)
            elif path.suffix == ".yaml":
                yaml.safe_load(text)


def test_all_styles_are_used_and_commands_name_files_that_exist() -> None:
    used = set()
    for seed in range(4):
        work = make_workload(WorkloadSpec(seed=seed))
        for ask in work.asks:
            used.add(ask.project.style.name)
            files = {path.as_posix() for path in tree_files(work.trees[tree_name(ask.project)])}
            named = [word for word in ask.command.split() if word.endswith((".py", ".sbatch", ".yaml", ".json"))]
            assert named and set(named) <= files, ask.command
    assert used == set(styles())


def test_overrides_stand_in_the_command() -> None:
    work = make_workload(WorkloadSpec(seed=2))
    changed = [ask for ask in work.asks if ask.overrides and set(ask.overrides) <= set(ask.project.style.overrides)]
    assert len(changed) > 50
    for ask in changed:
        for value in ask.overrides.values():
            assert value in ask.command


def test_physics_by_hand() -> None:
    """Steps from samples and batch; a step takes as long as the slower of arithmetic and input, plus communication."""
    cluster = ClusterSpec()
    for projects in make_projects(WorkloadSpec(seed=4)).values():
        for project in projects:
            hyper = project.hyper
            steps, per_epoch = steps_of(project, hyper)
            if hyper.epochs:
                assert per_epoch == max(1, project.samples // (hyper.batch * hyper.accum * project.gpus))
                assert steps == per_epoch * hyper.epochs
            seconds, share = step_seconds(project, hyper, cluster)
            samples = hyper.batch * hyper.accum
            compute_s = (
                samples * project.model.train_flops / (312e12 * min(0.62, project.model.mfu * project.efficiency))
            )
            assert seconds >= max(compute_s, samples * project.input_s_per_sample) * 0.9999
            assert share == pytest.approx(compute_s / seconds)
            assert 0 < gpu_memory_mib(project, hyper, cluster) <= cluster.gpu_memory_mib


def test_deck_deals_by_share_and_keeps_what_is_not_allowed() -> None:
    deck = Deck(stream(0, "t"), {"a": 0.6, "b": 0.3, "c": 0.1}, size=10)
    dealt = Counter(deck.deal({"a", "b", "c"}) for _ in range(100))
    assert dealt == {"a": 60, "b": 30, "c": 10}
    assert all(deck.deal({"b"}) == "b" for _ in range(7))


def test_submissions_follow_the_hours_of_the_day() -> None:
    hours = np.zeros(24)
    for seed in range(12):
        for ask in make_workload(WorkloadSpec(seed=seed)).asks:
            hours[int(ask.submit_s // 3600) % 24] += 1
    assert hours[9:18].mean() > 1.8 * hours[0:6].mean()
