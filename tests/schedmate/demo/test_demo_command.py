"""`schedmate demo` as a user runs it: table, JSON by its schema, report, the same files for the same seed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "schedmate/schemas/demo.schema.json").read_text())
pytestmark = pytest.mark.slow


def _demo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    launcher = Path(sys.executable).parent / "schedmate"
    return subprocess.run(
        [str(launcher), "demo", "--jobs", "60", "--out", str(folder), *words],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "COLUMNS": "80", "PYTHONHASHSEED": "random"},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("made") / "out"
    done = _demo(folder, "--seed", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder, json.loads(done.stdout)


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_json_follows_its_schema(made: tuple[Path, dict]) -> None:
    folder, result = made
    jsonschema.Draft202012Validator(SCHEMA).validate(result)
    assert json.loads((folder / "demo.json").read_text()) == result
    assert result["workload"]["jobs"] == 60
    assert result["prediction"]["jobs"] == 60
    assert result["diagnosis"]["jobs"] == sum(result["workload"]["outcomes"].get(k, 0) for k in ("failed", "timeout"))


def test_policies_replay_the_same_jobs(made: tuple[Path, dict]) -> None:
    rows = {row["key"]: row for row in made[1]["policies"]}
    assert set(rows) == {"fifo", "easy", "core", "hints", "perfect"}
    assert rows["fifo"]["jct_ratio"] == 1.0
    assert {row["jobs"] for row in rows.values()} == {60}
    service_s = {round(row["jct_s"]["mean"] - row["queueing_s"]["mean"], 6) for row in rows.values()}
    assert len(service_s) == 1, "waiting may differ between policies, running may not"


def test_same_seed_same_files(made: tuple[Path, dict], tmp_path: Path) -> None:
    folder, _ = made
    again = tmp_path / "again" / "out"
    assert _demo(again, "--seed", "3").returncode == 0
    one, two = _digests(folder), _digests(again)
    # demo.json names the folder that it lies in; every other file is the same to the last byte
    one.pop("demo.json"), two.pop("demo.json")
    assert one == two


def test_table_and_report_path(tmp_path: Path) -> None:
    done = _demo(tmp_path / "out")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.rstrip().splitlines()
    assert lines[0].startswith("Synthetic workload, seed 1")
    assert max(map(len, lines[:-1])) <= 80
    for title in ("FIFO", "EASY backfill", "Core with hints"):
        assert any(line.startswith(title) for line in lines)
    assert lines[-1] == f"Report: {(tmp_path / 'out' / 'report.html').resolve()}"


def test_report_is_one_file_without_network_or_script(made: tuple[Path, dict]) -> None:
    page = (made[0] / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and '<link rel="stylesheet"' not in page and "<iframe" not in page
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)
    for words in ("Synthetic workload", "seed 3", "schedmate demo --seed 3 --jobs 60", "Jeon et al."):
        assert words in page
    assert page.count("<svg") >= 6
    assert page.count("<svg") == page.count('role="img"') == page.count("<desc")
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_bad_options(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    for words in (["--jobs", "3"], ["--seed", "-1"], ["--jobs", "many"]):
        assert _demo(tmp_path / "out", *words).returncode == 2
    done = _demo(tmp_path)
    assert done.returncode == 2 and "not made by `schedmate demo`" in done.stderr
    assert len(done.stderr.splitlines()) == 1
