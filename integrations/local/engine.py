"""Runs pieces of work in spawned processes, so that a crash or a hang costs one piece and nothing else.

`concurrent.futures` gives up on everything when one worker dies and can not stop one that hangs; hence a pipe and a
deadline for each worker here. Workers are spawned, not forked: they share no threads, locks or memory with us.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from schedmate.ports import ItemFailed

T = TypeVar("T")
R = TypeVar("R")

_PR_SET_PDEATHSIG = 1
_STOP_S = 2.0
_LONGEST_MESSAGE_CHARS = 500
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(slots=True)
class _Worker(Generic[T]):
    process: BaseProcess
    pipe: Connection
    item: T | None = None
    busy: bool = False
    deadline: float = 0.0


class LocalEngine:
    """An `Engine` on this machine."""

    name = "local"

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, workers: int, timeout_s: float
    ) -> Iterator[tuple[T, R | ItemFailed]]:
        """See `schedmate.ports.Engine.map`. Items are drawn as workers become free."""
        source = iter(items)
        crew: list[_Worker[T]] = []
        try:
            exhausted = False
            while True:
                while not exhausted:
                    idle = next((w for w in crew if not w.busy), None)
                    if idle is None and len(crew) >= max(1, workers):
                        break
                    try:
                        item = next(source)
                    except StopIteration:
                        exhausted = True
                        break
                    if idle is None:
                        idle = _start(function)
                        crew.append(idle)
                    _hand_over(idle, item, timeout_s)
                if not any(w.busy for w in crew):
                    return
                for worker, result in _finished(crew):
                    item = worker.item  # type: ignore[assignment]  # a busy worker has one
                    worker.busy, worker.item = False, None
                    if isinstance(result, ItemFailed) and result.kind != "error":
                        _stop(worker)
                        crew.remove(worker)
                    yield item, result
        finally:
            for worker in crew:
                _stop(worker)


def _start(function: Callable[[Any], Any]) -> _Worker[Any]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_work, args=(theirs, function, os.getpid()), daemon=True)
    resource_tracker.ensure_running()  # it unblocks signals when it first starts: have that behind us
    with _uninterrupted():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C comes after this. It reaches the whole group, and a worker that is still starting must not complain: it
    inherits that the signal is blocked. For ourselves that is not enough, because another of our threads may take the
    signal, which then interrupts the main one in the middle of a worker's start."""
    in_main, came = threading.current_thread() is threading.main_thread(), list[int]()
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if in_main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if in_main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
            if came:
                signal.raise_signal(signal.SIGINT)


def _hand_over(worker: _Worker[T], item: T, timeout_s: float) -> None:
    worker.item, worker.busy, worker.deadline = item, True, time.monotonic() + timeout_s
    try:
        worker.pipe.send(item)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it died while idle: found out, and reported for this item, by _finished


def _finished(crew: list[_Worker[T]]) -> list[tuple[_Worker[T], Any]]:
    """Wait until some busy workers have an answer, died or ran out of time."""
    busy = [worker for worker in crew if worker.busy]
    left_s = max(0.0, min(worker.deadline for worker in busy) - time.monotonic())
    ready = set(wait([worker.pipe for worker in busy], timeout=left_s))
    done: list[tuple[_Worker[T], Any]] = []
    for worker in busy:
        if worker.pipe in ready:
            done.append((worker, _received(worker)))
        elif time.monotonic() >= worker.deadline:
            done.append((worker, ItemFailed("timeout", "took too long and was stopped")))
    return done


def _received(worker: _Worker[Any]) -> Any:
    try:
        return worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join(_STOP_S)
        return ItemFailed("crashed", f"its process died ({_how(worker.process.exitcode)})")
    except Exception as error:  # noqa: BLE001  whatever unpickling raises is that item's failure
        return ItemFailed("error", f"its result could not be read ({type(error).__name__}: {error})")


def _how(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        try:
            return f"killed by {signal.Signals(-exitcode).name}"
        except ValueError:
            return f"killed by signal {-exitcode}"
    return f"exit code {exitcode}"


def _stop(worker: _Worker[Any]) -> None:
    worker.pipe.close()  # an idle worker ends by itself now
    if worker.busy or worker.process.exitcode is None:
        worker.process.kill()
    worker.process.join(_STOP_S)


def _work(pipe: Connection, function: Callable[[Any], Any], parent: int) -> None:
    """A worker's life: take an item, answer, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _die_with(parent)
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result = function(item)
        except Exception as error:  # noqa: BLE001  one bad item never stops the rest
            result = ItemFailed("error", f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE_CHARS])
        try:
            pipe.send(result)
        except (BrokenPipeError, ConnectionResetError):
            return
        except Exception as error:  # noqa: BLE001  a result that can not be pickled
            pipe.send(ItemFailed("error", f"result not sendable ({type(error).__name__}: {error})"))


def _die_with(parent: int) -> None:
    """On Linux, have the kernel end this process when the parent is killed, even in the middle of an item."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(1)
