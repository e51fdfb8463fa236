"""`schedmate train`: a model from a history, put to use only where it is better on the newest jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedmate.console import err, out, print_json, safe

if TYPE_CHECKING:
    from predictors.training import Scores


def train(
    history: Annotated[Path, typer.Argument(help="A history store or a trace file.", metavar="HISTORY")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of models (default: models.dir).", metavar="MODEL_DIR")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same history and seed predict the same.", min=0)] = 0,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Train on ended jobs; the model is used from then on if it is better on the newest than the one in use.

    Example: schedmate train history.jsonl --out models
    """
    from schedmate.config import load_settings
    from schedmate.pipeline import open_history
    from schedmate.traces import told_skips
    from schedmate.training import train as trained

    store, notes = open_history(history)
    for line in told_skips(history, notes) if notes else []:
        err().print(safe(line), soft_wrap=True)
    result = trained(store.records(), folder or load_settings().path("models.dir"), seed)
    for warning in result.warnings:
        err().print(f"warning: {safe(warning)}", soft_wrap=True)
    if json_:
        print_json(result)
        return
    if result.promoted:
        out().print(f"trained on {result.jobs:,} jobs and put to use as {safe(result.version or '')}: {result.why}")
    else:
        out().print(f"not put to use: {safe(result.why)}", soft_wrap=True)
    if result.scores is not None:
        out().print(f"on the newest {result.scores.jobs:,} jobs, kept apart: {told(result.scores)}", soft_wrap=True)
    if result.promoted_scores is not None:
        out().print(
            f"{safe(result.promoted_version or '')} on the same: {told(result.promoted_scores)}", soft_wrap=True
        )


def told(scores: Scores) -> str:
    """The scores in words."""
    brier = "" if scores.brier is None else f", Brier of how jobs end {scores.brier:.3f}"
    return (
        f"error {scores.mean_error_s:,.0f} s mean, {scores.median_error_s:,.0f} s median; "
        f"{scores.inside_80:.0%} within the 80 % interval; loss {scores.loss:.4f}{brier}"
    )


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(train)
