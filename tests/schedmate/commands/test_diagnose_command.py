"""The command as a user calls it."""

from __future__ import annotations

import json
import subprocess
import sys
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
    echoes += "".join(f"srun: error: n{word}-1: task 0: Terminated\n" for word in "abcd")
    path.write_text(FAILED + echoes, encoding="utf-8")
    ran = schedmate("diagnose", path)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 1 and lines[0].startswith("user-code / python-exception")
    assert "KeyError: 'x'" in ran.stdout and "fix_code" in ran.stdout
    assert "(and 3 more like it)" in ran.stdout and "more; --all shows every line" in ran.stdout
    assert "\x1b[31m" not in ran.stdout
    assert schedmate("diagnose", path, "--all").stdout.count("[red]BrokenPipe") > 3


def test_in_a_pipe_every_line_is_whole_and_bare(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    raised = "ValueError: " + "shape mismatch in layer " * 60 + "end"
    noise = "BrokenPipeError: [Errno 32] " + "very long tail " * 40
    path.write_text(FAILED.replace("KeyError: 'x'", raised) + noise + "\n", encoding="utf-8")
    ran = schedmate("diagnose", path)
    assert raised in ran.stdout and not any(
        mark in ran.stdout for mark in "\N{BOX DRAWINGS LIGHT VERTICAL}\u256d\u2570"
    )
    quoted = next(line for line in ran.stdout.splitlines() if "BrokenPipeError" in line)
    assert quoted.endswith("\N{HORIZONTAL ELLIPSIS}") and len(quoted) < 200


def test_a_healthy_job_is_called_healthy_and_rates_are_no_errors(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    rates = "".join(f"2025-01-01 10:0{n}:00 INFO epoch {n} word error rate 0.{n}\n" for n in range(1, 5))
    path.write_text(rates + HEALTHY, encoding="utf-8")
    ran = schedmate("diagnose", path)
    assert ran.returncode == 0 and ran.stdout.splitlines()[0].startswith("healthy   confidence")
    assert "error rate" not in ran.stdout and "none / none" not in ran.stdout


def test_one_line_put_aside_is_spoken_of_in_the_singular(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(FAILED + "BrokenPipeError: [Errno 32] Broken pipe\n", encoding="utf-8")
    assert "Put aside: 1 line that only looks like a cause\n" in schedmate("diagnose", path).stdout


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


def test_the_plan_goes_on_from_the_checkpoint_that_the_log_tells_of(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    steps = "".join(f"2026-03-01 10:{n:02d}:00 step {n}/100 loss 2.0 lr 1\n" for n in range(1, 30))
    saved = "2026-03-01 10:29:30 Saving checkpoint to /ck/step_29.pt\n"
    saved += "2026-03-01 10:29:40 Saved checkpoint /ck/step_29.pt\n"
    path.write_text(steps + saved + "2026-03-01 10:31:00 step 31/100 loss 2.0 lr 1\n" + FAILED, encoding="utf-8")
    page = tmp_path / "page.html"
    ran = schedmate("diagnose", path, "--json", "--html", page)
    answer = json.loads(ran.stdout)
    jsonschema.validate(answer, SCHEMA)
    assert [step["kind"] for step in answer["plan"]["steps"]] == ["fix_line", "requeue_from_checkpoint"]
    assert answer["plan"]["steps"][1]["checkpoint"] == "/ck/step_29.pt" and answer["plan"]["lost_s"] < 200
    for text in (schedmate("diagnose", path).stdout, page.read_text("utf-8")):
        assert "Correct /h/u/t.py:3" in text
        assert "from /ck/step_29.pt" in text and "must be done again" in text
    assert "1. Correct /h/u/t.py:3" in schedmate("diagnose", path, "--markdown").stdout


def test_a_page_that_can_not_be_written_is_told_before_anything_is_read(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(FAILED, encoding="utf-8")
    ran = schedmate("diagnose", path, "--html", tmp_path / "none" / "page.html")
    assert ran.returncode == 2 and ran.stdout == "" and "there is no folder" in ran.stderr
    ran = schedmate("diagnose", path, "--html", tmp_path / "page.html", "--json")
    assert ran.returncode == 1 and (tmp_path / "page.html").is_file() and json.loads(ran.stdout)


def test_a_small_log_needs_no_large_library(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(FAILED, encoding="utf-8")
    code = (
        "import sys\nsys.argv = ['schedmate', 'diagnose', sys.argv[1]]\nfrom schedmate.start import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('heavy:', [m for m in ('numpy', 'sqlite3', 'pandas') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert "user-code" in ran.stdout and ran.stdout.endswith("heavy: []\n"), ran


def test_past_and_remember_say_what_they_know_and_keep(schedmate, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(FAILED, encoding="utf-8")
    ran = schedmate("diagnose", path, "--past", "--json")
    assert "no earlier failures are known" in ran.stderr and "failures.sqlite" in ran.stderr
    json.loads(ran.stdout)
    words = ("--remember", "--job", "7", "--user", "bo", "--nodes", "n[1-6]")
    kept = schedmate("diagnose", path, *words).stderr
    assert "kept: job 7 of bo, run 0: user-code / python-exception, on n1 n2 n3 n4 and 2 more; 1 ends of jobs" in kept
    again = schedmate("diagnose", path, "--past", "--job", "8").stderr
    assert "no earlier" not in again and "kept" not in again
