"""The benchmark of scheduling by predictions: what is not over changes no decision, and its table says what it is."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from analyzers.types import JobRecord
from benchmarks.scheduling import LastTwo, Variant, main, row, variants
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Result, simulate

HONEST = {name: variant for name, variant in variants().items() if not variant.sees}


def workload(jobs: int, seed: int = 1) -> list[JobRecord]:
    """Users who repeat themselves and now and then do not, on a machine that is full most of the time."""
    draw, records, at_s = random.Random(seed), list[JobRecord](), 0.0
    for number in range(jobs):
        at_s += draw.expovariate(1 / 120.0)
        user = draw.randrange(6)
        usual_s = 60.0 * 3**user * draw.lognormvariate(0, 0.3 if draw.random() < 0.8 else 2.0)
        asked_s = 60.0 * 3**user * draw.choice((2, 4, 20))
        records.append(
            JobRecord(
                f"j{number}", at_s, max(1.0, usual_s), draw.choice((1, 4, 16, 60)), start_s=at_s, user=f"u{user}",
                requested_s=asked_s, outcome="completed", end_s=at_s + usual_s,
            )
        )  # fmt: skip
    return records


def started_by(result: Result, moment: float) -> dict[str, float]:
    starts = zip(result.job_ids, result.start_s.tolist(), strict=True)
    return {name: start_s for name, start_s in starts if start_s <= moment}


def play(records: list[JobRecord], variant: Variant) -> Result:
    return simulate(records, ClusterSpec.uniform(1, 100), variant.policy, variant.estimates())


@pytest.mark.parametrize("name", sorted(HONEST))
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_poisoned_future_changes_no_decision_before(name: str, share: float) -> None:
    """Other runtimes, other ends and other outcomes of all that has not ended by a moment, and other jobs after it."""
    records = workload(240)
    moment = records[int(share * len(records))].submit_s
    one = play(records, HONEST[name])
    end_s = dict(zip(one.job_ids, one.end_s.tolist(), strict=True))
    start_s = dict(zip(one.job_ids, one.start_s.tolist(), strict=True))
    draw, other = random.Random(2), list[JobRecord]()
    for record in records:
        if end_s[record.job_id] > moment:
            ran_s = max(0.0, moment - start_s[record.job_id])
            poisoned_s = ran_s + 1.0 + draw.random() * 50_000.0
            record = replace(
                record, duration_s=poisoned_s, start_s=None, end_s=9e9, outcome="failed", state="node_fail", attempts=7
            )
        other.append(record)
    past = [record for record in other if record.submit_s <= moment]
    later = [record for record in other if record.submit_s > moment]
    gpus = [record.gpus for record in later]
    draw.shuffle(gpus)
    later = [replace(record, gpus=wanted) for record, wanted in zip(later, gpus, strict=True)]
    two = play([*past, *later], HONEST[name])
    before = started_by(one, moment)
    assert len(before) > 30
    assert before == started_by(two, moment)
    assert started_by(one, 1e12) != started_by(two, 1e12)


def test_one_that_is_told_the_truth_is_caught() -> None:
    """The property above can fail."""
    variant = variants()["shortest first, perfect times"]
    records = workload(240)
    moment = records[120].submit_s
    one = play(records, variant)
    start_s = dict(zip(one.job_ids, one.start_s.tolist(), strict=True))
    other = [replace(r, duration_s=1.0) if start_s[r.job_id] > moment else r for r in records]
    assert started_by(one, moment) != started_by(play(other, variant), moment)


@pytest.mark.parametrize("name", sorted(variants()))
def test_nobody_is_ended_before_its_requested_time(name: str) -> None:
    """Whatever was predicted: each job runs until it ends by itself or has had what it asked for, in one go."""
    records = workload(240)
    result = play(records, variants()[name])
    ran_s = dict(zip(result.job_ids, (result.end_s - result.start_s).tolist(), strict=True))
    assert result.evictions == 0
    assert len(ran_s) == len(records)
    for record in records:
        assert ran_s[record.job_id] == pytest.approx(min(record.duration_s or 0.0, record.requested_s or 0.0))


def test_last_two_never_above_the_request() -> None:
    known = LastTwo()
    job = JobRecord("j", 0.0, 100.0, 1, user="ann", requested_s=500.0)
    assert known.quantiles(job).p50 == 500.0
    for ran_s in (100.0, 300.0, 500.0):
        known.observe(replace(job, duration_s=ran_s))
    assert known.quantiles(job).p90 == 400.0
    assert known.quantiles(replace(job, requested_s=50.0)).p50 == 50.0
    assert known.quantiles(replace(job, user="bob", requested_s=None)).p50 == 700.0


def test_a_row_says_how_far_below_it_is() -> None:
    numbers = {"bounded_slowdown_mean": 60.0, "queueing_mean_s": 5e3, "queueing_p99_s": 9e4, "queueing_max_s": 5e5}
    assert row("x", numbers, 80.0, []) == "| x | 60.0 | 25 % | 5,000 | 90,000 | 500,000 |"
    assert row("x", numbers, 80.0, [59.0, 61.0]) == "| x | 60.0 | 25 % | 60.0 ±2.0 | 5,000 | 90,000 | 500,000 |"


def test_a_folder_without_the_trace_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["scheduling", "--data", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert "kth_sp2" in str(stopped.value) and "\n" not in str(stopped.value)
