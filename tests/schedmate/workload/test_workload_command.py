"""`schedmate workload generate` as a user runs it."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import jsonschema
import pytest

from analyzers.source import analyze
from schedmate.traces import open_trace
from schedmate.workload import SemanticGenerator, WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.writer import TRACE, write_workload

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "schedmate/schemas/workload.schema.json").read_text())


def _generate(folder: Path, *words: str, command: tuple[str, ...] = ("workload", "generate", "--out")) -> str:
    launcher = Path(sys.executable).parent / "schedmate"
    done = subprocess.run(
        [str(launcher), *command, str(folder), *words],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONHASHSEED": "random"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("made") / "out"
    return folder, json.loads(_generate(folder, "--jobs", "80", "--seed", "3", "--logs", "--json"))


def test_everything_is_there_and_says_that_it_is_synthetic(made: tuple[Path, dict]) -> None:
    folder, result = made
    jsonschema.Draft202012Validator(SCHEMA).validate(result)
    assert result["synthetic"] is True and result["jobs"] == 80
    assert json.loads((folder / "workload.json").read_text()) == {k: v for k, v in result.items() if k != "folder"}
    assert "generated" in (folder / "README.txt").read_text() and "synthetic" in TRACE
    submissions = _lines(folder / "submissions.jsonl")
    assert len(submissions) == 80 and all(row["synthetic"] is True for row in submissions)
    for row in submissions:
        assert any((folder / row["workdir"]).rglob("*.py")) or any((folder / row["workdir"]).rglob("*.ipynb"))
        assert any((folder / "logs" / row["job_id"]).iterdir())


def test_what_is_shown_holds_no_truth(made: tuple[Path, dict]) -> None:
    """A submission has what a scheduler is told, and no file beside the truth and the trace names an end."""
    folder, _ = made
    told = {"job_id", "submit_s", "user", "tenant", "name", "command", "gpus", "nodes", "gpu_type", "limit_s"}
    assert set(_lines(folder / "submissions.jsonl")[0]) == told | {"workdir", "synthetic"}
    truths = {row["job_id"]: row for row in _lines(folder / "truth.jsonl")}
    for path in (folder / "work").rglob("*"):
        if path.is_file():
            text = path.read_text()
            assert not any(str(row["duration_s"]) in text for row in truths.values() if row["duration_s"] > 1000), path


def test_the_trace_is_read_and_replayed(made: tuple[Path, dict]) -> None:
    folder, _ = made
    records, notes = open_trace(folder / TRACE)
    found = list(records)
    truths = {row["job_id"]: row for row in _lines(folder / "truth.jsonl")}
    assert len(found) == 80 and not notes.skipped
    for record in found:
        truth = truths[record.job_id]
        assert (record.duration_s, record.outcome) == (truth["duration_s"], truth["outcome"])
        assert record.workdir is not None and (folder / record.workdir).is_dir()
    replay = json.loads(
        _generate(folder / TRACE, "--nodes", "16", "--policy", "fifo,kant", "--json", command=("simulate",))
    )
    assert replay["policies"]["kant"]["jobs"] == 80


def test_sources_can_be_analysed_where_they_lie(made: tuple[Path, dict]) -> None:
    from schedmate.workload.records import submission_of

    folder, _ = made
    jobs = list(SemanticGenerator(WorkloadSpec(seed=3, jobs=80)).jobs())
    facts = analyze(submission_of(jobs[0].ask, folder))
    assert facts.facts and facts.fingerprint


def test_same_seed_same_files(made: tuple[Path, dict], tmp_path: Path) -> None:
    again = tmp_path / "again"
    _generate(again, "--jobs", "80", "--seed", "3", "--logs")
    assert _digests(made[0]) == _digests(again)


def test_without_trees_nothing_but_tables(tmp_path: Path) -> None:
    text = _generate(tmp_path / "out", "--jobs", "50", "--no-trees", "--days", "2", "--profile", "helios")
    assert text.startswith("Synthetic: 50 jobs") and "2.0 days" in text
    assert not (tmp_path / "out/work").exists() and not (tmp_path / "out/logs").exists()
    with (tmp_path / "out" / TRACE).open() as file:
        assert len(list(csv.reader(file))) == 51


def test_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    launcher = Path(sys.executable).parent / "schedmate"
    for words in (["--out", str(tmp_path)], ["--out", str(tmp_path / "o"), "--profile", "mars"],
                  ["--out", str(tmp_path / "o"), "--days", "2", "--load", "1"]):  # fmt: skip
        done = subprocess.run([str(launcher), "workload", "generate", *words], capture_output=True, text=True)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_jobs(tmp_path: Path) -> None:
    """Four times the jobs: the peak grows by the names of files alone, far less than the jobs would take."""

    def peak(jobs: int) -> int:
        out = OutFolder(tmp_path / str(jobs), "workload")
        tracemalloc.start()
        write_workload(SemanticGenerator(WorkloadSpec(seed=1, jobs=jobs, users=20)), out, with_trees=False)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(50)  # caches
    assert peak(600) < peak(150) + 300_000
