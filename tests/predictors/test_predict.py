"""Predictions: sane whatever comes in, and moved the right way by facts and history."""

from __future__ import annotations

import dataclasses
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import MemoryHistoryStore
from analyzers.types import Fact, JobRecord, JsonValue, SourceFacts, Submission
from predictors import Predictor, predict
from predictors.hardware import gpu_model
from predictors.types import Prediction
from predictors.workload import workload

EMPTY = MemoryHistoryStore()
NOTHING = SourceFacts()


def facts(**values: JsonValue) -> SourceFacts:
    return SourceFacts({name: Fact(value, 0.9) for name, value in values.items()}, fingerprint="f")


def past(count: int = 20, **more: object) -> MemoryHistoryStore:
    base = {"submit_s": 0.0, "duration_s": 1000.0, "gpus": 1, "user": "ann", "outcome": "completed", **more}
    return MemoryHistoryStore(JobRecord(job_id=str(i), **base) for i in range(count))  # type: ignore[arg-type]


def check(prediction: Prediction, limit_s: float | None) -> None:
    q = prediction.duration_s
    assert 0 < q.p10 <= q.p50 <= q.p90 <= q.p99 < math.inf
    assert limit_s is None or q.p99 <= limit_s
    shares = dataclasses.astuple(prediction.outcome)
    assert sum(shares) == pytest.approx(1) and min(shares) >= 0
    for interval in (prediction.gpu_memory_mib, prediction.gpu_utilization, prediction.host_memory_mib):
        assert 0 <= interval.low <= interval.value <= interval.high < math.inf
    assert prediction.gpu_utilization.high <= 1
    assert prediction.reasons and prediction.model_version


values = st.none() | st.integers(-5, 10**12) | st.floats(allow_nan=True) | st.booleans() | st.text(max_size=8)
NAMES = ("epochs", "max_steps", "global_batch_size", "batch_size_per_gpu", "num_gpus", "grad_accum", "seq_len")
MORE = ("image_size", "model_params_approx", "model", "dataset", "precision", "optimizer", "parallelism", "task")
history = st.lists(
    st.builds(
        JobRecord,
        job_id=st.uuids().map(str),
        submit_s=st.floats(-1e6, 1e9),
        duration_s=st.none() | st.floats(0, 1e9),
        gpus=st.integers(0, 1024),
        user=st.sampled_from([None, "ann", "bob"]),
        requested_s=st.none() | st.floats(0, 1e7),
        outcome=st.sampled_from([None, "completed", "failed", "cancelled", "timeout"]),
        peak_gpu_memory_mib=st.none() | st.floats(0, 1e6),
        mean_gpu_utilization=st.none() | st.floats(0, 1),
        peak_host_memory_mib=st.none() | st.floats(0, 1e7),
    ),
    max_size=15,
)


@settings(max_examples=200, deadline=None)
@given(
    known=st.dictionaries(st.sampled_from(NAMES + MORE), values, max_size=8),
    records=history,
    gpus=st.none() | st.integers(1, 4096),
    limit_s=st.none() | st.floats(1, 1e7),
    gpu_type=st.none() | st.text(max_size=6) | st.sampled_from(["A100", "nvidia_h100-80gb", "T4"]),
)
def test_whatever_comes_in_quantiles_rise_and_probabilities_sum_to_1(
    known: dict[str, JsonValue],
    records: list[JobRecord],
    gpus: int | None,
    limit_s: float | None,
    gpu_type: str | None,
) -> None:
    submission = Submission("python x.py", user="ann", gpus=gpus, limit_s=limit_s, gpu_type=gpu_type)
    check(predict(submission, facts(**known), MemoryHistoryStore(records)), limit_s)


def test_without_anything_the_interval_is_wide_and_says_why() -> None:
    prediction = predict(Submission("python x.py"), NOTHING, EMPTY)
    assert prediction.duration_s.p90 / prediction.duration_s.p10 > 50
    assert prediction.similar_jobs == ()
    assert "no similar job" in prediction.reasons[0]
    assert "published" in " ".join(prediction.reasons)


def test_many_equal_jobs_decide_and_the_interval_closes() -> None:
    asked = Submission("", user="ann", gpus=1)
    few, many = (predict(asked, NOTHING, past(n)).duration_s for n in (1, 40))
    assert many.p50 == pytest.approx(1000, rel=0.1)
    assert many.p90 / many.p10 < 3 < few.p90 / few.p10


def test_a_stranger_is_expected_as_the_site_shows_but_is_in_more_doubt() -> None:
    mine = predict(Submission("", user="ann", gpus=1), NOTHING, past(5, duration_s=100_000.0)).duration_s
    strange = predict(Submission("", user="new", gpus=64), NOTHING, past(5, duration_s=100_000.0)).duration_s
    cold = predict(Submission("", user="new", gpus=64), NOTHING, EMPTY).duration_s
    assert mine.p50 > 50_000
    assert cold.p50 < strange.p50 and strange.p90 / strange.p10 > mine.p90 / mine.p10


def test_more_work_takes_longer_and_a_faster_gpu_less() -> None:
    known = {"epochs": 10, "dataset": "ImageNet", "model": "resnet50", "model_params_approx": 25_600_000}

    def median(gpu_type: str = "V100", gpus: int = 1, **more: JsonValue) -> float:
        asked = Submission("python x.py", gpus=gpus, gpu_type=gpu_type)
        return predict(asked, facts(**{**known, **more}), EMPTY).duration_s.p50

    assert median(epochs=90) > 5 * median()
    assert median(precision="amp-fp16") < median()
    assert median(gpu_type="H100") < median()
    assert median(gpus=8) < median()
    assert 1_800 < median(precision="amp-fp16") < 100_000  # ten epochs of ImageNet on one V100: hours, not days


def test_steps_alone_narrow_it_less_than_steps_and_size() -> None:
    asked = Submission("python x.py", gpus=1, gpu_type="A100")
    steps, sized = (
        predict(asked, facts(max_steps=100_000, batch_size_per_gpu=64, **more), EMPTY).duration_s
        for more in ({}, {"model": "resnet50"})
    )
    assert 3_600 < steps.p50 < 200_000 and 3_600 < sized.p50 < 200_000
    assert sized.p99 / sized.p50 < steps.p99 / steps.p50


def test_the_request_of_the_limit_bounds_every_quantile() -> None:
    asked = Submission("", user="ann", gpus=1, limit_s=500)
    prediction = predict(asked, NOTHING, past(20, duration_s=5_000.0))
    assert prediction.duration_s.p99 == 500
    assert "cut at the limit" in " ".join(prediction.reasons)


@settings(max_examples=150, deadline=None)
@given(records=history, limit_s=st.floats(1, 1e7), gpus=st.none() | st.integers(1, 64))
def test_the_chance_of_a_timeout_and_the_cut_quantiles_tell_one_story(
    records: list[JobRecord], limit_s: float, gpus: int | None
) -> None:
    prediction = predict(Submission("", user="ann", gpus=gpus, limit_s=limit_s), NOTHING, MemoryHistoryStore(records))
    q, timeout = prediction.duration_s, prediction.outcome.timeout
    for level, seconds in ((0.1, q.p10), (0.5, q.p50), (0.9, q.p90), (0.99, q.p99)):
        if seconds >= limit_s and limit_s > 1:
            assert timeout >= 1 - level - 1e-6
        if seconds < limit_s * (1 - 1e-6):
            assert timeout <= 1 - level + 1e-6


def test_a_limit_below_what_such_jobs_take_ends_them_at_it() -> None:
    asked = Submission("", user="ann", gpus=1, limit_s=3600)
    prediction = predict(asked, NOTHING, past(40, duration_s=8 * 3600.0, requested_s=None))
    assert prediction.duration_s.p50 == 3600
    assert prediction.outcome.timeout > 0.8 > 0.2 > prediction.outcome.completed
    told = " ".join(prediction.reasons)
    assert "half end within 8 h 0" in told and "timeout" in told and ",600 s" not in told


def test_short_failures_still_fail_under_a_short_limit() -> None:
    ends = [("completed", 30_000.0), ("failed", 60.0)] * 20
    slow = MemoryHistoryStore(
        JobRecord(str(i), 50_000.0 + i - ran_s, ran_s, 1, user="ann", outcome=outcome)  # type: ignore[arg-type]
        for i, (outcome, ran_s) in enumerate(ends)
    )
    free = predict(Submission("", user="ann", gpus=1), NOTHING, slow).outcome
    cut = predict(Submission("", user="ann", gpus=1, limit_s=600.0), NOTHING, slow).outcome
    assert cut.failed == pytest.approx(free.failed, abs=0.15) and cut.completed < 0.3 * free.completed


def test_jobs_killed_at_a_shorter_limit_would_have_run_on() -> None:
    killed = past(30, duration_s=1000.0, requested_s=1000.0, outcome="timeout")
    asked = Submission("", user="ann", gpus=1, limit_s=1000.0)
    assert predict(asked, NOTHING, killed).duration_s.p50 == 1000
    longer = predict(dataclasses.replace(asked, limit_s=4000.0), NOTHING, killed).duration_s
    assert 1000 <= longer.p50 <= 4000


def test_what_similar_jobs_say_is_quoted_as_it_was_weighed() -> None:
    """Many unlike jobs must not drown the few alike ones in what is said."""
    store = past(10, duration_s=7200.0)
    store.add(JobRecord(f"x{i}", 0.0, 60.0, 8, user="bob", outcome="completed") for i in range(40))
    told = predict(Submission("", user="ann", gpus=1), NOTHING, store).reasons[0]
    assert "half end within 2 h 0" in told


def test_outcomes_follow_what_similar_jobs_did() -> None:
    asked = Submission("", user="ann", gpus=1)
    failing = predict(asked, NOTHING, past(30, outcome="failed")).outcome
    passing = predict(asked, NOTHING, past(30)).outcome
    assert failing.failed > 0.8 > 0.1 > passing.failed
    cold = predict(asked, NOTHING, EMPTY).outcome
    assert (cold.completed, cold.failed, cold.cancelled, cold.timeout) == pytest.approx((0.693, 0.172, 0.135, 0))


def test_a_job_ended_at_its_limit_counts_as_timeout() -> None:
    asked = Submission("", user="ann", gpus=1, limit_s=1000)
    outcome = predict(asked, NOTHING, past(30, outcome="cancelled", requested_s=1000.0)).outcome
    assert outcome.timeout > 0.7


def test_memory_grows_with_the_model_and_shrinks_with_sharding() -> None:
    def memory(**more: JsonValue) -> float:
        known: dict[str, JsonValue] = {"model": "gpt", "model_params_approx": 1e9, "optimizer": "adamw"} | more
        return predict(Submission("", gpus=8), facts(**known), EMPTY).gpu_memory_mib.value

    assert memory() > 16e9 / 2**20
    assert memory(model_params_approx=3e9) > 2 * memory()
    assert memory(parallelism="zero3", batch_size_per_gpu=1) < 0.5 * memory(batch_size_per_gpu=1)
    assert memory(batch_size_per_gpu=64, precision="bf16") > memory(batch_size_per_gpu=1, precision="bf16")
    assert memory(activation_checkpointing=True, batch_size_per_gpu=64) < memory(batch_size_per_gpu=64)
    assert memory(workload_type="inference") < 0.5 * memory()


def test_observed_peaks_correct_the_arithmetic() -> None:
    asked = Submission("", user="ann", gpus=1)
    seen = predict(asked, NOTHING, past(30, peak_gpu_memory_mib=11_000.0, mean_gpu_utilization=0.9)).gpu_memory_mib
    cold = predict(asked, NOTHING, EMPTY).gpu_memory_mib
    assert seen.value == pytest.approx(11_000, rel=0.05)
    assert seen.high / seen.low < cold.high / cold.low


def test_a_job_that_does_not_fit_is_said_so() -> None:
    known = facts(model="llama", model_params_approx="70B", optimizer="adamw")
    prediction = predict(Submission("", gpus=1, gpu_type="A100"), known, EMPTY)
    assert "does not fit" in " ".join(prediction.reasons)
    assert prediction.gpu_fit is not None and prediction.gpu_fit.verdict == "does not fit"
    assert prediction.gpu_memory_mib.high <= 40 * 1024


def test_only_jobs_ended_by_the_time_of_asking_count() -> None:
    asked = Submission("", user="ann", gpus=1, submit_s=500.0)
    assert predict(asked, NOTHING, past(20, submit_s=0.0, duration_s=501.0)) == predict(asked, NOTHING, EMPTY)


@pytest.mark.parametrize(
    ("known", "is_text"),
    [
        ({"model": "gpt2"}, True),
        ({"model": "bert-base-uncased", "task": "text-classification"}, True),
        ({"task": "language-modeling"}, True),
        ({"model": "swin_transformer"}, False),
        ({"model": "google/vit-base", "task": "image-classification"}, False),
        ({"model": "transformer", "image_size": 224}, False),
        ({"model": "resnet50"}, False),
        ({}, False),
    ],
)
def test_text_and_image_models_are_told_apart(known: dict[str, JsonValue], is_text: bool) -> None:
    assert workload(Submission(""), facts(**known)).is_text is is_text


@pytest.mark.parametrize(
    ("known", "steps"),
    [
        ({"max_steps": 500, "epochs": 3}, 500),
        ({"epochs": 2, "dataset": "CIFAR-10", "global_batch_size": 100}, 1000),
        ({"epochs": 2, "dataset": "CIFAR100", "batch_size_per_gpu": 50, "num_gpus": 2}, 1000),
        ({"epochs": 1, "dataset": "wikitext-103", "global_batch_size": 100, "seq_len": 1180}, 1000),
        ({"epochs": 2, "dataset": "a private one"}, None),
        ({"dataset": "cifar10"}, None),
    ],
)
def test_steps_from_facts(known: dict[str, JsonValue], steps: float | None) -> None:
    assert workload(Submission(""), facts(**known)).steps == steps


@pytest.mark.parametrize(
    ("gpu_type", "name", "memory_gib"),
    [
        ("A100", "A100", 40),
        ("nvidia_a100-sxm4-80gb", "A100", 80),
        ("NVIDIA A10", "A10", 24),
        ("gpu:h100", "H100", 80),
        ("Tesla V100-PCIE-32GB", "V100", 32),
        ("rtx 3090", "3090", 24),
        ("abacus", None, 0),
        (None, None, 0),
    ],
)
def test_gpu_names_as_schedulers_write_them(gpu_type: str | None, name: str | None, memory_gib: int) -> None:
    gpu = gpu_model(gpu_type)
    assert (gpu.name if gpu else None) == name
    assert gpu is None or gpu.memory_mib == memory_gib * 1024


ABSURD = (-1e300, -5.0, 0.0, 1e-300, 1.0, 50.0, 1e12, 1e15, 1e300)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "duration_s": st.sampled_from([0.0, 1e-300, 1.0, 50.0, 1e12, 1e15]),
                "requested_s": st.none() | st.sampled_from(ABSURD),
                "peak_gpu_memory_mib": st.none() | st.sampled_from(ABSURD),
                "peak_host_memory_mib": st.none() | st.sampled_from(ABSURD),
                "command": st.sampled_from(
                    ["python a.py --lr 1e308", "python a.py --lr -inf", "a --x=nan --y", "", "="]
                ),
                "facts": st.dictionaries(
                    st.sampled_from(["epochs", "model", "framework", "max_steps", "model_params_approx"]),
                    st.sampled_from([None, True, -1, 10**400, float("nan"), "1e400", [], [[]], {}, "x" * 999, 1e17]),
                ),
            }
        ),
        max_size=12,
    ),
    st.none() | st.sampled_from([1e-9, 10.0, 1e9, 1e300]),
)
@pytest.mark.filterwarnings("error")
def test_absurd_numbers_in_a_history_lead_to_finite_ones_in_order(past: list[dict], limit_s: float | None) -> None:
    history = MemoryHistoryStore(
        JobRecord(str(n), 100.0 * n, gpus=1, user="ann", **each) for n, each in enumerate(past)
    )
    asked = Submission("python a.py --lr 1e308", user="ann", gpus=1, limit_s=limit_s)
    facts = SourceFacts({"epochs": Fact(10**400, 0.9)})
    told = predict(asked, facts, history)
    check(told, limit_s)


def test_threads_that_ask_one_predictor_are_told_the_same() -> None:
    history = past(60, command="python a.py", peak_gpu_memory_mib=500.0)
    asked = Submission("python a.py", user="ann", gpus=1)
    alone, shared = Predictor(history).predict(asked, NOTHING), Predictor(history)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(6) as threads:
            told = list(threads.map(lambda _: shared.predict(asked, NOTHING), range(24)))
    finally:
        sys.setswitchinterval(before)
    assert told == [alone] * 24
