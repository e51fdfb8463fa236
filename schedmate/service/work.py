"""The heavy work of one request, run in a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analyzers.types import Submission
from prompts.errors import UserError
from schedmate.config import Settings
from schedmate.console import plain
from schedmate.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked for: a diagnosis of ``path``, or a prediction or hints for ``submission``."""

    kind: Literal["diagnose", "predict", "hints"]
    path: Path | None = None
    submission: Submission | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A `UserError` on its way back to the server process."""

    what: str
    hint: str


def perform(task: Task, settings: Settings) -> Any:
    """The result in the command line's JSON contract, or `Refused`."""
    try:
        return plain(_perform(task, settings))
    except UserError as error:
        return Refused(error.what, error.hint)


def _perform(task: Task, settings: Settings) -> Any:
    if task.kind == "diagnose":
        assert task.path is not None
        from schedmate.diagnosing import diagnosed

        return diagnosed(task.path, settings)
    assert task.submission is not None
    pipeline = _pipeline(settings)
    return (pipeline.predict if task.kind == "predict" else pipeline.hints)(task.submission)


_pipelines: dict[Path, Pipeline] = {}


def _pipeline(settings: Settings) -> Pipeline:
    """One for the life of the worker; its store notices when the file behind it has grown."""
    from analyzers.history import FileHistoryStore

    history = settings.path("history.store")
    if history not in _pipelines:
        _pipelines.clear()
        _pipelines[history] = Pipeline(FileHistoryStore(history), settings)
    return _pipelines[history]
