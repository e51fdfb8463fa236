"""The reliability table on a small set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.diagnosis import main

CASES = [
    {"id": "a", "expected_category": "none", "log": "step 1 loss 2.0\nTraining finished\n"},
    {"id": "b", "expected_category": "unknown", "log": "srun: error: n1: task 0: Exited with exit code 1"},
    {"id": "c", "mode": "full", "log_path": "old/c.log"},
    {"id": "d", "expected_category": "data", "alt_categories": ["user-code"], "log": "KeyError: 'x'\n"},
    {"id": "e", "expected_category": "storage", "log": "KeyError: 'x'\n"},
    {"id": "f", "category": "resource-request", "files": ["f/rank_0.log", "f/rank_1.log"]},
]  # fmt: skip


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text("\n".join(map(json.dumps, CASES)), encoding="utf-8")
    (tmp_path / "map.json").write_text(json.dumps({"full": {"category": "storage"}}), encoding="utf-8")
    (tmp_path / "c.log").write_text("OSError: [Errno 28] No space left on device\n", encoding="utf-8")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "rank_0.log").write_text("step 1 loss 2\n", encoding="utf-8")
    (tmp_path / "f" / "rank_1.log").write_text("torch.OutOfMemoryError: CUDA out of memory\n", encoding="utf-8")
    assert main([f"{labels}:{tmp_path}", "--map", str(tmp_path / "map.json"), "--misses"]) == 0
    printed = capsys.readouterr().out
    assert "all      6           0.833" in printed
    assert "expected unknown: 1 of 1 right" in printed and "expected none: 1 of 1 right" in printed
    assert printed.splitlines()[-1].startswith("labels.jsonl e: storage, got user-code")
