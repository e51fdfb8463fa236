"""Real processes that succeed, raise, die, hang and answer rubbish: each costs only its own item."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from time import sleep

import pytest

from integrations.local import LocalEngine
from schedmate.ports import Engine, ItemFailed, load

# Spawned workers import functions by name, and test modules can not be: the standard library's functions serve.


def outcomes(function, items, *, workers: int = 2, timeout_s: float = 20.0):
    return dict(LocalEngine().map(function, items, workers=workers, timeout_s=timeout_s))


def test_it_is_registered_and_fits_the_port() -> None:
    assert load("schedmate.engines", "local") is LocalEngine
    assert isinstance(LocalEngine(), Engine)


def test_results_come_for_every_item_and_errors_are_their_own() -> None:
    found = outcomes(int, ["1", "22", "x", "333"])
    assert found["1"] == 1 and found["22"] == 22 and found["333"] == 333
    assert found["x"].kind == "error" and "ValueError" in found["x"].message


def test_no_items_start_no_process() -> None:
    assert outcomes(int, []) == {}


def test_a_process_that_dies_costs_one_item() -> None:
    found = outcomes(os._exit, [0, 3])
    assert found[3] == ItemFailed("crashed", "its process died (exit code 3)")
    found = outcomes(signal.raise_signal, [signal.SIGKILL, signal.SIGINT, signal.SIGSEGV], workers=1)
    assert found[signal.SIGKILL].message == "its process died (killed by SIGKILL)"
    assert found[signal.SIGSEGV].kind == "crashed"
    assert found[signal.SIGINT] is None, "Ctrl-C is the parent's to handle"


def test_a_hanging_item_is_stopped_and_the_rest_goes_on() -> None:
    start = time.monotonic()
    found = outcomes(sleep, [60, 0.01, 0.02, 0.03], timeout_s=3.0)
    assert found[60].kind == "timeout"
    assert [found[s] for s in (0.01, 0.02, 0.03)] == [None] * 3
    assert time.monotonic() - start < 20


def test_a_result_that_can_not_be_sent_is_an_error() -> None:
    found = outcomes(open, [os.devnull])
    assert found[os.devnull].kind == "error"


def test_closing_the_iterator_stops_the_workers() -> None:
    running = LocalEngine().map(sleep, [0.01, 60], workers=2, timeout_s=100)
    next(running)
    start = time.monotonic()
    running.close()
    assert time.monotonic() - start < 5


@pytest.mark.skipif(sys.platform != "linux", reason="relies on the kernel's parent-death signal")
def test_workers_die_with_a_killed_parent(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, sys, time
        from integrations.local import LocalEngine
        import multiprocessing
        running = LocalEngine().map(time.sleep, [0.01, 60], workers=2, timeout_s=100)
        next(running)
        print(*[p.pid for p in multiprocessing.active_children()], flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        parent.kill()
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
