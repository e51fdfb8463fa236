"""A job known late is learned from in its place, without all being learned anew, and with nothing else being told."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import MemoryHistoryStore
from analyzers.types import Fact, JobRecord, JsonValue, SourceFacts, Submission
from predictors import Predictor, learner, settled
from predictors.in_flight import InFlight
from predictors.learner import Learner, _last_anew
from predictors.stacked import FIRST_TRAINING_JOBS, ended_s
from predictors.training import trained_on

FACTS: dict[str, JsonValue] = {"framework": "pytorch", "epochs": 3}
KNOWN = SourceFacts({name: Fact(value, 0.9) for name, value in FACTS.items()})
ASKED = Submission("python t.py --width 9", user="bob", name="train", gpus=1)


def job(number: int, at_s: float, duration_s: float, user: str = "ann", outcome: str = "completed") -> JobRecord:
    return JobRecord(
        str(number), at_s, duration_s, 1, start_s=at_s, user=user, name="train", outcome=outcome,  # type: ignore[arg-type]
        command=f"python t.py --width {8 + number % 3}", facts=FACTS, peak_gpu_memory_mib=100.0 + duration_s % 7,
        peak_host_memory_mib=50.0 + duration_s % 5,
    )  # fmt: skip


def many(count: int) -> list[JobRecord]:
    rng = random.Random(3)
    drawn = [
        job(n, 200.0 * n, rng.lognormvariate(5 + n % 3, 0.6), f"u{n % 4}", rng.choice(("completed", "failed")))
        for n in range(count)
    ]
    return sorted(drawn, key=ended_s)


def told(predictor: Predictor) -> tuple[object, ...]:
    """What is said, but for the jobs that are shown as similar: of equal ones those added last come first."""
    said = predictor.predict(ASKED, KNOWN)
    return said.duration_s, said.outcome, said.gpu_memory_mib, said.host_memory_mib, said.confidence


def kept_every(jobs: int) -> ExitStack:
    stack = ExitStack()
    for module in (learner, settled):
        stack.enter_context(patch.object(module, "SETTLES_JOBS", jobs))
    return stack


class Starts:
    """Counts how often all was learned anew."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, learns: Learner, moment_s: float | None) -> None:
        self.count += 1
        _START(learns, moment_s)


_START = Learner._start

#: Many moments coincide, and half of the jobs end within an hour: more are known late than would be otherwise.
some_jobs = st.lists(
    st.tuples(
        st.integers(0, 40).map(lambda steps: 250.0 * steps), st.sampled_from([0.0, 60.0, 900.0, 3_000.0, 2e4]),
        st.sampled_from(["ann", "bob"]), st.sampled_from(["completed", "failed"]),
    ),
    min_size=6, max_size=16,
)  # fmt: skip
NEVER = 1_000


@settings(max_examples=30, deadline=None)
@given(some_jobs, st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 3))
def test_in_whatever_order_ends_become_known(
    drawn: list[tuple[float, float, str, str]], draw: random.Random, every: int, together: int
) -> None:
    """Nearly in order, mostly, as ends are recorded."""
    jobs = sorted((job(n, *each) for n, each in enumerate(drawn)), key=ended_s)
    places = {each.job_id: n + draw.choice((0.0, 0.0, 2.5, 6.5)) for n, each in enumerate(jobs)}
    known = sorted(jobs, key=lambda each: places[each.job_id])

    def walk(every: int) -> list[tuple[object, ...]]:
        history = MemoryHistoryStore()
        predictor, said = Predictor(history), []
        with kept_every(every):
            for first in range(0, len(jobs), together):
                history.add(known[first : first + together])
                said.append(told(predictor))
        return said

    said = walk(every)
    assert said == walk(NEVER)
    assert said[-1] == told(Predictor(MemoryHistoryStore(jobs)))


@settings(max_examples=30, deadline=None)
@given(some_jobs, st.data())
def test_where_starts_are_told_of_some_of_them(drawn: list[tuple[float, float, str, str]], data: st.DataObject) -> None:
    """Some of them late as well, some taken back."""
    jobs = [job(n, *each) for n, each in enumerate(drawn)]
    lags_s = st.sampled_from([0.0, 0.0, 1e3, 3e3])
    tells = [data.draw(st.sampled_from([False, False, True])) for _ in jobs]
    moments = sorted(
        [(each.submit_s + data.draw(lags_s), 0, n) for n, each in enumerate(jobs) if tells[n]]
        + [(ended_s(each) + data.draw(lags_s), 1, n) for n, each in enumerate(jobs)]
        + [(each.submit_s + data.draw(lags_s), 2, n) for n, each in enumerate(jobs) if n % 4 == 0]
    )

    def walk(every: int) -> list[tuple[object, ...]]:
        history, flying, said = MemoryHistoryStore(), InFlight(), []
        predictor = Predictor(history, in_flight=flying)
        with kept_every(every):
            for at_s, what, number in moments:
                if what == 1:
                    history.add([jobs[number]])
                    flying.ended(jobs[number].job_id, ended_s(jobs[number]))
                elif what == 0:
                    running = replace(jobs[number], duration_s=None, outcome=None)
                    flying.started(running, jobs[number].submit_s)
                else:
                    flying.dropped(jobs[number].job_id)
                found = predictor.predict(replace(ASKED, submit_s=at_s), KNOWN)
                said.append((found.duration_s, found.outcome, found.gpu_memory_mib))
        return said

    assert walk(2) == walk(NEVER)


@pytest.mark.parametrize(
    "count", [60, FIRST_TRAINING_JOBS - 50, FIRST_TRAINING_JOBS - 20, FIRST_TRAINING_JOBS + 40, _last_anew(1_000) + 70]
)
def test_all_is_learned_anew_only_where_the_job_had_ended_long_before(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = Starts()
    monkeypatch.setattr(Learner, "_start", lambda learns, moment_s: starts(learns, moment_s))
    jobs = many(count + 40)
    late = [jobs[count - 5], jobs[count + 10], jobs[count + 30], jobs[count - 30]]
    history = MemoryHistoryStore(each for each in jobs[:count] if each not in late)
    predictor = Predictor(history)
    told(predictor)
    for place, each in enumerate(jobs[count:], start=count):
        history.add([each] if each not in late else [])
        if place in (count + 2, count + 12, count + 20, count + 35):
            history.add([late[(count + 2, count + 12, count + 35, count + 20).index(place)]])
            told(predictor)
    assert starts.count == 1
    assert told(predictor) == told(Predictor(MemoryHistoryStore(jobs)))
    older = job(9_999, -5e4, 10.0)
    history.add([older])
    assert told(predictor) == told(Predictor(MemoryHistoryStore([*jobs, older])))
    assert starts.count == 4


def test_a_job_that_takes_the_place_of_one_learned_from_is_not_learned_from_twice() -> None:
    jobs = many(120)
    for place in (60, 112):  # long before, and lately
        history = MemoryHistoryStore(jobs)
        predictor = Predictor(history)
        told(predictor)
        corrected = replace(jobs[place], duration_s=(jobs[place].duration_s or 0.0) - 1.0, outcome="cancelled")
        history.add([corrected])
        assert told(predictor) == told(Predictor(MemoryHistoryStore([*jobs[:place], corrected, *jobs[place + 1 :]])))


#: Of a job that was known to have ended: what is recorded of it now.
CHANGES = {
    "the very same": {},
    "another end": {"outcome": "cancelled"},
    "it ended later": {"duration_s": 1e6},
    "it ended earlier": {"duration_s": 1.0},
    "it runs again": {"duration_s": None, "outcome": None},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("place", [5, 35, 39])
@pytest.mark.parametrize("asked_of", [10, 39])
def test_what_is_recorded_of_a_job_again_takes_the_place_of_what_was(
    change: dict[str, Any], place: int, asked_of: int
) -> None:
    """Whether it was learned from, had been the last, or had not ended yet by the moment that was asked of."""
    jobs = many(40)
    again = replace(jobs[place], **change)
    history = MemoryHistoryStore(jobs)
    predictor = Predictor(history)
    predictor.predict(replace(ASKED, submit_s=ended_s(jobs[asked_of])), KNOWN)
    history.add([again])
    assert told(predictor) == told(Predictor(MemoryHistoryStore([*jobs[:place], *jobs[place + 1 :], again])))


def test_that_a_job_still_ran_when_it_was_recorded_first_hides_no_end_that_is_corrected_and_makes_nothing_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = Starts()
    monkeypatch.setattr(Learner, "_start", lambda learns, moment_s: starts(learns, moment_s))
    jobs = many(60)
    waits = [replace(each, duration_s=None, outcome=None) for each in (jobs[50], jobs[51])]
    history = MemoryHistoryStore([*jobs[:50], *waits])
    predictor = Predictor(history)
    told(predictor)
    for each in (jobs[51], jobs[50]):
        history.add([each])
        told(predictor)
    assert starts.count == 1
    corrected = replace(jobs[52], outcome="cancelled")
    history.add([jobs[52]])
    told(predictor)
    history.add([corrected, jobs[53]])
    assert told(predictor) == told(Predictor(MemoryHistoryStore([*jobs[:52], corrected, jobs[53]])))


class AddsMeanwhile(MemoryHistoryStore):
    """Another process adds a job just after the news were told for the first time."""

    def __init__(self, records: list[JobRecord], added: JobRecord) -> None:
        super().__init__(records)
        self.left = [added]

    def news(self, seen: tuple[object, int] | None) -> tuple[tuple[object, int], list[JobRecord]]:
        found = super().news(seen)
        if self.left:
            self.add([self.left.pop()])
        return found


def test_a_job_that_is_added_while_all_is_learned_anew_is_learned_from_once() -> None:
    jobs = many(40)
    predictor = Predictor(AddsMeanwhile(jobs[:39], jobs[39]))
    assert told(predictor) == told(predictor) == told(Predictor(MemoryHistoryStore(jobs)))


def test_the_trained_model_is_used_again_after_one_asked_about_a_moment_that_it_can_not_be_asked_of() -> None:
    jobs = many(FIRST_TRAINING_JOBS + 60)
    model = trained_on(sorted(jobs[:-30], key=lambda each: each.submit_s), trees=5)
    history = MemoryHistoryStore(jobs)
    predictor = Predictor(history, model)
    before = told(predictor)
    early = replace(ASKED, submit_s=model.latest_s - 1.0)
    said = predictor.predict(early, KNOWN)
    assert said == Predictor(history).predict(early, KNOWN)
    assert told(predictor) == before
