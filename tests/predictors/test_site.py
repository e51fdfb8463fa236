"""The site's own jobs correct what published figures say: of how long jobs run, and of the memory that they take."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.history import MemoryHistoryStore
from analyzers.types import Fact, JobRecord, SourceFacts, Submission
from predictors import effects, predict
from predictors.effects import EFFECTS, Compared, solve_trusted, trusted
from predictors.mixture import Mixture
from predictors.site import Effects, Job, shaped
from predictors.site_durations import Ends
from predictors.traits import Traits, traits_of
from predictors.traits import settings as settings_of


def job(number: int, **more: object) -> JobRecord:
    known: dict[str, object] = {"duration_s": 8.0, "user": "ann", "name": "train", "outcome": "completed"}
    return JobRecord(str(number), 100.0 * number, gpus=1, **{**known, **more})  # type: ignore[arg-type]


def run(width: int, number: int, **more: object) -> JobRecord:
    """A run that takes as long and as much as it is wide."""
    command = f"python train.py --width {width}"
    return job(number, command=command, duration_s=width / 10, peak_host_memory_mib=100.0 + width, **more)


def asked(command: str, user: str = "ann") -> Submission:
    return Submission(command, user=user, name="train", gpus=1)


KNOWN = SourceFacts({"framework": Fact("pytorch", 0.9)})


def test_ten_jobs_of_seconds_tell_that_jobs_take_seconds_here() -> None:
    past = MemoryHistoryStore(job(n, duration_s=5.0 + n % 4, facts={"framework": "pytorch"}) for n in range(10))
    told = predict(asked("python other.py", user="bob"), KNOWN, past).duration_s
    assert told.p50 < 30 and predict(asked("python other.py"), KNOWN, MemoryHistoryStore()).duration_s.p50 > 300


def test_what_a_program_is_set_to_is_told_from_what_others_are() -> None:
    widths = (64, 256, 1024)
    past = MemoryHistoryStore(run(widths[n % 3], n) for n in range(18))
    told = [predict(asked(f"python train.py --width {width}"), SourceFacts(), past) for width in widths]
    blind = predict(dataclasses.replace(asked(""), command=""), SourceFacts(), past)
    for width, each in zip(widths, told, strict=True):
        assert each.duration_s.p50 == pytest.approx(width / 10, rel=0.25)
        assert each.host_memory_mib.value == pytest.approx(100 + width, rel=0.1)
        assert each.duration_s.p90 / each.duration_s.p10 < blind.duration_s.p90 / blind.duration_s.p10


def test_a_width_that_was_never_run_lies_between_those_that_were() -> None:
    past = MemoryHistoryStore(run((64, 128, 512, 1024)[n % 4], n) for n in range(20))
    told = predict(asked("python train.py --width 256"), SourceFacts(), past)
    assert 12.8 < told.duration_s.p50 < 51.2 and 228 < told.host_memory_mib.value < 612


def test_arithmetic_that_is_off_at_this_site_is_corrected_for_programs_never_seen() -> None:
    known = {"model": "resnet50", "model_params_approx": 25_600_000, "batch_size_per_gpu": 32, "optimizer": "SGD"}
    facts = SourceFacts({name: Fact(value, 0.9) for name, value in known.items()})
    bare = predict(asked("python new.py"), facts, MemoryHistoryStore()).gpu_memory_mib
    past = MemoryHistoryStore(
        job(n, user=f"u{n % 5}", command=f"python p{n}.py", facts=known, peak_gpu_memory_mib=2.0 * bare.value)
        for n in range(15)
    )
    told = predict(asked("python new.py"), facts, past).gpu_memory_mib
    assert told.value == pytest.approx(2.0 * bare.value, rel=0.2) and told.low < told.value < told.high


def test_without_any_peak_the_arithmetic_stands() -> None:
    facts = SourceFacts({name: Fact(value, 0.9) for name, value in {"model": "resnet50"}.items()})
    bare = predict(asked("python new.py"), facts, MemoryHistoryStore()).gpu_memory_mib
    assert predict(asked("python new.py"), facts, MemoryHistoryStore([job(1)])).gpu_memory_mib == bare


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=12), st.floats(1.0, 1e6))
def test_what_is_submitted_later_changes_nothing(durations: list[float], other: float) -> None:
    """What had ended by the moment of asking decides: other ends after it, or other jobs, are not read."""
    records = [job(n, duration_s=duration, start_s=100.0 * n) for n, duration in enumerate(durations)]
    moment_s = 100.0 * len(durations) / 2
    known = [r for r in records if (r.start_s or 0.0) + (r.duration_s or 0.0) <= moment_s]
    changed = known + [dataclasses.replace(r, duration_s=moment_s + other) for r in records if r not in known]
    when = dataclasses.replace(asked("python train.py"), submit_s=moment_s)
    told = [predict(when, SourceFacts(), MemoryHistoryStore(each)) for each in (records, changed, known)]
    assert told[0].duration_s == told[1].duration_s == told[2].duration_s
    assert told[0].host_memory_mib == told[1].host_memory_mib == told[2].host_memory_mib


def test_the_longer_ago_a_job_was_submitted_the_longer_it_can_have_taken() -> None:
    """Of many long jobs the short ones end first; the others count for those that are not known yet."""
    rng = np.random.default_rng(5)
    truths, submitted = rng.normal(0.0, 1.0, 2_000), rng.uniform(-2.0, 3.0, 2_000)
    known = truths <= submitted
    seen = shaped(truths[known], submitted[known], 0.0, 1e-6)
    plain = float(np.median(truths[known]))
    corrected = math.log(float(seen.quantile_s((0.5,))[0]))
    assert plain < -0.2 and abs(corrected) < 0.1


points = st.lists(
    st.tuples(st.floats(-5.0, 15.0), st.floats(0.1, 10.0)), min_size=1, max_size=20, unique_by=lambda p: p[0]
)


@settings(max_examples=100, deadline=None)
@given(points, points, st.floats(0.0, 10.0))
def test_whole_runs_are_moved_to_the_point_and_what_breaks_off_does_so_when_it_did(
    whole: list[tuple[float, float]], broken: list[tuple[float, float]], point: float
) -> None:
    parts = [Mixture(*np.array(sorted(each)).T) for each in (whole, broken)]
    found = Ends.of(*parts).at(point)
    assert found.mass == pytest.approx(parts[0].mass + parts[1].mass)
    assert (np.diff(found.points) >= 0.0).all() and (found.weights >= 0.0).all()
    assert np.isin(parts[1].points, found.points).all()
    below = float(found.weights[found.points < point].sum())
    assert below == pytest.approx(0.5 * found.mass) or below in (pytest.approx(0.0), pytest.approx(found.mass))


texts = st.text("ab-=1. ", max_size=12)
some_traits = st.builds(
    lambda user, name, command, limit_s, facts: traits_of(
        JobRecord("x", 0.0, None, 1, user=user, name=name, command=command, requested_s=limit_s, facts=facts)
    ),
    st.none() | st.sampled_from(["ann", "bob"]),
    st.none() | texts,
    st.none() | texts.map(lambda words: f"python train.py {words}"),
    st.none() | st.floats(1.0, 1e7),
    st.dictionaries(
        st.sampled_from(["epochs", "max_steps", "model", "framework"]), st.integers(-3, 10**9) | texts, max_size=4
    ),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(some_traits, min_size=1, max_size=8), some_traits, st.randoms(use_true_random=False))
def test_comparing_is_symmetric_and_can_be_solved(traits: list[Traits], other: Traits, draw: object) -> None:
    compared = Compared(traits)
    among = compared.among()
    assert among.shape == (len(EFFECTS) - 1, len(traits), len(traits))
    assert np.allclose(among, among.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(among.sum(axis=0)).min() > -1e-6
    residuals = np.linspace(-5.0, 5.0, len(traits))
    trust = trusted(effects.START, residuals, among, np.ones(len(traits)))
    middle, spread = solve_trusted(effects.START, residuals, among, np.ones(len(traits))).said(
        *compared.one_more(other)
    )
    assert math.isfinite(middle) and spread > 0.0 and (trust <= 1.0).all()


def test_what_does_not_tell_jobs_apart_loses_its_say() -> None:
    """Where users differ and settings do not matter, the effects that are learned say so; and the other way round."""

    def learned(of_user: float, of_width: float) -> dict[str, float]:
        found = Effects()
        for n in range(80):
            record = run((64, 1024)[n % 2], n, user=f"u{n % 7}")
            residual = of_user * (n % 7 - 3) + of_width * (n % 2) + 0.05 * math.sin(n)
            found.learn(Job(traits_of(record), residual))
        return dict(zip(EFFECTS, np.exp(found.logs()), strict=True))

    users, widths = learned(1.0, 0.0), learned(0.0, 2.0)
    assert users["user"] + users["user and name"] > 2.0 * (widths["user"] + widths["user and name"])
    assert widths["settings"] > 2.0 * users["settings"]


@pytest.mark.parametrize(
    ("command", "numbers", "words"),
    [
        ("python train.py --width 64 --lr=1e-3 16", {"width": 64.0, "lr": 1e-3, "#2": 16.0}, set()),
        ("python run.py small.json --model forest -v", {}, {"=small.json", "model=forest"}),
        ("", {}, set()),
    ],
)
def test_the_settings_of_a_command(command: str, numbers: dict[str, float], words: set[str]) -> None:
    found, others = settings_of(command)
    assert found == pytest.approx({name: math.log(value) for name, value in numbers.items()}) and others == words


@pytest.mark.parametrize("before_s", [None, 86_400.0])
@pytest.mark.parametrize("asked_s", [None, 60.0, 600.0, 1e6])
def test_another_limit_does_not_change_how_long_the_same_work_takes(
    before_s: float | None, asked_s: float | None
) -> None:
    jobs = [
        JobRecord(
            str(n), 100.0 * n, 50.0 + n % 3, 1, user="ann", name="train", outcome="completed",
            command="python train.py", requested_s=before_s,
        )
        for n in range(7)
    ]  # fmt: skip
    asked = Submission("python train.py", user="ann", name="train", gpus=1, limit_s=asked_s)
    told = predict(asked, SourceFacts(), MemoryHistoryStore(jobs))
    assert 40.0 < told.duration_s.p50 < 65.0
    short = predict(dataclasses.replace(asked, limit_s=10.0), SourceFacts(), MemoryHistoryStore(jobs))
    assert short.outcome.timeout > 0.5
