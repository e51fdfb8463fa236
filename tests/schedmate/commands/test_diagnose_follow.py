"""`schedmate diagnose --follow`: when what is told, and the command as a user calls it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest

from analyzers.failures import FileSignatureStore, load_signatures
from analyzers.failures.following import LiveDiagnosis
from analyzers.failures.scan import Scanner
from schedmate.commands import diagnose_follow
from schedmate.commands.diagnose_follow import Watch

SCANNER = Scanner(load_signatures(FileSignatureStore()))
SCHEMAS = Path(__file__).resolve().parents[3] / "schedmate" / "schemas"
EVENT, DIAGNOSIS = (
    json.loads((SCHEMAS / f"{name}.schema.json").read_text()) for name in ("diagnose_follow", "diagnose")
)
LAUNCHER = Path(sys.executable).parent / "schedmate"
STEPS = "".join(f"step {n}/900 loss {3 - n / 900:.4f} lr 1e-4\n" for n in range(1, 40))
RAISED = "Traceback (most recent call last):\n  File \"/h/u/t.py\", line 3, in <module>\nKeyError: 'x'\n"
CAUSE = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79 GiB\n"
ECHO = "[rank1]:[E] ProcessGroupNCCL.cpp:1 [Rank 1] NCCL watchdog thread terminated with exception: aborted\n"
VAGUE = "srun: error: n-1: task 0: Exited with exit code 1\n"


@dataclass
class Told:
    """A watch on a folder, moved on second by second, and what it told when."""

    folder: Path
    told: list[tuple[int, str, str]] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self.live = LiveDiagnosis(self.folder, SCANNER, self.fail)
        self.live.look()
        self.watch = Watch(self.live, lambda what, found: self.told.append((self.now, what, found.subcategory)))

    def fail(self, text: str) -> None:
        raise AssertionError(text)

    def write(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as stream:
            stream.write(text)

    def until(self, second: int) -> list[tuple[int, str, str]]:
        """Let time pass; what was told meanwhile."""
        before = len(self.told)
        while self.now < second:
            self.now += 1
            if self.now % 10 == 0:
                self.live.look()
            self.live.poll()
            self.watch.see(float(self.now))
        return self.told[before:]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setattr(diagnose_follow, "_PAUSES", 0.0)
    (tmp_path / "rank_0.log").write_text(STEPS)
    (tmp_path / "rank_1.log").write_text(STEPS)
    return Told(tmp_path)


def test_a_failure_is_told_once_after_it_has_stood(told: Told) -> None:
    assert told.until(15) == []
    told.write("rank_0.log", RAISED)
    assert told.until(25) == []
    assert told.until(200) == [(26, "failure", "python-exception")]


def test_what_is_caught_and_tried_again_is_not_told(told: Told) -> None:
    for second in range(3, 60, 8):
        told.write("rank_0.log", RAISED)
        told.until(second)
        told.write("rank_0.log", STEPS)
    assert told.until(200) == []


def test_what_went_on_after_all_is_cleared_and_may_fail_again(told: Told) -> None:
    told.write("rank_0.log", RAISED)
    assert [what for _, what, _ in told.until(60)] == ["failure"]
    told.write("rank_0.log", STEPS)
    assert [what for _, what, _ in told.until(120)] == ["cleared"]
    told.write("rank_1.log", CAUSE)
    assert [what for _, what, _ in told.until(180)] == ["failure"]


def test_an_undecided_failure_waits_for_its_cause(told: Told) -> None:
    told.write("rank_1.log", VAGUE)
    assert told.until(50) == []
    told.write("late_rank_2.log", STEPS + RAISED)
    assert [found for _, *found in told.until(100)] == [["failure", "python-exception"]]


def test_an_undecided_failure_is_told_as_such_when_nothing_comes(told: Told) -> None:
    told.write("rank_1.log", VAGUE)
    assert told.until(59) == []
    assert [found for _, *found in told.until(90)] == [["failure", "no-cause-found"]]


def test_a_changed_verdict_is_told_again(told: Told) -> None:
    told.write("rank_1.log", ECHO + VAGUE)
    told.until(100)
    told.write("rank_0.log", CAUSE)
    assert [found for _, *found in told.until(150)] == [["changed", "gpu-oom"]]


def events(text: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        jsonschema.validate(one, EVENT)
        jsonschema.validate(one["diagnosis"], DIAGNOSIS)
    return found


def long_ago(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (time.time() - 900, time.time() - 900))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text(STEPS + RAISED)
    long_ago(path)
    return path


def test_what_stands_already_is_told_at_once_and_the_end_is_the_plain_verdict(schedmate, log: Path) -> None:
    plain = schedmate("diagnose", log, "--json")
    ran = schedmate("diagnose", log, "--follow", "--json", "--every", "0.2", "--for", "0.5")
    first, last = events(ran.stdout)
    assert (first["event"], last["event"], last["why"]) == ("failure", "end", "time")
    assert last["diagnosis"] == json.loads(plain.stdout) and ran.returncode == plain.returncode == 1
    healthy = log.with_name("good.log")
    healthy.write_text(STEPS + "Training finished\n")
    ran = schedmate("diagnose", healthy, "--follow", "--json", "--idle", "0", "--every", "0.2")
    assert [one["why"] for one in events(ran.stdout)] == ["idle"] and ran.returncode == 0


def test_in_words(schedmate, log: Path) -> None:
    ran = schedmate("diagnose", log, "-f", "--every", "0.2", "--for", "0.5")
    head, summary, line, *rest = ran.stdout.splitlines()
    assert " failure: user-code / python-exception " in head and "exception" in summary and "KeyError: 'x'" in line
    assert "\n".join(rest) + "\n" == schedmate("diagnose", log).stdout
    assert "time is up" in ran.stderr


@pytest.mark.parametrize(
    "words",
    [("--follow", "--markdown"), ("--idle", "3"), ("--for", "3"), ("--every", "3"), ("--follow", "--every", "0")],
)
def test_what_does_not_go_together(schedmate, log: Path, words: tuple[str, ...]) -> None:
    ran = schedmate("diagnose", log, *words)
    assert ran.returncode == 2 and ran.stdout == "" and "Traceback" not in ran.stderr


def test_where_nothing_can_come(schedmate, tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "job.log", "-"):
        ran = schedmate("diagnose", path, "--follow", "--for", "1")
        assert ran.returncode == 2 and ran.stdout == "" and len(ran.stderr.splitlines()) <= 2, ran
    ran = schedmate("diagnose", tmp_path / "late.log", "--follow", "--every", "0.2", "--for", "0.4")
    assert ran.returncode == 2 and "waiting" in ran.stderr and "no such file" in ran.stderr


class Running:
    """The command in a process of its own, its lines in a file."""

    def __init__(self, path: Path, told: Path, *words: str) -> None:
        self.told = told
        environment = {**os.environ, "SCHEDMATE_DATA_DIR": str(told.parent / "data")}
        command = [LAUNCHER, "diagnose", path, "--follow", "--json", "--every", "0.2", *words]
        with told.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, env=environment)

    def wait_for(self, event: str) -> None:
        until = time.monotonic() + 100
        while f'"event": "{event}"' not in self.told.read_text():
            assert self.process.poll() is None and time.monotonic() < until, self.told.read_text()
            time.sleep(0.1)


@pytest.fixture
def running() -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for one in started:
        one.process.kill()
        one.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_file_that_comes_late_and_an_end_by_signal(
    tmp_path: Path, log: Path, running: list[Running], number: signal.Signals
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    one = Running(folder, tmp_path / "told.jsonl")
    running.append(one)
    time.sleep(1)
    log.rename(folder / "job.log")
    one.wait_for("failure")
    one.process.send_signal(number)
    assert one.process.wait(60) == 1
    assert [each["why"] for each in events(one.told.read_text())] == [None, "interrupted"]


def test_logs_that_are_gone_end_with_the_last_verdict(tmp_path: Path, log: Path, running: list[Running]) -> None:
    one = Running(log, tmp_path / "told.jsonl")
    running.append(one)
    one.wait_for("failure")
    log.unlink()
    one.process.send_signal(signal.SIGINT)
    _, said = one.process.communicate(timeout=60)
    assert one.process.returncode == 1 and b"no such file" in said and b"the verdict before" in said
    failure, end = events(one.told.read_text())
    assert end["event"] == "end" and end["diagnosis"] == failure["diagnosis"]


def test_killed_at_any_moment_it_leaves_whole_lines_and_nothing_else(
    tmp_path: Path, log: Path, running: list[Running]
) -> None:
    one = Running(log, tmp_path / "told.jsonl")
    running.append(one)
    one.wait_for("failure")
    one.process.kill()
    assert one.process.wait(60) == -signal.SIGKILL
    assert [each["event"] for each in events(one.told.read_text())] == ["failure"]
    assert {path.name for path in tmp_path.iterdir()} <= {"job.log", "told.jsonl", "data"}
    again = Running(log, tmp_path / "again.jsonl", "--for", "0.5")
    running.append(again)
    assert again.process.wait(100) == 1
    assert [each["event"] for each in events(again.told.read_text())] == ["failure", "end"]


def test_the_end_that_the_job_itself_tells(tmp_path: Path, running: list[Running], monkeypatch) -> None:
    live = LiveDiagnosis(tmp_path, SCANNER, print)
    for text, ended in (
        (STEPS, False),
        ("Traceback (most recent call last):\nKeyError: 'x'\n", False),
        ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-01-01T00:00:00 DUE TO TIME LIMIT ***\n", True),
    ):
        with (tmp_path / "job.log").open("a") as stream:
            stream.write(text)
        live.look()
        live.poll()
        live.verdict()
        assert live.has_ended() is ended, text
    (tmp_path / "job.log").write_text(STEPS + "Training finished\n")
    live.poll()
    live.verdict()
    assert live.has_ended()
    sacct = "JobID|JobName|User|State|Start|End|NodeList\n7|t|bo|{}|2025-01-01T00:00:00|Unknown|n1\n"
    for state, ended in (("RUNNING", False), ("FAILED", True)):
        (tmp_path / "sacct.txt").write_text(sacct.format(state))
        live.look()
        live.poll()
        live.verdict()
        assert live.has_ended() is ended, state
