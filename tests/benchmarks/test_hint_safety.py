"""The benchmark of wrong hints: what it counts, on jobs small enough to see it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from analyzers.types import JobRecord
from benchmarks import hint_safety
from benchmarks.hint_safety import ONE_LIES, TRUTH, Watched, curves, jct_ratio, play, rows_of, table, tenant_ratios
from benchmarks.hint_safety_picture import svg
from schedmate.scheduler import POLICIES, ClusterSpec, Job
from schedmate.scheduler.policies import at_once

SPEC = ClusterSpec.uniform(2, 4)


def records(number: int) -> list[JobRecord]:
    return [
        JobRecord(f"j{i}", 30.0 * i, 20.0 + 1500.0 * (i % 7 == 0) + 10 * (i % 5), 1 + i % 4, requested_s=4000.0)
        for i in range(number)
    ]


def test_starts_that_were_told_are_counted_and_late_ones_found() -> None:
    policy = replace(POLICIES["core"], reserve_from=at_once)
    found = play(records(120), SPEC, policy, "reversed", 1)
    assert found.starts > 0 and found.late == 0
    watched = Watched(ClusterSpec.uniform(1, 1), policy)
    first = watched.submit(Job("a", 1, 0.0, limit_s=10.0))
    watched.cycle(0.0)
    watched.submit(Job("b", 1, 0.0, limit_s=10.0))
    watched.cycle(1.0)
    watched.end(first, 25.0)  # beyond its limit: whoever ends jobs has failed to
    watched.cycle(25.0)
    assert (watched.kept, watched.late) == (0, 1)


def test_a_row_for_each_kind_and_gate_and_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_safety, "SEEN", 20)
    rows = list(rows_of("t", records(80), SPEC, "core", 1, set()))
    assert [(row["kind"], row["gated"]) for row in rows] == [(k, g) for k in hint_safety.KINDS for g in (False, True)]
    assert len({row["without_s"] for row in rows}) == 1
    assert all(0 < row["jobs"] < 80 for row in rows)
    done = {("t", "core", 1, row["kind"], row["gated"]) for row in rows}
    assert list(rows_of("t", records(80), SPEC, "core", 1, done)) == []
    text = table(rows)
    assert text.count("\n") == 1 + len(rows)
    assert "one tenant lies" in text
    ElementTree.fromstring(svg(curves(rows), list(hint_safety.WORDS.values())))


def test_ratios_are_taken_shake_by_shake() -> None:
    row: dict[str, Any] = {"kind": ONE_LIES, "without_s": 100.0, "jct_s": 110.0}
    row |= {"honest_s": {"": 10.0, "a": 5.0, "b": 20.0}, "queueing_s": {"": 11.0, "a": 6.0, "b": 20.0}}
    worst, together = tenant_ratios([row])
    assert worst is not None and worst.mean == pytest.approx(1.2)
    assert together is not None and together.mean == pytest.approx(1.1)
    ratio = jct_ratio([row, row | {"jct_s": 90.0}])
    assert ratio is not None and ratio.mean == pytest.approx(1.0)
    assert jct_ratio([]) is None and TRUTH in hint_safety.WORDS


def test_without_traces_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.argv", ["hint_safety", "--data", str(tmp_path)])
    assert hint_safety.main() == 2
    assert "philly" in capsys.readouterr().err
