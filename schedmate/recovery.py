"""The recovery plan of a diagnosed job, with the checkpoint that its logs tell of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.failures import RUNS_AGAIN, plan_of
from analyzers.types import Diagnosis, Progress
from prompts.errors import UserError

if TYPE_CHECKING:
    from analyzers.failures.events import Scan
    from analyzers.failures.topology import Topology

#: Logs are read a second time for checkpoints and progress; more than this would take longer than the verdict did.
_MOST_BYTES = 256 << 20


def with_plan(found: Diagnosis, scan: Scan, topology: Topology, path: Path) -> Diagnosis:
    """The diagnosis with what to do, step by step; never raises for what the logs lack."""
    if found.category == "none":
        return found
    progress = _progress(path) if found.action in RUNS_AGAIN and _size(path) <= _MOST_BYTES else Progress()
    share_done = None
    if progress.current_step and progress.total_steps and scan.resumed is None:
        share_done = progress.current_step / progress.total_steps
    return replace(found, plan=plan_of(found, scan, topology, progress.checkpoint, share_done))


def _progress(path: Path) -> Progress:
    from analyzers.logs import read_progress

    try:
        return read_progress(path)
    except UserError:  # a folder of companions only
        return Progress()


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        return path.stat().st_size
    except OSError:
        return 0
