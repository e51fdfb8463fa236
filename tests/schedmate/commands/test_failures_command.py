"""`schedmate failures`, and `diagnose --remember` that fills its store."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMAS = Path(__file__).resolve().parents[3] / "schedmate" / "schemas"
HEADER = "JobID|JobName|User|State|Start|End|NodeList\n"
FAILED = "step 1 loss 2.0\nTraceback (most recent call last):\n  File \"/h/u/t.py\", line 3, in run\nKeyError: 'x'\n"


def row(job: int, state: str, node: str, user: str) -> str:
    day, hour = divmod(job, 24)
    end = f"2026-03-{day % 28 + 1:02d}T{hour:02d}:00:00"
    return f"{job}|w{job % 3}|{user}|{state}|2026-03-01T00:00:00|{end}|{node}\n"


@pytest.fixture
def told(schedmate):  # type: ignore[no-untyped-def]
    def run(*words: object, schema: str = "failures") -> dict:  # type: ignore[type-arg]
        ran = schedmate(*words, "--json")
        answer = json.loads(ran.stdout)
        jsonschema.validate(answer, json.loads((SCHEMAS / f"{schema}.schema.json").read_text("utf-8")))
        return answer | {"rc": ran.returncode}

    return run


def test_a_bad_node_in_accounting(told, schedmate, tmp_path: Path) -> None:
    rows = [row(job, "COMPLETED", f"n{job % 20}", f"u{job % 7}") for job in range(400)]
    rows += [row(400 + at, "FAILED", "n[3]", f"u{at}") for at in range(4)]
    rows += [row(500, "RUNNING", "n3", "u1"), row(501, "CANCELLED by 7", "n3", "u1"), "garbage\n"]
    file = tmp_path / "sacct.txt"
    file.write_text(HEADER + "".join(rows), encoding="utf-8")
    first = told("failures", "import", file)
    assert (first["used"], first["added"]) == (405, 405)
    assert told("failures", "import", file)["added"] == 0
    ranked = told("failures", "nodes")
    assert (ranked["named"], ranked["rc"], ranked["nodes"][0]["failures"]) == (["n3"], 1, 4)
    words = schedmate("failures", "nodes")
    assert words.returncode == 1 and "Take out of service and check: n3" in words.stdout
    assert told("failures", "list", "--node", "n3")["total"] == 5
    assert "unknown / not-diagnosed" in schedmate("failures", "list").stdout


def test_remembering_and_repeats(told, schedmate, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(FAILED, encoding="utf-8")
    for job in range(3):
        words = (
            "diagnose",
            log,
            "--remember",
            "--job",
            job,
            "--user",
            "bo",
            "--name",
            "t",
            "--nodes",
            f"n[{job}1,{job}2]",
        )
        answer = told(*words, schema="diagnose")
    assert [note["kind"] for note in answer["past"]] == ["same-failure-elsewhere", "repeated"]
    found = told("failures", "repeats")
    assert (found["rc"], found["repeats"][0]["times"], found["repeats"][0]["nodes"]) == (1, 3, 6)
    assert "Before:" in schedmate("diagnose", log, "--past", "--job", "9", "--user", "bo", "--nodes", "n7").stdout
    assert told("failures", "list")["total"] == 3
    assert "Do not run these again" in schedmate("failures", "repeats").stdout


def test_nothing_yet_and_files_that_are_none(told, schedmate, tmp_path: Path) -> None:
    assert told("failures", "nodes")["rc"] == 0 and told("failures", "repeats")["total"] == 0
    assert schedmate("failures", "list").stdout.strip() == "no failures"
    log = tmp_path / "x.txt"
    log.write_text("hello\n", encoding="utf-8")
    for path in (log, tmp_path / "missing"):
        ran = schedmate("failures", "import", path)
        assert ran.returncode == 2 and ran.stderr.count("\n") == 1


def test_a_broken_store_costs_no_verdict(schedmate, tmp_path: Path) -> None:
    log, store = tmp_path / "job.log", tmp_path / "broken.sqlite"
    log.write_text(FAILED, encoding="utf-8")
    store.write_bytes(b"no database " * 100)
    ran = schedmate("--set", f"failures.store={store}", "diagnose", log, "--remember", "--json")
    assert json.loads(ran.stdout)["category"] == "user-code" and ran.returncode == 1
    assert ran.stderr.startswith("warning:") and "broken.sqlite" in ran.stderr
    assert schedmate("--set", f"failures.store={store}", "failures", "nodes").returncode == 2
