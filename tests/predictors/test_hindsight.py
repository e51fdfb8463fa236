"""What is told is a matter of what is recorded alone: when anyone asked before, and how jobs were added, is none."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import MemoryHistoryStore
from analyzers.types import Fact, JobRecord, JsonValue, SourceFacts, Submission
from predictors import Predictor
from predictors.in_flight import InFlight
from predictors.learner import RECENT_JOBS, _last_anew
from predictors.site import at_spread
from predictors.site_durations import SiteDurations
from predictors.stacked import FIRST_TRAINING_JOBS
from predictors.types import Prediction

FACTS: dict[str, JsonValue] = {"framework": "pytorch", "epochs": 3}
KNOWN = SourceFacts({name: Fact(value, 0.9) for name, value in FACTS.items()})


def job(number: int, at_s: float, duration_s: float, user: str = "ann", outcome: str = "completed") -> JobRecord:
    return JobRecord(
        str(number), at_s, duration_s, 1, start_s=at_s, user=user, name="train", outcome=outcome,  # type: ignore[arg-type]
        command=f"python t.py --width {8 + number % 3}", facts=FACTS, peak_gpu_memory_mib=100.0 + duration_s % 7,
        peak_host_memory_mib=50.0 + duration_s % 5,
    )  # fmt: skip


def asked(at_s: float | None, user: str = "bob") -> Submission:
    return Submission("python t.py --width 9", user=user, name="train", gpus=1, submit_s=at_s)


def walk(
    jobs: Sequence[JobRecord],
    ask: Sequence[bool],
    *,
    starts: bool,
    lags_s: Mapping[int, float] = {},
    held: Sequence[JobRecord] = (),
) -> Prediction:
    """Every start and end is told when it comes, some ends so much later (``lags_s``, by place); at each somebody asks,
    or not. What is said after the last. ``held``: what the history holds from the beginning."""
    history, flying = MemoryHistoryStore(held), InFlight()
    predictor = Predictor(history, in_flight=flying)
    moments = sorted(
        [(each.submit_s, 0, n) for n, each in enumerate(jobs)]
        + [(each.submit_s + (each.duration_s or 0.0) + lags_s.get(n, 0.0), 1, n) for n, each in enumerate(jobs)]
    )
    for (at_s, ends, number), asks in zip(moments, ask, strict=True):
        if ends:
            history.add([jobs[number]])
            flying.ended(jobs[number].job_id, at_s - lags_s.get(number, 0.0))
        elif starts:
            flying.started(replace(jobs[number], duration_s=None, outcome=None), at_s)
        if asks:
            predictor.predict(asked(at_s, user="cid"), KNOWN)
    return predictor.predict(asked(moments[-1][0]), KNOWN)


some_jobs = st.lists(
    st.tuples(
        st.floats(0.0, 2e4), st.floats(0.0, 5e4), st.sampled_from(["ann", "bob"]),
        st.sampled_from(["completed", "failed"]),
    ),
    min_size=1, max_size=16,
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(some_jobs, st.booleans(), st.data())
def test_asking_in_between_changes_nothing_that_is_told_later(
    drawn: list[tuple[float, float, str, str]], starts: bool, data: st.DataObject
) -> None:
    jobs = [job(n, *each) for n, each in enumerate(drawn)]
    ask = data.draw(st.lists(st.booleans(), min_size=2 * len(jobs), max_size=2 * len(jobs)))
    silent, spoken = walk(jobs, [False] * len(ask), starts=starts), walk(jobs, ask, starts=starts)
    assert silent == spoken


@settings(max_examples=60, deadline=None)
@given(some_jobs, st.data())
def test_nor_does_it_where_ends_become_known_late(
    drawn: list[tuple[float, float, str, str]], data: st.DataObject
) -> None:
    """Who asked in between heard of jobs that ran since without the one of which nobody knew that it had ended."""
    jobs = [job(n, *each) for n, each in enumerate(drawn)]
    lags_s = data.draw(st.dictionaries(st.integers(0, len(jobs) - 1), st.floats(0.0, 9e3)))
    ask = data.draw(st.lists(st.booleans(), min_size=2 * len(jobs), max_size=2 * len(jobs)))
    silent, spoken = (walk(jobs, each, starts=True, lags_s=lags_s) for each in ([False] * len(ask), ask))
    assert silent == spoken


def test_nor_does_it_while_something_runs_of_which_no_end_is_ever_told() -> None:
    """Who asks when it is in flight is told of it; after that it is as if nobody had asked."""
    jobs = [job(n, 5_000.0 + n * 45 * 86_400.0, 600.0 + 70.0 * n) for n in range(6)]
    lost = replace(job(99, 4_000.0, 0.0), duration_s=None, outcome=None, requested_s=600.0, ran_so_far_s=500.0)
    seen_by_nobody, seen = (walk(jobs, [asks, *[False] * 11], starts=False, held=[lost]) for asks in (False, True))
    assert seen_by_nobody == seen


@settings(max_examples=25, deadline=None)
@given(some_jobs, st.randoms(use_true_random=False))
def test_the_order_in_which_ends_become_known_changes_nothing(
    drawn: list[tuple[float, float, str, str]], draw: random.Random
) -> None:
    jobs = [job(n, *each) for n, each in enumerate(drawn)]
    shuffled = draw.sample(jobs, len(jobs))
    one_by_one, history = [], MemoryHistoryStore()
    predictor = Predictor(history)
    for each in shuffled:
        history.add([each])
        one_by_one.append(predictor.predict(asked(None), KNOWN))
    assert one_by_one[-1].duration_s == Predictor(MemoryHistoryStore(jobs)).predict(asked(None), KNOWN).duration_s


def many(count: int) -> list[JobRecord]:
    rng = random.Random(3)
    return [
        job(n, 200.0 * n, rng.lognormvariate(5 + n % 3, 0.6), f"u{n % 4}", rng.choice(("completed", "failed")))
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [FIRST_TRAINING_JOBS - 1, FIRST_TRAINING_JOBS + 5, _last_anew(1_000) + 7])
def test_nor_does_it_where_jobs_are_many(count: int) -> None:
    jobs = many(count)
    history = MemoryHistoryStore()
    predictor = Predictor(history)
    for first in range(0, count, 83):
        history.add(jobs[first : first + 83])
        told = predictor.predict(asked(None), KNOWN)
    assert told == Predictor(MemoryHistoryStore(jobs)).predict(asked(None), KNOWN)


def test_all_is_learned_anew_ever_less_often_and_of_a_bounded_number() -> None:
    assert _last_anew(FIRST_TRAINING_JOBS - 1) == 0 and _last_anew(FIRST_TRAINING_JOBS) == FIRST_TRAINING_JOBS
    for ended in (700, 5_000, 123_456):
        assert 0 <= ended - _last_anew(ended) <= min(0.3 * ended, RECENT_JOBS / 2)


def test_a_job_is_judged_by_what_could_be_said_at_its_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten at once that take forty times as long as any before: all ten were told far too short, although nine of them
    have ended when the tenth does."""
    before = [job(n, 100.0 * n, 60.0 + n) for n in range(12)]
    batch = [job(100 + n, 5_000.0, 2_400.0 + 300.0 * n) for n in range(10)]
    off: list[float] = []
    learn = SiteDurations.learn

    def noted(self: SiteDurations, record: JobRecord, said: object, **more: bool) -> None:
        if record.submit_s == 5_000.0:
            off.append(math.log(record.duration_s or 1.0) - said.point)  # type: ignore[attr-defined]
        learn(self, record, said, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(SiteDurations, "learn", noted)
    history = MemoryHistoryStore(before)
    predictor = Predictor(history)
    for each in batch:
        history.add([each])
        predictor.predict(asked(each.submit_s + (each.duration_s or 0.0)), KNOWN)
    assert len(off) == 10 and min(off) > math.log(20.0)


@given(st.floats(-4.0, 4.0), st.floats(0.05, 3.0), st.floats(0.05, 3.0))
def test_what_a_familiar_job_was_off_is_no_thousandfold_of_an_unfamiliar_one(
    off: float, before: float, now: float
) -> None:
    """In more doubt the squares add up; in less all shrinks. Never is a miss stretched."""
    points, weights, which = at_spread(np.array([off]), np.array([before]), now)
    mean = float(points @ weights)
    spread = math.sqrt(max(0.0, float((points - mean) ** 2 @ weights)))
    assert weights.sum() == pytest.approx(1.0) and set(which) == {0}
    assert mean == pytest.approx(off * min(1.0, now / before))
    assert spread == pytest.approx(math.sqrt(max(0.0, now**2 - before**2)), abs=1e-6)


def test_an_unfamiliar_job_after_many_familiar_ones_is_in_doubt_not_in_delirium() -> None:
    """Forty runs of minutes, two of which by accident took fifty times as long, tell next to nothing of a program never
    seen but that its prior is off by so much: its 99 % quantile is days, not centuries."""
    past = [job(n, 4_000.0 * n, 12_000.0 if n % 20 == 11 else 240.0 + n % 5) for n in range(40)]
    strange = Submission("mpirun solve --cells 9000", user="zoe", name="flow", gpus=64)
    told = Predictor(MemoryHistoryStore(past)).predict(strange, SourceFacts()).duration_s
    known = Predictor(MemoryHistoryStore(past)).predict(asked(None, "ann"), KNOWN).duration_s
    assert known.p90 / known.p50 < told.p90 / told.p50
    assert told.p99 < 30 * 86_400.0
