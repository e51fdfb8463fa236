"""`schedmate progress` as a user runs it: exit codes, one JSON object, one line for an error."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

Schedmate = Callable[..., "subprocess.CompletedProcess[str]"]
SCHEMA = json.loads((files("schedmate") / "schemas" / "progress.schema.json").read_text())


def write_log(path: Path, records: int = 60, loss: str = "2.0") -> Path:
    lines = ["max_steps: 2000"]
    for n in range(1, records + 1):
        time = datetime(2025, 3, 4, 14) + timedelta(seconds=15 * n)
        lines.append(f"{time:%Y-%m-%d %H:%M:%S} step {n * 10} loss={loss} [bold]not markup[/]")
    path.write_text("\n".join(lines) + "\n")
    return path


def as_json(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    found = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    assert isinstance(found, dict)
    return found


def test_a_healthy_run(schedmate: Schedmate, tmp_path: Path) -> None:
    done = schedmate("progress", write_log(tmp_path / "train.log"), "--now", "2025-03-04T14:15:10", "--json")
    assert done.returncode == 0, done.stderr
    found = as_json(done)
    assert found["current_step"] == 600
    assert found["total_steps"] == 2000
    assert found["seconds_per_step"] == pytest.approx(1.5)
    assert found["eta_seconds"] == pytest.approx(2100)
    assert found["anomaly"] is None
    assert found["evidence"] == [
        {"file": "train.log", "line": 61, "text": "2025-03-04 14:15:00 step 600 loss=2.0 [bold]not markup[/]"}
    ]


@pytest.mark.parametrize("now", ["2025-03-04T18:00:00", "2025-03-04T18:00:00Z", "1741111200"])
def test_a_stalled_run_exits_with_1(now: str, schedmate: Schedmate, tmp_path: Path) -> None:
    done = schedmate("progress", write_log(tmp_path / "train.log"), "--now", now, "--json")
    assert done.returncode == 1
    found = as_json(done)
    assert (found["anomaly"], found["eta_seconds"]) == ("stall", None)


def test_nan_is_a_string_in_json(schedmate: Schedmate, tmp_path: Path) -> None:
    done = schedmate("progress", write_log(tmp_path / "train.log", loss="nan"), "--json")
    assert done.returncode == 1
    assert as_json(done)["last_loss"] == "nan"


def test_checkpoints_and_metrics(schedmate: Schedmate, tmp_path: Path) -> None:
    log = write_log(tmp_path / "train.log")
    with log.open("a") as stream:
        stream.write(
            "Saving checkpoint to ck/b/step_600.pt\n2025-03-04 14:15:30 step 610 loss=2.0 grad_norm=nan lr=3e-4\n"
        )
        stream.write("Saving checkpoint to ck/step_610.pt\n")
    found = as_json(schedmate("progress", log, "--json"))
    safe, unsafe = found["checkpoint"], found["unsafe_checkpoint"]
    assert isinstance(safe, dict)
    assert isinstance(unsafe, dict)
    assert (safe["step"], safe["time"], safe["evidence"]["line"]) == (600, "2025-03-04T14:15:00", 62)
    assert (unsafe["path"], unsafe["step"]) == ("ck/step_610.pt", 610)
    assert found["metrics"] == {"grad_norm": "nan", "learning_rate": 3e-4}
    shown = schedmate("progress", log).stdout
    assert "step 600, 2025-03-04 14:15:00, ck/b/step_600.pt" in shown
    assert "not known to be complete" in shown


def test_asking_without_a_model_says_so(schedmate: Schedmate, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("nothing counts 5\n" * 9)
    done = schedmate("progress", tmp_path / "a.log", "--ask")
    assert done.returncode == 0
    assert "no language model is configured" in done.stderr
    assert schedmate("progress", tmp_path / "a.log", "--ask", "--follow").returncode == 2


def test_words_for_people(schedmate: Schedmate, tmp_path: Path) -> None:
    done = schedmate("progress", write_log(tmp_path / "train.log"))
    assert done.returncode == 0
    assert "600 of 2000" in done.stdout
    assert "0:35:00" in done.stdout
    assert "[bold]not markup[/]" in done.stdout


def test_a_log_without_progress_says_so(schedmate: Schedmate, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("hello\n")
    done = schedmate("progress", tmp_path / "x.log", "--json")
    assert done.returncode == 0
    found = as_json(done)
    assert {name: value for name, value in found.items() if value} == {"not_understood": ["counter", "time"]}
    words = schedmate("progress", tmp_path / "x.log").stdout
    assert "No progress found" in words
    assert "N of M" in " ".join(words.split())  # what was looked for


@pytest.mark.parametrize(
    ("tail", "ended", "code", "says"),
    [
        ("Traceback (most recent call last):\nValueError: no", "failed", 1, "ends with an error"),
        (
            "slurmstepd: error: *** JOB 1 ON n CANCELLED AT 2025-03-04T15:00:00 DUE TO TIME LIMIT ***",
            "timeout",
            1,
            "limit",
        ),
        ("Training completed.", "completed", 0, "the run is done"),
    ],
)
def test_a_job_that_has_ended(
    tail: str, ended: str, code: int, says: str, schedmate: Schedmate, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "train.log")
    log.write_text(log.read_text() + tail + "\n")
    done = schedmate("progress", log, "--now", "2025-03-04T18:00:00", "--json")
    found = as_json(done)
    assert (found["ended"], found["anomaly"], done.returncode) == (ended, None, code)
    assert found["eta_seconds"] == (0 if ended == "completed" else None)
    assert says in schedmate("progress", log).stdout


def test_now_is_a_time(schedmate: Schedmate, tmp_path: Path) -> None:
    log = write_log(tmp_path / "train.log")
    assert as_json(schedmate("progress", log, "--now", "now", "--json"))["anomaly"] == "stall"
    lines = [f"{datetime.now() - timedelta(seconds=9 * (60 - n)):%d.%m.%Y %H:%M:%S} cells {n} of 90" for n in range(60)]
    log.write_text("\n".join(lines) + "\n")
    found = as_json(schedmate("progress", log, "--now", "now", "--json"))
    assert (found["anomaly"], found["current_step"], found["total_steps"]) == (None, 59, 90)


def test_what_can_not_be_told_is_said(schedmate: Schedmate, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("".join(f"loss {3 - n / 10}\n" for n in range(9)))
    assert "cannot tell (no counter and no time stamp understood)" in schedmate("progress", tmp_path / "a.log").stdout
    (tmp_path / "b.log").write_text("".join(f"step {n} loss 2.0\n" for n in range(9)))
    assert "cannot tell a stall" in schedmate("progress", tmp_path / "b.log").stdout
    (tmp_path / "train.py").write_text("epochs = 3\nfor epoch in range(epochs):\n    fit()\n")
    done = schedmate("progress", tmp_path / "train.py")
    assert done.returncode == 0
    assert "looks like source code" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing.log"], "no such file"),
        (["empty.log"], "nothing to read"),
        (["binary.log"], "is binary"),
        (["folder"], "nothing to read"),
        (["train.log", "--now", "yesterday"], "--now yesterday: not a time"),
    ],
)
def test_unreadable_is_one_line_and_2(words: list[str], says: str, schedmate: Schedmate, tmp_path: Path) -> None:
    write_log(tmp_path / "train.log")
    (tmp_path / "empty.log").touch()
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "folder").mkdir()
    done = schedmate("progress", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_bad_file_among_good_ones_is_a_warning(schedmate: Schedmate, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    write_log(tmp_path / "job" / "rank_0.log")
    (tmp_path / "job" / "rank_1.log").write_bytes(bytes(range(256)) * 8)
    done = schedmate("progress", tmp_path / "job", "--json")
    assert done.returncode == 0
    warnings = as_json(done)["warnings"]
    assert isinstance(warnings, list)
    assert len(warnings) == 1
