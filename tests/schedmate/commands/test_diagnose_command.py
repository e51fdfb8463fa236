"""The command as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[3] / "schedmate" / "schemas" / "diagnose.schema.json").read_text("utf-8")
)
FAILED = (
    "step 1 loss 2.0\nTraceback (most recent call last):\n  File \"/h/u/t.py\", line 3, in <module>\nKeyError: 'x'\n"
)
HEALTHY = "step 1 loss 2.0 lr 1\nstep 2 loss 1.9 lr 1\nTraining finished\n"
VAGUE = "step 1 loss 2.0 lr 1\nsrun: error: n-1: task 0: Exited with exit code 1\n"


@pytest.mark.parametrize(
    ("text", "category", "code"), [(FAILED, "user-code", 1), (HEALTHY, "none", 0), (VAGUE, "unknown", 1)]
)
def test_json_contract(schedmate, tmp_path: Path, text: str, category: str, code: int) -> None:
    path = tmp_path / "job.log"
    path.write_text(text, encoding="utf-8")
    ran = schedmate("diagnose", path, "--json")
    answer = json.loads(ran.stdout)
    jsonschema.validate(answer, SCHEMA)
    assert (answer["category"], ran.returncode) == (category, code), ran


def test_verdict_comes_first_for_people(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    echoes = "[red]BrokenPipeError: [Errno 32] Broken pipe\x1b[31m\n" * 4 + "ncclRemoteError: x\n" * 4
    path.write_text(FAILED + echoes, encoding="utf-8")
    ran = schedmate("diagnose", path)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 1 and lines[0].startswith("user-code / python-exception")
    assert "KeyError: 'x'" in ran.stdout and "fix_code" in ran.stdout
    assert "more; --all shows them" in ran.stdout and "\x1b[31m" not in ran.stdout
    assert schedmate("diagnose", path, "--all").stdout.count("[red]BrokenPipe") > 3


def test_secrets_are_taken_out(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("ValueError: login failed for https://ann:hunter22secret@repo.local/x\n", encoding="utf-8")
    for words in (("--json",), ()):
        ran = schedmate("diagnose", path, *words)
        assert ran.returncode == 1 and "hunter22secret" not in ran.stdout


@pytest.mark.parametrize("kind", ["missing", "empty", "binary", "empty folder", "unreadable"])
def test_unreadable_input_is_one_line_and_exit_2(schedmate, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "job.log"
    if kind == "empty":
        path.write_text("")
    elif kind == "binary":
        path.write_bytes(bytes(range(256)) * 20)
    elif kind == "empty folder":
        path.mkdir()
    elif kind == "unreadable":
        path.write_text("x")
        path.chmod(0)
        try:
            path.read_text()
        except PermissionError:
            pass
        else:
            pytest.skip("running as a user that may read everything")
    ran = schedmate("diagnose", path, "--json")
    assert ran.returncode == 2 and ran.stdout == "" and len(ran.stderr.strip().splitlines()) == 1, ran


def test_a_folder_with_one_bad_file_is_read(schedmate, tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text(FAILED, encoding="utf-8")
    (tmp_path / "rank_1.log").write_bytes(bytes(range(256)) * 20)
    ran = schedmate("diagnose", tmp_path, "--json")
    answer = json.loads(ran.stdout)
    assert ran.returncode == 1 and answer["category"] == "user-code"
    assert any("rank_1.log" in warning for warning in answer["warnings"])


def test_help_has_an_example(schedmate) -> None:
    assert "Example: schedmate diagnose" in schedmate("diagnose", "--help").stdout
