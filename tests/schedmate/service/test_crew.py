"""The service's worker processes: results, refusals, crashes and hangs, each costing only its own task."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.types import Submission
from prompts.errors import UserError
from schedmate.config import Settings
from schedmate.service import crew as crew_module
from schedmate.service.crew import Crew
from schedmate.service.problems import Problem
from schedmate.service.work import Task


@pytest.fixture
def crew(settings: Settings) -> Iterator[Crew]:
    workers = Crew(settings, 1)
    yield workers
    workers.close()


def children() -> set[int]:
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[1]) == os.getpid():
            found.add(int(name.split()[0]))
    return found


def test_results_refusals_and_a_killed_worker(crew: Crew, tmp_path: Path, logs: dict[str, str]) -> None:
    log = tmp_path / "job.log"
    log.write_text(logs["oom"])
    before = children()
    assert crew.run(Task("diagnose", path=log))["category"] == "resource-request"
    assert crew.run(Task("hints", submission=Submission("sleep 1")))["expected_s"] > 0
    with pytest.raises(UserError, match="no such file") as refused:
        crew.run(Task("diagnose", path=tmp_path / "missing.log"))
    assert refused.value.hint

    mine = [pid for pid in children() - before if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(mine) == 1, "one worker, kept from task to task"
    errors: list[BaseException] = []

    def run() -> None:
        try:
            crew.run(Task("diagnose", path=big(tmp_path, logs["oom"])))
        except RuntimeError as error:
            errors.append(error)

    waiting = threading.Thread(target=run)
    waiting.start()
    time.sleep(0.1)
    os.kill(mine[0], signal.SIGKILL)
    waiting.join(20)
    assert len(errors) == 1 and "killed by SIGKILL" in str(errors[0])
    assert crew.run(Task("diagnose", path=log))["category"] == "resource-request", "another took its place"


def big(folder: Path, end: str) -> Path:
    path = folder / "big.log"
    path.write_text("".join(f"[rank{n % 8}]: step {n} loss {n / 7:.3f} error rate {n}\n" for n in range(600_000)) + end)
    return path


def test_a_task_that_takes_too_long_is_stopped(
    settings: Settings, tmp_path: Path, logs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = big(tmp_path, logs["oom"])
    monkeypatch.setattr(crew_module, "LONGEST_TASK_S", 0.2)
    workers = Crew(settings, 1)
    with pytest.raises(Problem) as stopped:
        workers.run(Task("diagnose", path=path))
    assert stopped.value.status_code == 504
    workers.close()
