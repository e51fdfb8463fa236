"""The comparison of what hints are worth: who knows what, and the load that it is made at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.semantic_scheduling import KNOWS, Case, at_queue, estimates, make, play, queue, row, told
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
    records, load = at_queue(case, 0.01)
    assert queue(play(case, records, "no hints")) >= 0.01
    assert load >= 0.5
    with pytest.raises(UserError, match="take more --jobs"):
        at_queue(case, 1e6)


def test_ratios_are_those_of_mean_jct(case: Case) -> None:
    found = row(case, case.records, 1.0)
    same = replace(found, plain=dict.fromkeys(KNOWS, 100.0), evicting={**dict.fromkeys(KNOWS, 50.0), "no hints": 80.0})
    plain, evicting = told("semantic", [same, same])
    assert "1.00 ±0.00" in plain
    assert "1.60 ±0.00" in evicting
    assert evicting.rstrip().endswith("2.00 ±0.00")
