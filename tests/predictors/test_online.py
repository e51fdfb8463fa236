"""The predictor for replays: learns, never peeks, and beats its own ingredients on a real trace."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history.index import end_s
from analyzers.types import JobRecord
from predictors import OnlineDurationPredictor


def job(number: int, duration_s: float | None, **more: object) -> JobRecord:
    base = {"job_id": str(number), "submit_s": float(number), "gpus": 1, "user": "ann", **more}
    return JobRecord(duration_s=duration_s, **base)  # type: ignore[arg-type]


def test_it_learns_a_users_habit() -> None:
    predictor = OnlineDurationPredictor()
    for number in range(20):
        record = job(number, 300.0 if number % 2 else 9_000.0, gpus=1 + number % 2)
        predictor.predict(record)
        predictor.observe(record)
    assert predictor.predict(job(99, None, gpus=2)) == pytest.approx(300, rel=0.2)
    assert predictor.predict(job(98, None, gpus=1)) == pytest.approx(9_000, rel=0.2)


def test_the_request_bounds_it_and_a_job_without_end_teaches_nothing() -> None:
    predictor = OnlineDurationPredictor()
    assert predictor.predict(job(1, None, requested_s=60.0)) <= 60
    predictor.observe(job(1, None))
    assert predictor.predict(job(2, None)) == OnlineDurationPredictor().predict(job(2, None))


def test_a_request_never_seen_is_judged_by_its_size_not_by_other_jobs() -> None:
    predictor = OnlineDurationPredictor()
    cold = [predictor.predict(job(n, None, user="new", requested_s=r)) for n, r in ((1, 3_600.0), (2, 86_400.0))]
    assert cold[1] == pytest.approx(24 * cold[0])
    for number in range(3, 60):
        record = job(number, 1_800.0, requested_s=3_600.0)
        predictor.predict(record)
        predictor.observe(record)
    learned = predictor.predict(job(99, None, user="new", gpus=16, requested_s=86_400.0))
    assert 30_000 < learned < 86_400


steps = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", None]),
        st.integers(1, 4),
        st.none() | st.integers(1, 1000),
        st.floats(0, 1e6),
        st.booleans(),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_no_look_ahead_and_always_positive(steps: list[tuple[str | None, int, int | None, float, bool]]) -> None:
    """Durations of jobs that were not observed change no answer."""
    honest, blind = OnlineDurationPredictor(), OnlineDurationPredictor()
    for number, (user, gpus, requested, duration_s, ends) in enumerate(steps):
        record = job(number, duration_s, user=user, gpus=gpus, requested_s=requested)
        hidden = replace(record, duration_s=None)
        assert honest.predict(record) == blind.predict(hidden) >= 1
        q = honest.quantiles(record)
        assert 1 <= q.p10 <= q.p50 <= q.p90 <= q.p99
        if ends:
            honest.observe(record)
            blind.observe(record)


def replay(records: list[JobRecord]) -> tuple[list[float], list[bool]]:
    """Errors in seconds and whether the 80 % interval held, in order of submission; jobs are observed as they end."""
    predictor, running = OnlineDurationPredictor(), []
    errors, inside = [], []
    for number, record in enumerate(sorted(records, key=lambda r: r.submit_s)):
        while running and running[0][0] <= record.submit_s:
            predictor.observe(heapq.heappop(running)[2])
        asked = replace(record, duration_s=None)
        q = predictor.quantiles(asked)
        actual_s = record.duration_s or 0.0
        errors.append(abs(predictor.predict(asked) - actual_s))
        inside.append(q.p10 <= actual_s <= q.p90)
        heapq.heappush(running, (end_s(record), number, record))
    return errors, inside


def test_intervals_hold_on_jobs_drawn_from_a_known_law() -> None:
    rng = random.Random(4)
    scale = {f"u{i}": rng.uniform(4, 10) for i in range(30)}
    records = []
    for number in range(6_000):
        user = f"u{rng.randrange(30)}"
        records.append(job(number, 2.718 ** rng.gauss(scale[user], 1.0), user=user, submit_s=float(number * 500)))
    _errors, inside = replay(records)
    assert 0.75 <= sum(inside[1_000:]) / len(inside[1_000:]) <= 0.86


@pytest.mark.slow
def test_better_than_the_request_and_the_last_two_on_kth(shared_data: Path) -> None:
    from schedmate.traces import open_trace

    records = list(open_trace(shared_data / "traces" / "kth_sp2.swf.gz")[0])
    errors, inside = replay(records)
    requested = [abs((r.requested_s or 0.0) - (r.duration_s or 0.0)) for r in records]
    assert median(errors) < 0.5 * median(requested)
    assert sum(errors) < 0.85 * sum(requested)
    assert 0.75 <= sum(inside) / len(inside) <= 0.85
