"""The second generator's jobs: published shares, one truth, physics that adds up, trees that know nothing of it."""

from __future__ import annotations

import ast
import json
import subprocess
import tomllib
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from itertools import islice, pairwise

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.workload import ClusterSpec, Generated, WorkloadSpec
from schedmate.workload_independent import IndependentGenerator
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.endings import Intent
from schedmate.workload_independent.physics import Costs, Machines
from schedmate.workload_independent.settings import Draft, Setting
from schedmate.workload_independent.styles import CHORES, STYLES
from schedmate.workload_independent.tables import tables
from schedmate.workload_independent.timeline import course, steps_of

SPEC = WorkloadSpec(seed=5, jobs=600, users=80)
GENERATOR = IndependentGenerator(SPEC)
JOBS = list(GENERATOR.jobs())
TREES = {job.ask.tree: GENERATOR.tree(job) for job in JOBS}


def test_the_same_spec_gives_the_same_jobs_trees_and_logs() -> None:
    again = IndependentGenerator(SPEC)
    for first, second in zip(JOBS, again.jobs(), strict=True):
        assert (first.ask, first.truth) == (second.ask, second.truth)
    for job in JOBS[::25]:
        assert GENERATOR.tree(job) == again.tree(job)
        first_logs, second_logs = (made.logs(job, 60.0, ("a",) * job.ask.nodes)[0] for made in (GENERATOR, again))
        assert [("".join(log.pieces), log.name) for log in first_logs] == [
            ("".join(log.pieces), log.name) for log in second_logs
        ]


def test_another_seed_gives_other_jobs() -> None:
    other = list(IndependentGenerator(replace(SPEC, seed=6)).jobs())
    assert [job.truth.duration_s for job in other] != [job.truth.duration_s for job in JOBS]


def test_jobs_come_in_order_numbered_and_as_many_as_asked() -> None:
    assert len(JOBS) == SPEC.jobs == len({job.ask.job_id for job in JOBS})
    assert all(a.ask.submit_s <= b.ask.submit_s for a, b in pairwise(JOBS))
    offered = GENERATOR.span_s() * SPEC.cluster.gpus
    assert sum(job.ask.gpus * job.truth.duration_s for job in JOBS) / offered == pytest.approx(SPEC.load)


def test_at_least_ten_styles_and_all_of_them_are_used() -> None:
    used = Counter(job.truth.style for job in IndependentGenerator(replace(SPEC, jobs=2_000, users=400)).jobs())
    assert set(used) == set(STYLES) | set(CHORES) and len(STYLES) >= 10


@pytest.mark.parametrize("profile", ["philly", "helios", "acme"])
def test_ends_come_out_as_published(profile: str) -> None:
    jobs = list(IndependentGenerator(WorkloadSpec(seed=9, jobs=3_000, users=150, profile=profile)).jobs())
    seen = Counter(job.truth.outcome for job in jobs)
    published = tables().ends(profile)
    assert sum(published.values()) == pytest.approx(1)
    assert seen["completed"] / len(jobs) == pytest.approx(published["completed"], abs=0.02)
    assert seen["cancelled"] / len(jobs) == pytest.approx(published["cancelled"], abs=0.015)
    assert (seen["failed"] + seen["timeout"]) / len(jobs) == pytest.approx(published["failed"], abs=0.015)


def test_first_tries_fail_most_and_failures_are_tried_again() -> None:
    jobs = list(IndependentGenerator(replace(SPEC, jobs=2_500)).jobs())
    bad = defaultdict(list)
    for job in jobs:
        bad[job.truth.kind].append(job.truth.outcome == "failed")
    rate = {kind: sum(rows) / len(rows) for kind, rows in bad.items()}
    assert rate["debug"] > 1.5 * rate["sweep"]
    follows = Counter(job.ask.tree.rstrip("abcdefghijklmnopqrstuvwxyz") for job in jobs)
    failed = [job for job in jobs if job.truth.outcome == "failed"]
    again = sum(follows[job.ask.tree.rstrip("abcdefghijklmnopqrstuvwxyz")] > 1 for job in failed)
    assert again / len(failed) > 0.5


def test_a_few_users_hand_in_most() -> None:
    by_user = Counter(job.ask.user for job in JOBS).most_common()
    assert sum(count for _, count in by_user[: len(by_user) // 5]) > 0.5 * len(JOBS)


def test_jobs_of_one_tree_agree_on_its_files() -> None:
    for job in JOBS:
        assert GENERATOR.tree(job) == TREES[job.ask.tree]


def test_every_file_parses() -> None:
    scripts: set[str] = set()
    for name, tree in TREES.items():
        for path, text in tree.items():
            where = f"{name}/{path}"
            if path.endswith(".py"):
                compile(text, where, "exec", flags=ast.PyCF_ONLY_AST)
            elif path.endswith((".yaml", ".yml")):
                assert isinstance(yaml.safe_load(text), dict), where
            elif path.endswith(".toml"):
                tomllib.loads(text)
            elif path.endswith((".json", ".ipynb")):
                json.loads(text)
            elif path.endswith((".sh", ".sbatch")):
                scripts.add(text)
    shapes = {"".join(char for char in text if not char.isdigit()): text for text in scripts}
    for text in list(shapes.values())[:40]:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, (done.stderr, text)


def test_every_tree_says_that_it_is_synthetic() -> None:
    assert all("Synthetic" in tree[".synthetic"] for tree in TREES.values())


def test_no_truth_gets_into_a_tree_or_a_submission() -> None:
    for job in JOBS:
        truth = job.truth
        blind = replace(job, truth=replace(truth, duration_s=1.0, outcome="failed", failure=None, step_s=9.9, facts={}))
        assert GENERATOR.tree(blind) == TREES[job.ask.tree]
        secret = {str(truth.step_s), str(truth.startup_s), str(truth.failure)} - {"None"}
        if truth.duration_s != int(truth.duration_s):
            secret.add(str(truth.duration_s))
        text = "\n".join(TREES[job.ask.tree].values()) + json.dumps(asdict(job.ask))
        assert not [word for word in secret if word in text], (job.ask, secret)


def test_jobs_that_run_out_of_memory_ask_for_too_much_and_others_do_not() -> None:
    machines = Machines(SPEC.cluster, SPEC.seed)
    seen = 0
    for job in IndependentGenerator(replace(SPEC, jobs=1_500)).jobs():
        draft: Draft = job.recipe
        if job.truth.style in CHORES:
            continue
        fits = machines.fits(draft.project, draft.run, 1.05)
        assert fits != (draft.cause == "gpu_oom" or job.truth.failure == "gpu_oom") or draft.run.batch == 1, job.ask
        seen += not fits
    assert seen > 10


def test_a_tighter_cluster_gets_no_wider_jobs_than_it_has() -> None:
    small = ClusterSpec(nodes=1)
    assert (
        max(job.ask.gpus for job in islice(IndependentGenerator(replace(SPEC, cluster=small)).jobs(), 400))
        <= small.gpus
    )


def test_true_paces_scatter_between_users_beyond_what_programs_tell() -> None:
    machines = [Machines(SPEC.cluster, seed) for seed in range(40)]
    job = next(job for job in JOBS if job.truth.style == "options")
    paces = [m.costs(job.recipe.project, job.recipe.run, Draw(1, "x")).step_s for m in machines]
    assert max(paces) > 1.3 * min(paces)


def _setting(**changed: object) -> Setting:
    plain = Setting(
        gpus=1, nodes=1, batch=32, accum=1, epochs=3, steps=None, rate=0.1, precision="fp32", workers=4, length=None,
        patience=None, seed=0,
    )  # fmt: skip
    return replace(plain, **changed)  # type: ignore[arg-type]


COSTS = st.builds(
    Costs,
    startup_s=st.floats(1, 300),
    step_s=st.floats(1e-3, 5),
    pause_s=st.floats(0, 100),
    busy=st.just(0.5),
    communication=st.just(0.0),
    gpu_memory_mib=st.just(1.0),
    host_memory_mib=st.just(1.0),
)
INTENTS = st.sampled_from(
    [Intent("completed"), Intent("cancelled")]
    + [Intent("failed", "x", at) for at in ("start", "first_steps", "first_epoch", "any")]
)


@settings(max_examples=200, deadline=None)
@given(
    costs=COSTS,
    intent=INTENTS,
    samples=st.integers(32, 50_000),
    seed=st.integers(0, 99),
    patience=st.sampled_from([None, 3]),
    epochs=st.integers(1, 60),
    limit_s=st.floats(60, 1e6),
)
def test_the_clock_adds_up(
    costs: Costs, intent: Intent, samples: int, seed: int, patience: int | None, epochs: int, limit_s: float
) -> None:
    run = _setting(epochs=epochs, patience=patience)
    steps, per_epoch = steps_of(run, samples)
    assert per_epoch and steps == per_epoch * epochs
    end = course(run, costs, steps, per_epoch, intent, limit_s, Draw(seed, "clock"))
    assert 0 <= end.steps_done <= steps and 1 <= end.duration_s <= max(1.0, limit_s + 0.06)
    # Never faster than start, steps and pauses that were done, and slower by one of them at most, beside the stalls.
    at_least = costs.startup_s + end.steps_done * costs.step_s + end.pauses_done * costs.pause_s + end.stalled_s
    if end.steps_done:
        assert at_least - 0.1 - 1e-3 * end.duration_s <= end.duration_s
        assert end.duration_s <= (at_least + costs.step_s + costs.pause_s + 5) * 1.02
    if end.outcome == "completed":
        assert end.duration_s == pytest.approx(max(1, at_least), abs=0.1, rel=1e-3)
        assert end.stopped_early == (end.steps_done < steps)
    if intent.outcome != "completed":
        assert end.outcome in (intent.outcome, "timeout")
    assert (end.outcome == "timeout") <= (end.duration_s == pytest.approx(limit_s, abs=0.06))


def _log(job: Generated[Draft]) -> str:
    logs, _ = GENERATOR.logs(job, 100.0, tuple(f"n{i}" for i in range(job.ask.nodes)))
    return "".join("".join(log.pieces) for log in logs)


def test_causes_stand_in_the_logs_and_only_there() -> None:
    seen = Counter[str]()
    for job in JOBS:
        logs, cause = GENERATOR.logs(job, 100.0, tuple(f"n{i}" for i in range(job.ask.nodes)))
        text = "".join("".join(log.pieces) for log in logs)
        if job.truth.outcome not in ("failed", "timeout"):
            assert cause is None and "Traceback" not in text.replace(
                "Traceback (most recent call last):\nKeyboardInterrupt", ""
            )
            continue
        assert cause and cause.lines and all(line in text for line in cause.lines), job.truth
        seen[cause.failure] += 1
    assert len(seen) >= 8


def test_logs_of_killed_jobs_are_cut() -> None:
    ends = ("train_runtime", "`max_epochs=", "100%|██████████| 11/11")
    for job in JOBS:
        if job.truth.outcome in ("failed", "timeout", "cancelled"):
            assert not any(end in _log(job) for end in ends), job.truth.style
    assert any(end in _log(job) for job in JOBS if job.truth.outcome == "completed" for end in ends)
