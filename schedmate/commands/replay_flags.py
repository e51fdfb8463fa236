"""Flags that say what a replay plays beside the jobs: what being evicted costs and what goes wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from schedmate.simulator import Restarts

Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        help="Running jobs may be evicted, under every policy, and save their state so often, or never. srtf, srsf and "
        "tiresias, which live by it, have 10m unless said otherwise.",
        metavar="TIME|never",
    ),
]
Restart = Annotated[
    str | None,
    typer.Option(
        "--restart",
        help="How long an evicted job takes to start again before it works (default: 2m).",
        metavar="TIME",
    ),
]


def restarts(checkpoint: str | None, restart: str | None) -> Restarts | None:
    """What being evicted costs; None if neither was given. Raises `UserError`."""
    from schedmate.durations import parse_duration
    from schedmate.simulator import Restarts

    if checkpoint is None and restart is None:
        return None
    usual = Restarts()
    checkpoint_s = usual.checkpoint_s
    if checkpoint is not None:
        checkpoint_s = None if checkpoint == "never" else parse_duration(checkpoint, "--checkpoint")
    restart_s = usual.restart_s if restart is None else _seconds(restart, "--restart")
    return Restarts(checkpoint_s, usual.grace_s, restart_s)


def _seconds(text: str, flag: str) -> float:
    """A length of time that may be 0."""
    from schedmate.durations import parse_duration

    return 0.0 if text.strip() == "0" else parse_duration(text, flag)
