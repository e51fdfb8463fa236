"""Real processes that are killed while they write a journal, again and again, and a journal of a long queue."""

from __future__ import annotations

import importlib.util
import logging
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Job, Scheduler
from schedmate.scheduler.events import CycleRan, Ended, Event, Submitted
from schedmate.scheduler.journal import Header, Journal, Journaled, read, replay

EVENTS = 1000
PROGRAM = Path(__file__).with_name("journal_writer.py")


def _writer() -> Any:
    spec = importlib.util.spec_from_file_location("journal_writer", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["journal_writer"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


writer = _writer()


def same(one: Scheduler, other: Scheduler) -> None:
    """Everything that the two hold and say is equal."""
    assert one.state.cluster == other.state.cluster
    mine, theirs = one.state.table, other.state.table
    for name in ("jobs", "shares", "starts_s", "live", "entries", "done_s", "evictions", "free"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert one.state.reservations == other.state.reservations
    assert one.wake_s == other.wake_s


def kill_while_it_writes(path: Path, events: int, at_bytes: int) -> None:
    """Start the program and end it with SIGKILL once its journal is so long; it may have come to its end before."""
    process = subprocess.Popen([sys.executable, str(PROGRAM), str(path), str(events)])
    while process.poll() is None and (not path.exists() or path.stat().st_size < at_bytes):
        time.sleep(0.001)
    process.kill()
    process.wait()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


@pytest.mark.parametrize("times", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_again_and_again_is_the_run_without_a_crash(
    times: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = writer.live(tmp_path / "whole", EVENTS)
    expected = (tmp_path / "whole").read_bytes()
    path, draw = tmp_path / "killed", random.Random(times)
    for turn in range(times):
        kill_while_it_writes(path, EVENTS, len(expected) * (turn + 1) // (times + 1))
        data = path.read_bytes()
        if draw.random() < 0.7:  # a machine that loses its power may lose any part of what was written last
            path.write_bytes(data[: len(data) - draw.randrange(200)])
        left = path.read_bytes()
        caplog.clear()
        journal = Journal(path, writer.HEADER)
        journal.close()
        assert expected.startswith(path.read_bytes())
        assert len(warnings_of(caplog)) == (0 if left.endswith(b"\n") or not left else 1)
    again = writer.live(path, EVENTS)
    assert path.read_bytes() == expected
    same(again.scheduler, whole.scheduler)


def test_a_cut_line_is_told_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal"
    writer.live(path, 10).journal.close()
    data = path.read_bytes()
    for cut, words in ((len(data) - 5, "9 events are whole"), (50, "0 events are whole")):
        path.write_bytes(data[:cut])
        journal = Journal(path, writer.HEADER)
        journal.close()
        (line,) = warnings_of(caplog)
        assert words in line
        assert str(path) in line
        assert "\n" not in line
    Journal(path, writer.HEADER).close()
    assert warnings_of(caplog) == []


def test_a_queue_of_five_thousand_jobs_comes_back(tmp_path: Path) -> None:
    path, header = tmp_path / "journal", Header(ClusterSpec.uniform(8), POLICIES["core"])
    live = Journaled(Journal(path, header))
    for number in range(5000):
        live.apply(Submitted(0.0, Job(f"j{number}", 1 + number % 32, 0.0, limit_s=60.0 + number % 600)))
    for now in range(20):
        running = live.apply(CycleRan(float(now))).started
        for name in running[::2]:
            live.apply(Ended(now + 0.5, name))
    live.journal.close()
    found = read(path.read_bytes(), str(path))
    assert found is not None
    events: tuple[Event, ...] = found[1]
    scheduler = found[0].scheduler()
    assert all(effect is not None for effect in replay(scheduler, events))
    assert (
        len(scheduler.state.queue.slots()) + len(scheduler.state.layer.queue.slots() if scheduler.state.layer else [])
        > 4800
    )
    same(scheduler, live.scheduler)
