"""Whole jobs, as captured: files in, verdict out. A case is a few lines of YAML under cases/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from analyzers.failures import diagnose

CASES = [
    pytest.param(case, id=f"{path.stem}:{case['id']}")
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case["files"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    only = next(iter(case["files"]))
    found = diagnose(tmp_path if len(case["files"]) > 1 else tmp_path / only)
    expect = case["expect"]
    first = found.evidence[0] if found.evidence else None
    got = {
        "category": found.category,
        "subcategory": found.subcategory,
        "action": found.action,
        "retryable": found.retryable,
        "ranks": list(found.culprit_ranks),
        "nodes": list(found.culprit_nodes),
        "proof": found.node_proof,
        "file": first and first.file,
        "line": first and first.line,
    }
    assert {name: got[name] for name in expect} == expect, found
    for quoted in (*found.evidence, *found.echoes):
        lines = case["files"][quoted.file].split("\n")
        assert quoted.text == lines[quoted.line - 1].rstrip(), "a quoted line must stand in the input"
