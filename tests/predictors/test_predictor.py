"""The one predictor: it learns on, never sees the future, uses the source's work, and distrusts who claims wrongly."""

from __future__ import annotations

import math
import random
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import FileHistoryStore, MemoryHistoryStore
from analyzers.types import Fact, JobRecord, JsonValue, SourceFacts, Submission
from predictors import Predictor
from predictors.mixture import bells
from predictors.predictor import WARM_JOBS
from predictors.remaining import Running, still_runs
from predictors.stacked import StackedDurations
from prompts.errors import UserError

NOTHING = SourceFacts()


def facts(**values: JsonValue) -> SourceFacts:
    return SourceFacts({name: Fact(value, 0.9) for name, value in values.items()}, fingerprint=f"f{values}")


def trained(steps: int, *, job: int, user: str = "ann", pace: float = 2.0) -> JobRecord:
    """A job whose steps take ``pace`` seconds each, whatever published figures say."""
    return JobRecord(
        str(job), 1e5 * job, steps * pace, 1, start_s=1e5 * job, user=user, name="run", outcome="completed",
        facts={"max_steps": steps, "framework": "pytorch"}, fingerprint=f"s{steps}",
    )  # fmt: skip


def asked(user: str = "ann", **more: object) -> Submission:
    return Submission("python t.py", user=user, name="run", gpus=1, **more)  # type: ignore[arg-type]


def many(count: int, seed: int = 0) -> list[JobRecord]:
    rng = random.Random(seed)
    return [
        JobRecord(
            str(i), 500.0 * i, rng.lognormvariate(5 + i % 3, 0.4), 1, start_s=500.0 * i + 5, user=f"u{i % 3}",
            requested_s=7_200.0, outcome=rng.choice(("completed", "completed", "failed")),
        )
        for i in range(count)
    ]  # fmt: skip


def test_the_pace_that_was_seen_times_the_work_that_is_asked_for() -> None:
    """Twelve runs of 1,000 to 2,000 steps; the next has 20,000: no run took nearly as long, but the steps say so."""
    history = MemoryHistoryStore(trained(1_000 + 5 * n, job=n, user="bob") for n in range(WARM_JOBS))
    history.add(trained(1_000 + 90 * n, job=WARM_JOBS + n) for n in range(12))
    said = Predictor(history).predict(asked(), facts(max_steps=20_000, framework="pytorch"))
    blind = Predictor(history).predict(asked(), NOTHING)
    assert said.duration_s.p50 == pytest.approx(40_000, rel=0.2)
    assert blind.duration_s.p50 < 5_000
    assert any("pace of this work" in reason for reason in said.reasons)


def test_the_future_changes_nothing_and_going_back_in_time_forgets_it() -> None:
    records = many(WARM_JOBS + 60)
    moment_s = records[WARM_JOBS + 20].submit_s
    known = [r for r in records if (r.start_s or 0) + (r.duration_s or 0) <= moment_s]
    question = Submission("", user="u1", gpus=1, limit_s=7_200.0, submit_s=moment_s)
    honest = Predictor(MemoryHistoryStore(known)).predict(question, NOTHING)
    knows_more = Predictor(MemoryHistoryStore(records))
    assert knows_more.predict(question, NOTHING) == honest
    later = knows_more.predict(replace(question, submit_s=None), NOTHING)
    assert later != honest
    assert knows_more.predict(question, NOTHING) == honest


def test_what_is_added_is_learned_and_what_is_taken_out_forgotten(tmp_path: Path) -> None:
    store = FileHistoryStore(tmp_path / "h.jsonl")
    predictor = Predictor(store)
    question = Submission("", user="ann", gpus=1)
    cold = predictor.predict(question, NOTHING)
    store.add(JobRecord(str(n), 100.0 * n, 50_000.0, 1, user="ann", outcome="failed") for n in range(30))
    warm = predictor.predict(question, NOTHING)
    assert warm.duration_s.p50 == pytest.approx(50_000, rel=0.3) and warm.outcome.failed > 0.7
    store.clear()
    assert predictor.predict(question, NOTHING) == cold


def test_a_trained_model_is_brought_up_to_date_and_not_changed_by_it() -> None:
    records = many(WARM_JOBS + 100)
    model = StackedDurations(trees=2, queue_known=False, trains=False)
    model.replay(records[: WARM_JOBS + 20])
    model.train()
    jobs = model.ended_jobs
    history = MemoryHistoryStore(records[: WARM_JOBS + 20])
    predictor = Predictor(history, model, "7")
    question = Submission("", user="u2", gpus=1, limit_s=7_200.0)
    first = predictor.predict(question, NOTHING)
    assert first.model_version.endswith("+7")
    history.add(records[WARM_JOBS + 20 :])
    history.add(
        JobRecord(f"n{i}", 9e6 + 7e3 * i, 6_000.0, 1, user="u2", requested_s=7_200.0, outcome="completed")
        for i in range(20)
    )
    assert predictor.predict(question, NOTHING).duration_s.p50 == pytest.approx(6_000, rel=0.2)
    assert model.ended_jobs == jobs


def test_a_model_from_later_is_not_asked_about_earlier() -> None:
    records = many(WARM_JOBS + 20)
    model = StackedDurations(trees=2, queue_known=False, trains=False)
    model.replay(records)
    model.train()
    history = MemoryHistoryStore(records)
    question = Submission("", user="u2", gpus=1, submit_s=records[50].submit_s)
    assert replace(Predictor(history, model).predict(question, NOTHING)) == Predictor(history).predict(
        question, NOTHING
    )


def test_who_claims_one_step_each_time_is_believed_no_more() -> None:
    """A user whose programs say one step and run for hours: the claim costs the first jobs, then it is known."""
    history = MemoryHistoryStore(many(WARM_JOBS))
    claims = facts(max_steps=1, framework="pytorch")
    predictor, said = Predictor(history), []
    for n in range(25):
        start_s = 1e6 + 3e4 * n
        question = Submission("python t.py", user="eve", name=f"x{n}", gpus=1, submit_s=start_s)
        said.append(predictor.predict(question, claims).duration_s.p50)
        lasted_s = 20_000.0
        history.add([
            JobRecord(
                f"eve{n}", start_s, lasted_s, 1, start_s=start_s, user="eve", name=f"x{n}", outcome="completed",
                facts={"max_steps": 1 + n % 3, "framework": "pytorch"},
            )
        ])  # fmt: skip
    assert said[0] < 10_000 < said[-1]
    assert said[-1] == pytest.approx(20_000, rel=0.5)


@settings(max_examples=150, deadline=None)
@given(
    elapsed_s=st.floats(0, 1e6),
    left_s=st.none() | st.floats(0.1, 1e6),
    limit_s=st.none() | st.floats(1, 1e6),
    well=st.floats(0, 1),
)
def test_what_remains_is_positive_in_order_and_within_the_limit(
    elapsed_s: float, left_s: float | None, limit_s: float | None, well: float
) -> None:
    left = still_runs(bells([1_000.0], [1.0], [1.0]), Running(elapsed_s, left_s), well, limit_s)
    assert 0 < left.p10 <= left.p50 <= left.p90 <= left.p99
    assert limit_s is None or left.p99 <= max(1.0, limit_s - elapsed_s) + 1e-9


def test_the_log_says_better_than_the_past_how_long_is_left() -> None:
    whole = bells([1_000.0], [1.0], [1.0])
    told = still_runs(whole, Running(900.0, 5_000.0, (4_500.0, 5_500.0)), 0.95, None)
    untold = still_runs(whole, Running(900.0), 0.95, None)
    assert told.p50 == pytest.approx(5_000, rel=0.1)
    assert told.p90 / told.p50 < untold.p90 / untold.p50


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_finite_number_is_refused_in_one_line_and_nothing_is_learned_of_it(value: float) -> None:
    predictor = Predictor(MemoryHistoryStore(many(20)))
    before = predictor.predict(asked(limit_s=600.0), NOTHING, Running(30.0))
    runs = {
        "elapsed_s": Running(value),
        "left_s": Running(30.0, value),
        "left_range_s": Running(30.0, 5.0, (1.0, value)),
    }
    named = {name: (asked(**{name: value}), None) for name in ("limit_s", "submit_s", "nodes")}
    named |= {"gpus": (replace(asked(), gpus=value), None)}  # type: ignore[arg-type]
    for name, (submission, running) in (named | {name: (asked(), run) for name, run in runs.items()}).items():
        with pytest.raises(UserError) as told:
            predictor.predict(submission, NOTHING, running)
        assert f"{name}" in str(told.value) and "finite" in str(told.value) and "\n" not in str(told.value)
    assert predictor.predict(asked(limit_s=600.0), NOTHING, Running(30.0)) == before


@pytest.mark.parametrize("count", [0, 20])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 10**5_000) for name in ("limit_s", "gpus", "nodes", "submit_s", "elapsed_s", "left_s")),
        *((name, value) for name in ("gpus", "nodes") for value in (1e16, -1)),
        *(("limit_s", value) for value in (-1.0, -1e300)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_can_not_be_reckoned_with_is_refused_in_one_line(count: int, name: str, value: float) -> None:
    predictor = Predictor(MemoryHistoryStore(many(count)))
    with pytest.raises(UserError) as told:
        if name in ("elapsed_s", "left_s"):
            predictor.predict(asked(), NOTHING, replace(Running(30.0), **{name: value}))
        else:
            predictor.predict(replace(asked(), **{name: value}), NOTHING)
    assert f"the job's {name} is " in str(told.value) and "\n" not in str(told.value) and len(str(told.value)) < 200


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_facts_that_are_no_numbers_count_as_not_known(value: float) -> None:
    predictor = Predictor(MemoryHistoryStore(many(20)))
    names = ("max_steps", "epochs", "model_params_approx", "global_batch_size", "seq_len", "image_size", "num_gpus")
    told = predictor.predict(asked(), facts(**dict.fromkeys(names, value)))
    numbers = [*astuple(told.duration_s), *astuple(told.gpu_memory_mib), *astuple(told.outcome)]
    assert all(math.isfinite(each) for each in numbers)
