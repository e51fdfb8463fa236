"""The scoreboard: its numbers are those of the sweep, and what it can not say it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.results import BEGIN, END, SPEC, present, put_between, short_table, tables
from prompts.errors import UserError
from schedmate.knowledge import NO_REQUESTED
from schedmate.scheduler import POLICIES
from schedmate.sweep.spec import read_spec

NUMBERS = {"mean": 0.5, "low": 0.25, "high": 0.75}


def row(**more):
    metrics = ("jct_mean_s", "queueing_mean_s", "queueing_p99_s", "queueing_max_s", "delay_mean_s",
               "bounded_slowdown_mean", "sor_while_arriving", "sor", "gfr")  # fmt: skip
    return {
        "workload": "w", "note": "a trace", "synthetic": False, "load": 1.0, "policy": "easy", "estimates": "perfect",
        "reason": None, "seeds": [1, 2], "jobs": 1234, "metrics": dict.fromkeys(metrics, NUMBERS), "jct_ratio": NUMBERS,
    } | more  # fmt: skip


def test_the_numbers_carry_their_intervals() -> None:
    text = tables([row()], 30.0)
    assert "Means over 2 replays with submit times moved by up to 30 s, 1,234 jobs each" in text
    last = text.strip().splitlines()[-1]
    assert last.startswith("| easy | true runtimes | 0 ±0 |") and "50.0 ±25.0" in last and "0.500 ±0.250" in last


def test_who_looks_at_no_runtimes_is_said_to_know_nothing_of_them() -> None:
    for policy in ("fifo", "tiresias"):
        text = tables([row(policy=policy, estimates="requested")], 30.0)
        assert text.strip().splitlines()[-1].startswith(f"| {policy} | nothing of runtimes |")


def test_what_the_trace_records_is_the_last_row() -> None:
    spread = {"mean": 1.0, "p99": 2.0, "max": 3.0}
    told = {"w": {"jct_s": spread, "queueing_s": spread, "bounded_slowdown": spread}}
    line = tables([row()], 30.0, told).strip().splitlines()[-1]
    assert line == "| as recorded | what its own scheduler knew | 1 | 1 | 2 | 3 | n/a | 1.00 | n/a | n/a | n/a |  |"
    assert "as recorded" not in tables([row(load=2.0)], 30.0, told)


def test_what_can_not_be_had_is_told_once_with_its_reason() -> None:
    missing = row(metrics=None, jct_ratio=None, jobs=None, reason="no users")
    text = tables([row(), missing | {"policy": "qssf"}, missing | {"policy": "multifactor"}], 30.0)
    assert text.strip().splitlines()[-1] == "n/a with true runtimes: `qssf`, `multifactor` (no users)."
    assert "| qssf |" not in text


def test_without_requested_times_who_would_look_at_them_knows_nothing() -> None:
    missing = row(metrics=None, jct_ratio=None, estimates="requested", reason=NO_REQUESTED)
    kant = row(policy="kant", estimates="requested")
    assert "| kant | nothing of runtimes |" in tables([missing, kant], 30.0)
    assert "| kant | requested times |" in tables([kant], 30.0)


def test_a_row_of_fewer_replays_says_so_and_why() -> None:
    slow = row(policy="conservative", seeds=[1], fewer_because="one takes a minute")
    text = tables([slow, row(fewer_because=None)], 30.0)
    assert "Means over 2 replays" in text and "Where fewer replays are named: one takes a minute." in text
    assert "| conservative (1 replays) | true runtimes |" in text and "| easy | true runtimes |" in text


def test_a_metric_without_meaning_is_not_a_number() -> None:
    found = {name: value for name, value in row()["metrics"].items() if name != "gfr"}
    text = tables([row(metrics=found)], 30.0)
    assert text.strip().splitlines()[-1].endswith("| 50.0 ±25.0 | n/a | 0.500 ±0.250 |")


def test_synthetic_is_called_synthetic() -> None:
    assert "**Synthetic**" in tables([row(synthetic=True)], 30.0)


def test_the_short_table_has_a_column_a_workload_and_says_what_is_missing() -> None:
    rows = [
        row(policy="fifo", estimates="requested"), row(), row(workload="made", synthetic=True, policy="easy"),
        row(policy="core", metrics=None, jct_ratio=None, reason="none"), row(load=2.0, workload="other"),
    ]  # fmt: skip
    lines = short_table(rows).strip().splitlines()
    assert "| policy | knows | w | made (synthetic) |" in lines
    assert "| `fifo` | nothing of runtimes | 0 ±0 | n/a |" in lines
    assert "| `easy` | true runtimes | 0 ±0 | 0 ±0 |" in lines
    assert "| `core` | true runtimes | n/a | n/a |" in lines


def test_readme_and_results_have_the_marks() -> None:
    for name in ("README.md", "docs/results.md"):
        put_between((SPEC.parent.parent / name).read_text(encoding="utf-8"), "new")


def test_only_what_is_between_the_marks_is_replaced() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = put_between(document, "new")
    assert once == put_between(once, "new") and "old" not in once
    assert once.startswith("before\n") and once.endswith("\nafter\n")
    with pytest.raises(UserError):
        put_between("no marks", "new")


def test_the_spec_takes_policies_from_the_registry_and_leaves_out_missing_traces(tmp_path: Path) -> None:
    spec, missing = present(read_spec(SPEC, tmp_path))
    assert {policy for policy, _ in spec.runs} == set(POLICIES)
    assert [each.name for each in spec.workloads] == ["synthetic"]
    assert missing == ["philly_oct_w1", "itp_c04", "kth_sp2"]


def test_the_results_document_has_its_marks() -> None:
    text = (SPEC.parent.parent / "docs" / "results.md").read_text(encoding="utf-8")
    assert put_between(text, "x") != text
