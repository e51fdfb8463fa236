"""Policies with a ranking, against a second implementation and by hand."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from schedmate.scheduler import POLICIES, ClusterSpec, Job, Policy, Scheduler, Tenant
from schedmate.scheduler.ranking import Ranking, attained, remaining
from schedmate.simulator import Perfect, Preemptible, Restarts, Result, simulate

LEVELS = (12.0, 36.0)


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = _beside("ranked_oracle")

#: The policy, and the same rank in the oracle.
RANKS = {
    "srtf": (POLICIES["srtf"], oracle.remaining),
    "srsf": (POLICIES["srsf"], oracle.remaining_area),
    "tiresias": (replace(POLICIES["tiresias"], ranking=Ranking(attained, LEVELS)), oracle.levels(12, 36)),
}


def played(asked: list[tuple[int, int, int]], policy: Policy, restarts: Restarts, gpus: int = 6) -> Result:
    records = [JobRecord(f"j{i}", float(s), float(run), size) for i, (s, size, run) in enumerate(asked)]
    return simulate(
        records, ClusterSpec.uniform(1, gpus), policy, Preemptible(Perfect(), restarts), keep_placements=True
    )


# Sizes that divide the levels, so that these are reached at whole seconds.
JOBS = st.lists(
    st.tuples(st.integers(0, 15), st.sampled_from([1, 2, 3, 4, 6]), st.integers(1, 25)), min_size=1, max_size=9
)


@pytest.mark.parametrize("name", sorted(RANKS))
@settings(max_examples=400, deadline=None)
@given(asked=JOBS.map(sorted), checkpoint_s=st.sampled_from([None, 1, 3]), restart_s=st.sampled_from([0, 2]))
def test_every_run_is_that_of_a_plain_loop(
    name: str, asked: list[tuple[int, int, int]], checkpoint_s: int | None, restart_s: int
) -> None:
    policy, rank = RANKS[name]
    jobs = oracle.play(asked, 6, rank, checkpoint_s, restart_s)
    result = played(asked, policy, Restarts(checkpoint_s, 0.0, restart_s))
    starts: dict[int, list[float]] = {i: [] for i in range(len(asked))}
    for stay in result.stays():
        starts[stay.job].append(stay.from_s)
    assert starts == {job.number: job.starts_s for job in jobs}
    assert result.end_s.tolist() == [job.end_s for job in jobs]
    assert result.evictions == sum(job.evictions for job in jobs)


SAVES = Restarts(checkpoint_s=10.0, restart_s=2.0)


def test_a_shorter_job_takes_the_place_of_the_longest() -> None:
    """At 25 the long job has saved 20 of its 100 s; it starts again at 30, stands for 2 s and works for 80."""
    result = played([(0, 3, 100), (0, 3, 50), (25, 3, 5)], POLICIES["srtf"], SAVES)
    assert result.end_s.tolist() == [30.0 + 2 + 80, 50.0, 30.0]
    assert (result.evictions, result.lost_gpu_s, result.restart_gpu_s) == (1, 3 * 5.0, 3 * 2.0)


def test_a_margin_leaves_alone_what_is_not_much_longer() -> None:
    asked = [(0, 6, 100), (1, 6, 60)]
    assert played(asked, POLICIES["srtf"], SAVES).evictions == 1
    twice = replace(POLICIES["srtf"], ranking=Ranking(remaining, margin=2.0))
    assert played(asked, twice, SAVES).evictions == 0
    assert played([(0, 6, 100), (1, 6, 40)], twice, SAVES).evictions == 1


def test_a_level_that_is_reached_while_nothing_else_happens_frees_the_place() -> None:
    """The first job has had 3250 GPU s at 541.67 s: then it makes room, though nothing else happens then."""
    result = played([(0, 6, 2000), (100, 6, 10)], POLICIES["tiresias"], Restarts(checkpoint_s=1.0, restart_s=0.0))
    assert result.start_s[1] == pytest.approx(3250 / 6)


def test_no_more_make_room_than_are_needed() -> None:
    """The two longest are looked at first, but the third one alone is enough."""
    result = played([(0, 1, 90), (0, 1, 80), (0, 4, 70), (5, 4, 10)], POLICIES["srtf"], SAVES)
    assert [result.job_ids[stay.job] for stay in result.stays() if stay.until_s == 5] == ["j2"]


def test_who_may_not_be_evicted_stays() -> None:
    records = [JobRecord("long", 0.0, 100.0, 6), JobRecord("short", 1.0, 1.0, 6)]
    scheduler = Scheduler(ClusterSpec.uniform(1, 6), POLICIES["srtf"])
    slots = [scheduler.submit(Job(r.job_id, r.gpus, r.submit_s, r.duration_s)) for r in records]
    assert scheduler.cycle(1.0) == slots[1:]
    assert scheduler.cycle(1.5) == []
    scheduler.end(slots[1], 2.0)
    assert scheduler.cycle(2.0) == slots[:1]
    scheduler.submit(Job("shorter", 6, 3.0, 1.0))
    assert (scheduler.cycle(3.0), scheduler.evicted) == ([], ())


def test_a_placement_is_found_and_not_only_a_count() -> None:
    """Of two nodes of 4, each with a job of 3: for a gang of 4 within one node, the longer one alone makes room."""
    records = [JobRecord("a", 0.0, 100.0, 3), JobRecord("b", 0.0, 90.0, 3), JobRecord("c", 1.0, 5.0, 4)]
    result = simulate(records, ClusterSpec.uniform(2, 4), "srtf", Preemptible(Perfect(), SAVES), keep_placements=True)
    assert result.evictions == 1
    assert len(result.placement(2).nodes) == 1


@pytest.mark.parametrize("levels", [(0.0,), (5.0, 5.0), (7.0, 3.0), (float("inf"),)])
def test_levels_that_can_not_be_are_refused(levels: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="levels"):
        Ranking(attained, levels)


def test_a_ranking_plans_nothing_and_knows_no_tenants() -> None:
    with pytest.raises(ValueError, match="plans nothing"):
        replace(POLICIES["core"], ranking=Ranking(remaining))
    with pytest.raises(ValueError, match="knows no tenants"):
        Scheduler(ClusterSpec.uniform(1), POLICIES["tiresias"], (Tenant("a"),))
