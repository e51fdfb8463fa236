"""Results of `schedmate llm eval` as Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import llm_table
from schedmate.evaluation.report import Prices
from schedmate.evaluation.run import Row
from schedmate.evaluation.verdict import result_of


def result() -> dict[str, Any]:
    attempt = {"rung": "json_mode", "accepted": True, "outcome": "accepted", "seconds": 1.25}
    asked = {"template": "t@1", "accepted": True, "cached": False, "failure": "", "reason": "", "seconds": 1.25}
    row: Row = {
        "key": "k",
        "kind": "jobs",
        "id": "one",
        "items": [
            {"name": "epochs", "wanted": True, "without": "silent", "with_model": "right"},
            {"name": "model", "wanted": True, "without": "right", "with_model": "right"},
        ],
        "blamed_without": False,
        "blamed_with": False,
        "questions": [{**asked, "attempts": [{**attempt, "tokens_sent": 1200, "tokens_received": 34}]}],  # type: ignore[typeddict-item]
        "notes": ["m task not used: a | b 7"],
        "error": "",
        "seconds_without": 0.1,
        "seconds_with": 1.5,
    }
    return result_of({"jobs": [row]}, {"jobs": {}}, Prices(1.0, 2.0, 5.0), asked=True)


def test_the_figures_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(result()))
    assert llm_table.main([f"two facts, model=m={path}"]) == 0
    shown = capsys.readouterr().out
    tables = [[line[2:-2].split(" | ") for line in part.splitlines()] for part in shown.strip().split("\n\n")]
    assert all(len({len(line) for line in table}) == 1 for table in tables[:3])
    gain, cost, rungs, _ = (table[2:] for table in tables)
    assert gain[0] == [
        "two facts, model=m", "jobs: all facts", "1", "2", "100.0", "100.0", "50.0", "100.0", "1", "0", "0", "0", "0",
        "helps",
    ]  # fmt: skip
    assert gain[1][1:6] == ["jobs: epochs", "1", "1", "n/a", "100.0"] and len(gain) == 2, "what changed, and no more"
    assert cost[0][1:] == ["1", "1", "0", "0", "0", "0", "1.2", "1.2", "0", "1,200", "34", "0.001268"]
    assert rungs == [["two facts, model=m", "json_mode", "1", "1", "1.2", "1,200", "34"]]
    assert "| a \\| b # | 1 |" in shown


def test_what_is_no_result_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert llm_table.main([str(tmp_path / "gone.json")]) == 2
    assert "gone.json" in capsys.readouterr().err
