"""The comparison of what hints are worth: who knows what, and the load that it is made at."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.semantic_scheduling import KNOWS, Case, Measured, at_queue, estimates, make, play, queue, row, told
from prompts.errors import UserError
from schedmate.workload import SemanticGenerator, WorkloadSpec


@pytest.fixture(scope="module")
def case() -> Case:
    return make(SemanticGenerator(WorkloadSpec(seed=5, jobs=40)))


def test_only_the_oracle_knows_how_long_a_job_will_run(case: Case) -> None:
    longer = [replace(record, duration_s=(record.duration_s or 0.0) * 7 + 99) for record in case.records]
    for knows in KNOWS:
        told_first = estimates(case, case.records, knows).job(case.records[0])
        told_of_longer = estimates(case, longer, knows).job(longer[0])
        assert (told_first == told_of_longer) == (knows != "oracle")


def test_metadata_sees_neither_source_nor_command(case: Case) -> None:
    asked = case.records[:1]
    other = Case(case.records, case.submissions, dict.fromkeys(case.facts, next(iter(case.facts.values()))), case.truth)
    last = case.records[-1:]
    assert estimates(case, last, "metadata").job(last[0]) == estimates(other, last, "metadata").job(last[0])
    assert estimates(case, asked, "source").job(asked[0]).hints is not None


def test_the_load_is_the_first_at_which_the_core_queues_that_long(case: Case) -> None:
    records, load = at_queue(case.records, 0.01)
    assert queue(play(case, records, "no hints")) >= 0.01
    assert load >= 0.5
    with pytest.raises(UserError, match="take more --jobs"):
        at_queue(case.records, 1e6)


def test_ratios_are_those_of_mean_jct(case: Case) -> None:
    found = row(case, case.records, 1.0)
    same = replace(found, plain=dict.fromkeys(KNOWS, 100.0), evicting={**dict.fromkeys(KNOWS, 50.0), "no hints": 80.0})
    plain, evicting = told("semantic", [same, same])
    assert "1.00 ±0.00" in plain
    assert "1.60 ±0.00" in evicting
    assert evicting.rstrip().endswith("2.00 ±0.00")


def test_who_knows_whole_runs_knows_not_which_break_off(case: Case) -> None:
    said = estimates(case, case.records, "whole runs")
    for record in case.records:
        truth, told_s = case.truth[record.job_id], said.job(record).estimate_s or 0.0
        assert told_s <= (record.requested_s or math.inf)
        if truth.outcome == "completed" and not truth.stopped_early:
            assert told_s == min(truth.duration_s, record.requested_s or math.inf)
        else:
            assert told_s >= min(truth.duration_s, record.requested_s or math.inf)
    broken = [case.truth[record.job_id] for record in case.records if record.outcome == "failed"]
    assert any(truth.duration_s < 0.5 * truth.steps_planned * truth.step_s for truth in broken)


def test_rows_of_an_earlier_release_are_measured_again(case: Case, tmp_path: Path) -> None:
    found = row(case, case.records, 1.0, evicts=False)
    measured = Measured(tmp_path / "rows.jsonl")
    assert measured.row("a", lambda: found) == found
    assert Measured(tmp_path / "rows.jsonl").row("a", lambda: replace(found, load=2.0)) == found
    less = replace(found, plain={key: value for key, value in found.plain.items() if key != "whole runs"})
    Measured(tmp_path / "old.jsonl").row("a", lambda: less)
    assert Measured(tmp_path / "old.jsonl").row("a", lambda: found) == found
