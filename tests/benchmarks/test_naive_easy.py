"""The plain loop of the benchmark gives the starts of the core, or its figure means nothing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.types import JobRecord
from benchmarks.million import Mix
from benchmarks.naive_easy import naive
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Requested, simulate


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_both_start_every_job_at_the_same_time(data: st.DataObject, nodes: int, capacity: int) -> None:
    row = st.tuples(st.integers(0, 12), st.integers(1, nodes * capacity), st.integers(1, 9))
    rows = sorted(data.draw(st.lists(row, min_size=1, max_size=14)), key=lambda each: each[0])
    jobs = [JobRecord(f"j{i}", float(s), float(run), gpus) for i, (s, gpus, run) in enumerate(rows)]
    assert naive(jobs, nodes, capacity) == simulate(jobs, ClusterSpec.uniform(nodes, capacity), "easy").start_s.tolist()


def test_the_mix_offers_the_load_that_was_asked_for() -> None:
    mix = Mix(40_000, gpus=800, load=0.5, seed=3)
    records = list(mix.records())
    offered = sum(record.gpus * (record.duration_s or 0.0) for record in records)
    assert 0.4 < offered / (records[-1].submit_s * 800) < 0.6
    assert records == list(mix.records())
    assert all((record.requested_s or 0.0) >= (record.duration_s or 0.0) for record in records)


def test_a_replay_of_the_mix_is_played_to_its_end() -> None:
    result = simulate(Mix(500, gpus=800, load=0.7).records(), ClusterSpec.uniform(100), "core", Requested())
    assert len(result.job_ids) == 500
