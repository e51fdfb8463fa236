"""The benchmark of the source reader on a tree of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import source

ROOT = Path(__file__).resolve().parents[2]


def labels(folder: Path, *rows: dict[str, object]) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_it_times_the_jobs_whose_trees_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own+er").symlink_to(ROOT / "examples")
    row = {"id": "one", "repo": "own/er", "workdir": "train", "launch": "bash run.sh"}
    path = labels(tmp_path, row, {**row, "id": "two", "repo": "not/there"})
    assert source.main([str(path), str(tmp_path), "--repeats", "1", "--jobs"]) in (0, 1)
    shown = capsys.readouterr()
    assert "1 jobs" in shown.out
    assert shown.out.count("\none ") == 1
    assert "two: no folder" in shown.err
    for title in ("cold", "content known", "peak memory"):
        assert title in shown.out


def test_no_tree_at_all_is_said(tmp_path: Path) -> None:
    path = labels(tmp_path, {"id": "one", "repo": "own/er", "launch": "x"})
    assert source.main([str(path), str(tmp_path)]) == 2


def test_quantiles_are_values_that_occurred() -> None:
    values = [float(v) for v in range(1, 31)]
    assert [source.quantile(values, share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 15.0, 29.0, 30.0]
    assert source.quantile([7.0], 0.95) == 7.0
