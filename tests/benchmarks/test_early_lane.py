"""The benchmark of the early-failure lane: what is said of whom, and one small run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analyzers.types import JobRecord
from benchmarks import early_lane
from schedmate.simulator.estimates import Requested


def test_what_is_said() -> None:
    early, predicted = frozenset({"a"}), {"a": 0.5, "b": 0.1, "c": 0.0}
    said = {
        kind: {job: early_lane.chances(kind, early, predicted, 3)(job, predicted[job]) for job in predicted}
        for kind in early_lane.SAID
    }
    assert said["off"] == said["predicted"] == predicted
    assert said["perfect"] == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert said["reversed"] == {"a": 0.0, "b": 1.0, "c": 1.0}
    assert set(said["all"].values()) == {1.0}
    assert sorted(said["shuffled"].values()) == sorted(predicted.values())


def test_limits_alone_have_no_times() -> None:
    case = early_lane.unread("independent", 1, 20)
    record = case.records[0]
    saying = early_lane.Saying(Requested(), "limits", lambda job_id, chance: 0.25)
    job = saying.job(record)
    assert job.hints is not None
    assert (job.hints.expected_s, job.hints.fails_early, job.limit_s) == (None, 0.25, record.requested_s)
    assert saying.said == {record.job_id: 0.25}


def test_a_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--generator", "semantic", "--times", "limits", "--seeds", "1", "--jobs", "120", "--load", "3"]
    early_lane.main(words)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    told: dict[str, Any] = {line[1]: line for line in lines if line[0] == "limits" and line[1] in early_lane.SAID}
    assert list(told) == list(early_lane.SAID)
    assert told["off"][2] == "1.000"
    assert told["off"][-2:] == ["0.0", "0.00%"], "without the lane nobody is put back"
    assert float(told["perfect"][2]) < 1.0, "who fails early waits less if that is known"


def test_what_is_said_of_a_trace_is_told_to_every_replay() -> None:
    record = JobRecord("a", 5.0, 60.0, 2, requested_s=600.0, outcome="failed", user="ann")
    long = replace(record, job_id="b", duration_s=900.0)
    hints = early_lane.forecast_hints([record, long])
    workload = early_lane.of_trace([record, long], hints, 1)
    assert workload.early == {"a"}
    job = workload.estimates().job(workload.records[0])
    assert (job.job_id, job.limit_s, job.gpus) == ("a", 600.0, 2)
    assert job.hints == hints["a"]
