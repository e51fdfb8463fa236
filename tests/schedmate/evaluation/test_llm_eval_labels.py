"""Label files of any kind: each row is a case or is counted as none; and the synthetic set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analyzers.failures import diagnose
from analyzers.types import FACT_NAMES, Diagnosis
from schedmate.evaluation.cases import job_cases, log_cases
from schedmate.evaluation.jobs import State, state_of
from schedmate.evaluation.logs import judge_log
from schedmate.evaluation.synthetic import synthetic_cases

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner))
FACT = st.sampled_from(FACT_NAMES)
JOB = st.fixed_dictionaries(
    {"id": JSON | st.just("one"), "repo": JSON | st.just("tree"), "launch": JSON | st.just("python a.py")},
    optional={
        "workdir": JSON,
        "expected": JSON | st.dictionaries(FACT, JSON),
        "accept": JSON | st.dictionaries(FACT, JSON),
        "wrong_values": JSON | st.dictionaries(FACT, JSON),
        "must_not_guess": JSON,
    },
)
LOG = st.fixed_dictionaries(
    {"id": JSON | st.just("one"), "category": JSON | st.just("data")},
    optional={
        "log": JSON,
        "files": JSON | st.just(["tree/a", "tree/b"]),
        **dict.fromkeys(("evidence", "alt_evidence", "culprit_rank", "culprit_node", "retryable"), JSON),
        "action": JSON | st.just("fix_code"),
        "alt_actions": JSON,
        "alt_categories": JSON,
    },
)
SAID = Diagnosis("data", "", 0.7, (1,), ("n1",), retryable=True, action="fix_code")
QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    for name in "ab":
        (tmp_path / "tree" / name).write_text("x\n")
    return tmp_path


@QUIET
@given(st.lists(JOB | JSON, max_size=4), FACT, PLAIN)
def test_any_row_of_jobs_is_judged_or_counted(root: Path, rows: list[Any], name: str, found: Any) -> None:
    labels = root / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = job_cases(labels, root)
    assert len(read.cases) + read.skipped.total() == len(rows)
    for case in read.cases:
        assert case.path is not None and case.path.is_dir() and case.path.is_relative_to(root.resolve())
        state: State = state_of(case.label, name, found)
        assert (state == "silent") == (found is None)


@QUIET
@given(st.lists(LOG | JSON, max_size=4))
def test_any_row_of_logs_is_judged_or_counted(root: Path, rows: list[Any]) -> None:
    labels = root / "labels.jsonl"
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = log_cases(labels, root)
    assert len(read.cases) + read.skipped.total() == len(rows)
    for case in read.cases:
        assert case.path is None or case.path.exists()
        assert judge_log(case.label, SAID).measures["category_strict"][0]


def test_where_files_and_trees_are_looked_for(root: Path) -> None:
    (root / "own+er").mkdir()
    (root / "deep" / "er" / "inner").mkdir(parents=True)
    labels = root / "labels.jsonl"
    job = {"launch": "x", "expected": {}}
    rows = [
        {"id": "1", "repo": "own/er", **job},
        {"id": "2", "repo": "deep/er", "workdir": "inner", **job},
        {"id": "3", "repo": "tree", "workdir": "../..", **job},
        {"id": "4", "repo": "/etc", **job},
    ]
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = job_cases(labels, root)
    assert [case.path for case in read.cases] == [root.resolve() / "own+er", root.resolve() / "deep/er/inner"]
    log = {"category": "data"}
    rows = [
        {"id": "1", "files": ["tree/a"], **log},
        {"id": "2", "files": ["tree/a", "tree/b"], **log},
        {"id": "3", "files": ["tree/a", "tree/gone"], **log},
        {"id": "4", "files": ["../secret"], **log},
        {"id": "5", "files": ["tree/a", "labels.jsonl"], **log},
    ]
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = log_cases(labels, root)
    assert [case.path for case in found.cases] == [root.resolve() / "tree/a", root.resolve() / "tree"]
    assert found.skipped == {"without its log files": 3}
    assert [case.name for case in log_cases(labels, root, limit=1).cases] == ["1"]


def test_the_synthetic_set_has_so_many_of_each_and_its_labels_are_true(tmp_path: Path) -> None:
    jobs, logs = synthetic_cases(tmp_path, 6)
    assert len(jobs.cases) == len(logs.cases) == 6
    for cases in (jobs.cases, logs.cases):
        names = [case.name for case in cases]
        assert len(set(names)) == 6 and {name.split("-")[0] for name in names} == {"semantic", "independent"}
    right = sum(
        judge_log(case.label, diagnose(case.path or tmp_path)).measures["category"][1] == "right" for case in logs.cases
    )
    assert right >= 5, "the cause that was put into a log is found there"
    assert all((case.path or tmp_path / "gone").is_dir() for case in jobs.cases)
