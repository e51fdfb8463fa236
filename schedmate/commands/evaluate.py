"""`schedmate evaluate`: the model in use against the jobs that ended since it was trained, and whether it drifts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedmate.commands.train import told
from schedmate.console import err, out, print_json, safe


def evaluate(
    history: Annotated[Path, typer.Argument(help="A history store or a trace file.", metavar="HISTORY")],
    folder: Annotated[
        Path | None, typer.Option("--models", help="Folder of models (default: models.dir).", metavar="MODEL_DIR")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """How good the model in use is on jobs that ended after it was trained; exit code 1 where it has drifted.

    Example: schedmate evaluate history.jsonl --models models
    """
    from schedmate.config import load_settings
    from schedmate.pipeline import open_history
    from schedmate.traces import told_skips
    from schedmate.training import evaluate as evaluated

    store, notes = open_history(history)
    for line in told_skips(history, notes) if notes else []:
        err().print(safe(line), soft_wrap=True)
    result = evaluated(store.records(), folder or load_settings().path("models.dir"))
    if json_:
        print_json(result)
    else:
        out().print(f"{safe(result.version)}, trained on {result.jobs_trained_on:,} jobs")
        out().print(f"then, on {result.then.jobs:,} jobs: {told(result.then)}", soft_wrap=True)
        out().print(f"now, on {result.now.jobs:,} jobs that ended since: {told(result.now)}", soft_wrap=True)
        for line in result.drift:
            out().print(f"drift: {line}", soft_wrap=True)
    if result.drift:
        raise typer.Exit(1)


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(evaluate)
