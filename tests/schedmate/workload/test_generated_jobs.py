"""The generator: the same seed gives the same workload, and it looks like the published figures."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import chain, islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import FACT_NAMES
from prompts.errors import UserError
from schedmate.workload import ClusterSpec, SemanticGenerator, WorkloadSpec
from schedmate.workload.memory import needed_mib
from schedmate.workload.params import parameters, physics, profile_named
from schedmate.workload.physics import step_of, steps_of
from schedmate.workload.rng import Hand, spread_pair, stream
from schedmate.workload.sessions import Draft, sessions

SEEDS = (1, 2, 3, 11)


def _drafts(spec: WorkloadSpec) -> list[Draft]:
    """The first jobs of a spec, before they are placed in time."""
    return list(islice(chain.from_iterable(sessions(spec)), spec.jobs))


@pytest.mark.parametrize("seed", SEEDS)
def test_same_seed_same_jobs_other_seed_other_jobs(seed: int) -> None:
    spec = WorkloadSpec(seed=seed, jobs=120)
    one, two = list(SemanticGenerator(spec).jobs()), list(SemanticGenerator(spec).jobs())
    assert one == two
    other = SemanticGenerator(replace(spec, seed=seed + 1)).jobs()
    assert [job.ask for job in one] != [job.ask for job in other]


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    jobs=st.integers(1, 90),
    users=st.integers(1, 200),
    profile=st.sampled_from(["philly", "helios", "acme"]),
    nodes=st.integers(1, 40),
)
def test_every_job_is_possible(seed: int, jobs: int, users: int, profile: str, nodes: int) -> None:
    cluster = ClusterSpec(nodes=nodes)
    spec = WorkloadSpec(seed=seed, jobs=jobs, users=users, profile=profile, cluster=cluster)
    made = list(SemanticGenerator(spec).jobs())
    assert len(made) == len({job.ask.job_id for job in made}) == jobs
    submits = [job.ask.submit_s for job in made]
    assert submits == sorted(submits) and submits[0] >= 0
    for job in made:
        ask, truth, hyper = job.ask, job.truth, job.recipe.hyper
        assert 1 <= ask.gpus <= cluster.gpus and ask.nodes == -(-ask.gpus // 8) and ask.gpus % ask.nodes == 0
        assert 0 < truth.duration_s <= ask.limit_s
        assert 0 <= truth.steps_done <= truth.steps_planned
        assert truth.step_s > 0 and truth.startup_s > 0
        assert 0 <= truth.mean_gpu_utilization <= 1 and 0 <= truth.communication_share < 1
        assert 0 <= truth.peak_gpu_memory_mib <= cluster.gpu_memory_mib and truth.peak_host_memory_mib > 0
        assert (truth.peak_gpu_memory_mib == 0) == (truth.failure == "config")  # died before it got there
        assert (truth.failure is not None) == (truth.outcome == "failed")
        assert (truth.duration_s == ask.limit_s) == (truth.outcome == "timeout")
        assert set(truth.facts) <= set(FACT_NAMES)
        assert json.loads(json.dumps(dict(truth.facts))) == dict(truth.facts)
        if truth.kind != "evaluation":
            assert truth.steps_planned == steps_of(job.recipe.project, hyper)[0]
        if truth.outcome == "completed" and not truth.stopped_early:
            assert truth.steps_done == truth.steps_planned
            assert truth.duration_s >= truth.steps_planned * truth.step_s
        if truth.stopped_early:
            assert truth.steps_per_epoch and truth.steps_done % truth.steps_per_epoch == 0
            assert "early_stopping" in job.recipe.project.quirks and truth.outcome == "completed"


def test_only_what_runs_out_of_memory_needs_more_than_there_is() -> None:
    cluster, outs = ClusterSpec(), 0
    for job in SemanticGenerator(WorkloadSpec(seed=4, jobs=900)).jobs():
        if job.truth.kind == "evaluation":
            continue
        out = job.truth.failure == "cuda_oom"
        outs += out
        assert (needed_mib(job.recipe.project, job.recipe.hyper) > cluster.gpu_memory_mib) == out
    assert outs > 10


def test_load_or_days_are_what_was_asked_for() -> None:
    generator = SemanticGenerator(WorkloadSpec(seed=5, load=0.8))
    gpu_s = sum(job.ask.gpus * job.truth.duration_s for job in generator.jobs())
    assert gpu_s / (generator.spec.cluster.gpus * generator.span_s()) == pytest.approx(0.8)
    generator = SemanticGenerator(WorkloadSpec(seed=5, days=3))
    first_tries = [job.ask.submit_s for job in generator.jobs() if job.recipe.offset_s == 0]
    assert generator.span_s() == 3 * 86_400
    assert 2.8 * 86_400 < max(first_tries) <= 3 * 86_400


@pytest.mark.parametrize("profile", ["philly", "helios", "acme"])
def test_outcomes_meet_the_published_shares(profile: str) -> None:
    """Shares over all jobs lie within three standard errors of those in the parameter file, whatever the sessions."""
    made = _drafts(WorkloadSpec(seed=8, jobs=3000, users=60, profile=profile))
    counts = Counter(draft.end.outcome for draft in made)
    for outcome, share in profile_named(profile).outcomes.items():
        assert abs(counts[outcome] / len(made) - share) < 3 * math.sqrt(share * (1 - share) / len(made)), outcome


def test_causes_meet_the_published_order() -> None:
    made = _drafts(WorkloadSpec(seed=9, jobs=6000, users=60))
    counts = Counter(draft.end.failure for draft in made if draft.end.failure)
    total = counts.total()
    for cause, share in parameters()["failures"].items():
        if cause in parameters()["needs_several_nodes"]:
            assert 0 < counts[cause] / total <= share * 1.2  # drawn only where there are several nodes
        else:
            assert abs(counts[cause] / total - share) < 3 * math.sqrt(share * (1 - share) / total) + 0.01, cause


def test_sizes_meet_the_published_shares() -> None:
    """Of projects, over many seeds: how often each is launched differs by user."""
    counts: Counter[int] = Counter()
    for seed in range(30):
        projects = {
            draft.project.name + draft.project.user.name: draft.project.gpus
            for drafts in islice(sessions(WorkloadSpec(seed=seed, users=40)), 150)
            for draft in drafts
            if draft.kind != "evaluation"
        }
        counts.update(projects.values())
    for gpus, share in profile_named("philly").gpus.items():
        assert counts[gpus] / counts.total() == pytest.approx(share, abs=0.02), gpus


def test_debugging_fails_more_than_evaluation_and_large_jobs_run_longer() -> None:
    made = _drafts(WorkloadSpec(seed=6, jobs=4000, users=80))

    def failed(kind: str) -> float:
        return float(np.mean([draft.end.outcome == "failed" for draft in made if draft.kind == kind]))

    assert failed("debug") > 1.3 * failed("single") > 1.3 * failed("evaluation")
    lengths = {
        wide: np.median([d.end.duration_s for d in made if d.kind == "single" and (d.project.gpus > 4) == wide])
        for wide in (False, True)
    }
    assert lengths[True] > lengths[False]
    asked = np.array([draft.limit_s / draft.end.duration_s for draft in made])
    assert np.median(asked) > 2, "users ask for severalfold what they need"


def test_submissions_follow_the_hours_of_the_day() -> None:
    hours = np.zeros(24)
    for seed in range(12):
        for job in SemanticGenerator(WorkloadSpec(seed=seed, jobs=150, days=10)).jobs():
            hours[int(job.ask.submit_s // 3600) % 24] += 1
    assert hours[9:18].mean() > 1.8 * hours[0:6].mean()


def test_users_resubmit_what_failed_and_change_it_where_that_helps() -> None:
    retried = 0
    for drafts in islice(sessions(WorkloadSpec(seed=3)), 600):
        for before, after in pairwise(drafts):
            if before.kind != "single" or before.end.outcome != "failed":
                continue
            retried += 1
            assert after.offset_s > before.offset_s + before.end.duration_s
            if before.end.failure == "cuda_oom":
                assert after.hyper.batch < before.hyper.batch and after.project.version == before.project.version
            elif before.end.failure in parameters()["hardware"]:
                assert after.project == before.project and after.overrides == before.overrides
            else:
                assert after.project.version == before.project.version + 1
    assert retried > 30


def test_a_step_by_hand() -> None:
    """The slower of arithmetic and input, a launch overhead, and half of a ring all-reduce over the slowest link."""
    cluster, seen = ClusterSpec(), 0
    for job in SemanticGenerator(WorkloadSpec(seed=4, jobs=200)).jobs():
        project, hyper = job.recipe.project, job.recipe.hyper
        if project.style.shards_state or project.gpus == 1 or project.quirks & {"compile"}:
            continue
        row = physics()["models"][project.model.name]
        peak = 0.5 if project.precision == "fp32" else 1.0
        reached = min(0.62, peak * row["median"] * project.efficiency * hyper.batch / (hyper.batch + row["half_batch"]))
        samples = hyper.batch * hyper.accum
        compute_s = samples * project.model.train_flops / (312e12 * reached)
        slower_s = max(compute_s, samples * project.input_s_per_sample)
        overhead_s = physics()["frame_s"][project.style.framework] * hyper.accum
        link = 200e9 if project.nodes == 1 else 18e9
        wait_s = 0.5 * 2 * (project.gpus - 1) / project.gpus * 2 * project.model.params / link
        wait_s += 2e-5 * math.log2(project.gpus)
        step = step_of(project, hyper, cluster)
        assert slower_s + overhead_s + wait_s <= step.seconds * 1.000001
        assert step.seconds <= slower_s * 2**0.25 + overhead_s + wait_s + 1e-9
        assert step.communication_share == pytest.approx(wait_s / step.seconds)
        seen += 1
    assert seen > 30


def test_hand_keeps_the_shares_whatever_is_preferred() -> None:
    hand = Hand(stream(0, "t"), {"a": 0.6, "b": 0.3, "c": 0.1})
    drawn = Counter(hand.draw({"c": 9.0} if i % 2 else {"a": 3.0}) for i in range(4000))
    assert drawn["a"] / 4000 == pytest.approx(0.6, abs=0.02) and drawn["c"] / 4000 == pytest.approx(0.1, abs=0.02)
    assert all(hand.draw({"a": 0.0, "b": 0.0}) == "c" for _ in range(50))


def test_spread_points_fill_the_square() -> None:
    points = np.array([spread_pair(3, index) for index in range(64)])
    counts, _, _ = np.histogram2d(points[:, 0], points[:, 1], bins=4, range=[[0, 1], [0, 1]])
    assert counts.min() >= 2 and counts.max() <= 6


def test_unknown_profile_is_a_clear_error() -> None:
    with pytest.raises(UserError, match="not known"):
        profile_named("mars")
