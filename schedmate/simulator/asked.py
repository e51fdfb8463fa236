"""What a replay plays beside the jobs, from words: those of flags, or of the keys of a sweep."""

from __future__ import annotations

from pathlib import Path

from prompts.errors import UserError
from schedmate.durations import parse_duration
from schedmate.simulator.conditions import REQUEUES, Conditions
from schedmate.simulator.estimates import Restarts
from schedmate.simulator.failures import Failures
from schedmate.simulator.fault_plan import read_faults
from schedmate.simulator.slowdown import USUAL, read_slowdown


def conditions_of(
    *,
    checkpoint: str | None = None,
    restart: str | None = None,
    size_classes: bool = False,
    cancellations: bool = False,
    failures: str | None = None,
    faults: Path | None = None,
    requeues: int | None = None,
    slowdown: Path | None = None,
    seed: int = 1,
    before: str = "--",
) -> Conditions:
    """What is asked for. Raises `UserError`, in which ``before`` stands before the name of what was wrong.

    ``slowdown`` is a file, or ``usual`` for the numbers that come with the program.
    """
    return Conditions(
        restarts=_restarts(checkpoint, restart, before),
        size_classes=size_classes,
        cancellations=cancellations,
        failures=None if failures is None else _failures(failures, seed, before),
        faults=None if faults is None else read_faults(faults),
        requeues=REQUEUES if requeues is None else requeues,
        slowdown=None if slowdown is None else read_slowdown(USUAL if slowdown.name == "usual" else slowdown),
    )


def _restarts(checkpoint: str | None, restart: str | None, before: str) -> Restarts | None:
    """What being evicted costs; None if neither was given."""
    if checkpoint is None and restart is None:
        return None
    usual = Restarts()
    checkpoint_s = usual.checkpoint_s
    if checkpoint is not None:
        checkpoint_s = None if checkpoint == "never" else parse_duration(checkpoint, f"{before}checkpoint")
    restart_s = usual.restart_s if restart is None else parse_duration(restart, f"{before}restart", zero=True)
    return Restarts(checkpoint_s, usual.grace_s, restart_s)


def _failures(share: str, seed: int, before: str) -> Failures:
    if share == "trace":
        return Failures(seed=seed)
    try:
        return Failures(float(share), seed)
    except ValueError:
        raise UserError(
            f"{before}failures {share}: not a share", "give trace, or a number from 0 to 1 such as 0.1"
        ) from None
