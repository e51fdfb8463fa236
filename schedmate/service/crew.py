"""Worker processes that stay, fed one task at a time, so that the server's own process is always free to answer.

Threads would not do: analysis holds Python's interpreter lock, and a health check would wait for it. Each thread here
drives one worker through the engine port; a task that crashes its worker or takes too long costs only itself.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from prompts.errors import UserError
from schedmate.config import Settings
from schedmate.ports import ENGINES, Engine, ItemFailed, load
from schedmate.service.problems import Problem
from schedmate.service.work import Refused, Task, perform

LONGEST_TASK_S = 300.0
_CLOSE_S = 3.0


class Crew:
    """A fixed number of workers, started when the first tasks come."""

    def __init__(self, settings: Settings, workers: int) -> None:
        self._perform = partial(perform, settings=settings)
        self._waiting: queue.SimpleQueue[tuple[Task, Future[Any]] | None] = queue.SimpleQueue()
        self._engine: Engine = load(ENGINES, "local")()
        self._threads = [threading.Thread(target=self._drive, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def run(self, task: Task) -> Any:
        """The task's result; waits for it.

        Raises `UserError` where the task's input is bad, `Problem` when it took too long, `RuntimeError` when it
        failed or crashed.
        """
        future: Future[Any] = Future()
        self._waiting.put((task, future))
        result = future.result()
        if isinstance(result, Refused):
            raise UserError(result.what, result.hint)
        if isinstance(result, ItemFailed):
            if result.kind == "timeout":
                raise Problem(504, f"it took longer than {LONGEST_TASK_S:.0f} s and was stopped", "send less")
            raise RuntimeError(f"{task.kind} {result.kind}: {result.message}")
        return result

    def close(self) -> None:
        """Let the workers end."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(_CLOSE_S)

    def _drive(self) -> None:
        """Keep one worker busy: the engine draws the next task when the worker has answered the last."""
        current: Future[Any] | None = None

        def tasks() -> Iterator[Task]:
            nonlocal current
            while (waiting := self._waiting.get()) is not None:
                task, current = waiting
                yield task

        for _, result in self._engine.map(self._perform, tasks(), workers=1, timeout_s=LONGEST_TASK_S):
            assert current is not None
            current.set_result(result)
