"""`schedmate workload generate --generator independent` as a user runs it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema

from schedmate.traces import open_trace
from schedmate.workload import WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.writer import TRACE, write_workload
from schedmate.workload_independent import IndependentGenerator

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "schedmate/schemas/workload.schema.json").read_text())
JOBS = 60


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "schedmate"), "workload", "generate", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": "random"},
    )


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_command_writes_what_the_generator_makes_to_the_last_byte(tmp_path: Path) -> None:
    done = _run(
        "--generator",
        "independent",
        "--jobs",
        str(JOBS),
        "--seed",
        "4",
        "--logs",
        "--json",
        "--out",
        str(tmp_path / "a"),
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    assert told["synthetic"] is True and told["generator"] == "independent" and told["jobs"] == JOBS
    out = OutFolder(tmp_path / "b", "workload")
    write_workload(IndependentGenerator(WorkloadSpec(seed=4, jobs=JOBS)), out, with_logs=True)
    out.close()
    assert _digests(tmp_path / "a") == _digests(tmp_path / "b")
    trees = {path for path in (tmp_path / "a/work").glob("*/*") if path.is_dir()}
    assert len(trees) == told["source_trees"] and all((tree / ".synthetic").is_file() for tree in trees)
    rows = [json.loads(line) for line in (tmp_path / "a/submissions.jsonl").read_text().splitlines()]
    assert all(row["synthetic"] for row in rows) and not any("duration" in key for row in rows for key in row)
    records, _ = open_trace(tmp_path / "a" / TRACE)
    assert len(list(records)) == JOBS


def test_an_unknown_generator_is_one_clear_line(tmp_path: Path) -> None:
    done = _run("--generator", "third", "--out", str(tmp_path / "a"))
    assert done.returncode == 2 and not (tmp_path / "a").exists()
    assert done.stderr.strip().splitlines() == [
        "schedmate: there is no generator 'third'; one of: semantic, independent"
    ]
