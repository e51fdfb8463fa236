"""Jobs in flight: what is remembered of them, how far they move what is said; nothing of their future is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from predictors import Predictor
from predictors.censored import exceeding, mean_size_beyond, outlasting
from predictors.in_flight import LOOKED_AT, MOST_STARTS, InFlight, Started
from predictors.mixture import Mixture
from predictors.types import Prediction

NOTHING = SourceFacts()
HOUR_S = 3_600.0


def job(number: int, at_s: float, duration_s: float | None = None, **more: object) -> JobRecord:
    known: dict[str, object] = {"start_s": at_s, "user": "ann", "name": "train", "outcome": "completed"}
    return JobRecord(str(number), at_s, duration_s, 1, **{**known, **more})  # type: ignore[arg-type]


def asked(at_s: float, user: str = "ann") -> Submission:
    return Submission("", user=user, name="train", gpus=1, submit_s=at_s)


class TellsOfAnother(str):
    """The id of a job: when it is looked for, another job starts, as if told of by another thread."""

    starts: InFlight

    def __hash__(self) -> int:
        if hasattr(self, "starts"):
            self.starts.started(job(len(self.starts), 0.0), 0.0)
        return super().__hash__()


def flying(running: list[JobRecord]) -> InFlight:
    starts = InFlight()
    for record in running:
        starts.started(record, record.start_s or 0.0)
    return starts


def said(ended: list[JobRecord], running: list[JobRecord], at_s: float) -> Prediction:
    return Predictor(MemoryHistoryStore(ended), in_flight=flying(running)).predict(asked(at_s), NOTHING)


#: Ten of a minute have ended, ten of the same kind have run for up to two hours.
SHORT = [job(n, 60.0 * n, 60.0 + n % 7) for n in range(10)]
LONG = [job(100 + n, 600.0 + n) for n in range(10)]


def test_what_runs_for_long_makes_the_next_one_long() -> None:
    blind, told = (said(SHORT, running, 2 * HOUR_S).duration_s for running in ([], LONG))
    assert blind.p90 < 200.0 and told.p90 > HOUR_S
    # Of another user, of whom nothing has ended: nobody's last runs count for more than what all jobs share.
    blind, told = (
        Predictor(MemoryHistoryStore(SHORT), in_flight=running).predict(asked(2 * HOUR_S, "bob"), NOTHING).duration_s
        for running in (InFlight(), flying([replace(each, user="bob") for each in LONG]))
    )
    assert blind.p50 < 200.0 and told.p50 > 1_000.0


def test_what_has_just_started_says_next_to_nothing() -> None:
    young = [replace(each, submit_s=2 * HOUR_S - 5.0, start_s=2 * HOUR_S - 5.0) for each in LONG]
    blind, told = (said(SHORT, running, 2 * HOUR_S).duration_s for running in ([], young))
    assert told.p50 == pytest.approx(blind.p50, rel=0.3)


def test_before_any_has_ended_what_runs_for_long_tells_already() -> None:
    blind, told = (said([], running, 24 * HOUR_S).duration_s for running in ([], LONG))
    assert told.p50 > 4 * blind.p50


def test_one_that_was_forgotten_does_not_count_for_more_than_one() -> None:
    lost = job(99, 0.0)
    for days in (1, 7, 29, 3_650):
        told = said([replace(each, submit_s=0.0) for each in SHORT], [lost], 86_400.0 * days).duration_s
        assert told.p50 < 200.0


def test_a_store_that_holds_running_jobs_tells_them_as_old_as_it_saw_them() -> None:
    seen = [replace(each, ran_so_far_s=2 * HOUR_S - (each.start_s or 0.0), outcome=None) for each in LONG]
    held = Predictor(MemoryHistoryStore([*SHORT, *seen]))
    told = held.predict(asked(2 * HOUR_S), NOTHING).duration_s
    assert told == said(SHORT, LONG, 2 * HOUR_S).duration_s
    later = held.predict(asked(20 * HOUR_S), NOTHING).duration_s
    assert later.p90 < 0.5 * said(SHORT, LONG, 20 * HOUR_S).duration_s.p90


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(1.0, 5e4), st.floats(1.0, 5e4)), min_size=1, max_size=10), st.randoms())
def test_what_jobs_in_flight_will_do_changes_nothing(durations: list[tuple[float, float]], draw: object) -> None:
    """Every job is told of when it starts and when it ends; those still running at a moment end in another way in the
    other world: all that is said by that moment is the same."""
    moment_s = 100.0 * len(durations) + 1.0

    def walk(of: int) -> list[Prediction]:
        history, starts = MemoryHistoryStore(), InFlight()
        predictor, told, ends = Predictor(history, in_flight=starts), list[Prediction](), list[JobRecord]()
        for number, both in enumerate(durations):
            at_s = 100.0 * (number + 1)
            duration_s = both[0] if at_s + both[0] <= moment_s else max(both[of], moment_s - at_s + 1.0)
            ends.append(
                job(number, at_s, duration_s, outcome=("completed", "failed")[of] if duration_s > both[0] else None)
            )
            for record in [each for each in ends if each.submit_s + (each.duration_s or 0.0) <= at_s]:
                history.add([record])
                starts.ended(record.job_id, record.submit_s + (record.duration_s or 0.0))
                ends.remove(record)
            told.append(predictor.predict(asked(at_s), NOTHING))
            starts.started(replace(ends[-1], duration_s=None, outcome=None), at_s)
        for record in ends:  # known to the store already, but not to whoever asks about the moment
            history.add([record])
            starts.ended(record.job_id, record.submit_s + (record.duration_s or 0.0))
        return [*told, predictor.predict(asked(moment_s), NOTHING)]

    assert [each.duration_s for each in walk(0)] == [each.duration_s for each in walk(1)]


def test_being_asked_later_first_tells_an_earlier_moment_no_ages() -> None:
    predictor = Predictor(MemoryHistoryStore(), in_flight=flying(LONG))
    predictor.predict(asked(48 * HOUR_S), NOTHING)
    assert predictor.predict(asked(HOUR_S), NOTHING).duration_s == said([], LONG, HOUR_S).duration_s


@pytest.mark.parametrize("running", [[], LONG])
def test_a_moment_later_nothing_is_solved_anew(running: list[JobRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor(MemoryHistoryStore(SHORT), in_flight=flying(running))
    predictor.predict(asked(2 * HOUR_S), NOTHING)
    monkeypatch.setattr("predictors.effects.solve_trusted", None)
    predictor.predict(asked(2 * HOUR_S + 0.5), NOTHING)


def test_runs_of_a_job_that_had_to_leave_are_not_added_up() -> None:
    starts = InFlight()
    starts.started(job(1, 0.0), 10.0)
    starts.started(job(1, 0.0), 15.0)  # told twice
    starts.stopped("1", 110.0)
    (waiting,) = starts.at(1_000.0)
    assert waiting.age_s(1_000.0) == 100.0 and waiting.age_s(60.0) <= 50.0
    starts.started(job(1, 0.0), 1_000.0)
    assert [starts.at(at_s)[0].age_s(at_s) for at_s in (1_050.0, 1_300.0)] == [100.0, 300.0]
    starts.ended("1", 1_400.0)
    assert starts.at(1_399.0) and not starts.at(1_400.0)


def test_what_is_remembered_is_bounded_and_what_can_not_be_is_passed_over() -> None:
    starts = InFlight()
    for number in range(MOST_STARTS + 5):
        starts.started(job(number, float(number)), float(number))
    assert len(starts) == MOST_STARTS and "4" not in starts and "5" in starts
    assert [each.record.job_id for each in starts.at(1e4)] == [str(5 + n) for n in range(LOOKED_AT)]
    for at_s in (math.nan, math.inf):
        starts.started(job(-1, 0.0), at_s)
    starts.stopped("never", 1.0)
    starts.ended("never", 1.0)
    starts.dropped("never")
    assert len(starts) == MOST_STARTS


def test_far_past_its_limit_a_job_is_lost_and_a_limit_is_all_that_it_can_have_run() -> None:
    running = Started(job(1, 0.0, requested_s=HOUR_S), 0.0, 0.0)
    assert running.age_s(HOUR_S + 60.0) == HOUR_S and not running.lost(HOUR_S + 60.0)
    assert running.lost(2 * HOUR_S) and not Started(job(1, 0.0), 0.0, 0.0).lost(2 * HOUR_S)


@pytest.mark.parametrize("bound", [-3.0, -0.5, 0.0, 0.8, 2.5])
def test_one_bounded_value_is_what_integration_says(bound: float) -> None:
    """A single term: expectation propagation is exact in mean and variance."""
    grid = np.linspace(-12.0, 14.0, 200_001)
    prior, variance, noise = 0.3, 1.7, 0.4
    odds = 0.05
    density = np.exp(-0.5 * (grid - prior) ** 2 / variance) * (ndtr((grid - bound) / math.sqrt(noise)) + odds)
    mean = float((grid * density).sum() / density.sum())
    spread = float(((grid - mean) ** 2 * density).sum() / density.sum())
    found = exceeding(np.array([prior]), np.array([[variance]]), noise, np.array([bound]), np.array([odds]))
    assert prior + variance * found.pulls[0] == pytest.approx(mean, abs=0.01)
    assert variance - variance**2 * found.weights[0, 0] == pytest.approx(min(spread, variance), abs=0.02)


numbers = st.floats(-4.0, 4.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6), numbers, st.floats(0.01, 4.0))
def test_lasting_never_makes_anything_shorter_or_less_certain(
    values: list[tuple[float, float]], shared: float, noise: float
) -> None:
    means, bounds = (np.array(each) for each in zip(*values, strict=True))
    covariance = np.eye(len(values)) + shared**2
    found = exceeding(means, covariance, noise, bounds, np.full(len(values), 0.01))
    assert np.isfinite(found.pulls).all() and np.isfinite(found.weights).all()
    assert (covariance @ found.pulls > -1e-6).all()
    assert (np.diag(covariance @ found.weights @ covariance) >= -1e-9).all()


def test_the_part_of_a_bell_beyond_a_bound() -> None:
    draws = np.random.default_rng(3).normal(size=400_000)
    for bound in (-2.0, -0.3, 0.0, 1.0, 2.0):
        beyond = np.abs(draws[draws > bound]).mean()
        assert mean_size_beyond(np.array([bound]))[0] == pytest.approx(beyond, rel=0.02)
    assert mean_size_beyond(np.array([40.0]))[0] >= 40.0


def test_those_that_last_stand_for_what_is_longer() -> None:
    """Of many long values those beyond a bound of their own are known by that alone: the whole comes out again."""
    rng = np.random.default_rng(7)
    truths, bounds = rng.normal(0.0, 1.0, 4_000), rng.uniform(-2.0, 2.5, 4_000)
    seen, lasting = np.sort(truths[truths <= bounds]), bounds[truths > bounds]
    whole = outlasting(Mixture(seen, np.ones(len(seen))), lasting, np.ones(len(lasting)), 1.0)
    assert whole.mass == pytest.approx(4_000)
    assert np.log(whole.quantile_s((0.1, 0.5, 0.9))) == pytest.approx([-1.28, 0.0, 1.28], abs=0.1)
    halves = np.repeat(lasting, 2), np.full(2 * len(lasting), 0.5)
    assert np.allclose(outlasting(Mixture(seen, np.ones(len(seen))), *halves, 1.0).weights, whole.weights)
    assert outlasting(Mixture(seen, np.ones(len(seen))), np.zeros(0), np.zeros(0), 1.0).points is seen


def test_a_start_may_be_told_while_others_are_looked_at() -> None:
    starts = flying([job(number, 0.0) for number in range(3)])
    name = TellsOfAnother("told")
    starts.started(replace(job(9, 1.0), job_id=name), 1.0)
    name.starts = starts
    assert [each.record.job_id for each in starts.at(HOUR_S)] == ["0", "1", "2", "told"]
    assert len(starts) > 4
