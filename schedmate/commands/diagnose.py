"""`schedmate diagnose`: the verdict first, then the line that tells it, what was put aside and why, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedmate.console import err, out, plain, print_json, safe

if TYPE_CHECKING:
    from analyzers.types import Diagnosis

_SHOWN_ECHOES = 4
_FIELDS = (
    "category", "subcategory", "confidence", "culprit_ranks", "culprit_nodes", "evidence", "echoes", "retryable",
    "action", "summary", "explanation", "warnings",
)  # fmt: skip


def diagnose(
    path: Annotated[Path, typer.Argument(help="A log file, or a folder with all files of one job.", metavar="PATH")],
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show every line that was put aside.")] = False,
) -> None:
    """Say why a job failed: which rank and node, the line that tells it, and what to do.

    Exit code: 0 the job is healthy, 1 a failure was found (or the cause stays unknown), 2 nothing could be read.

    Example: schedmate diagnose slurm-4711.out
    """
    from analyzers.failures import diagnose as find
    from schedmate.config import load_settings
    from schedmate.refine import refine_diagnosis

    found = refine_diagnosis(find(path), path, load_settings())
    if json_:
        print_json(as_json(found))
    else:
        _show(found, len(found.echoes) if all_ else _SHOWN_ECHOES)
    raise typer.Exit(0 if found.category == "none" else 1)


def as_json(found: Diagnosis) -> dict[str, Any]:
    """The JSON contract (schemas/diagnose.schema.json), secrets in quoted lines taken out."""
    from prompts.redaction import redact_tree

    whole = plain(found)
    redacted: dict[str, Any] = redact_tree({name: whole[name] for name in _FIELDS})
    return redacted


def _show(found: Diagnosis, most_echoes: int) -> None:
    from rich.panel import Panel

    from prompts.redaction import redact

    screen = out()
    for warning in found.warnings:
        err().print(f"[yellow]warning:[/] {safe(warning)}")
    colour = {"none": "green", "unknown": "yellow"}.get(found.category, "red")
    screen.print(f"[bold {colour}]{found.category}[/] / {safe(found.subcategory)}   confidence {found.confidence:.2f}")
    screen.print(f"[bold]{safe(redact(found.summary))}[/]")
    for label, values in (("ranks", found.culprit_ranks), ("nodes", found.culprit_nodes)):
        if values:
            screen.print(f"  {label}: {safe(', '.join(map(str, values)))}")
    if found.evidence:
        lines = [f"[dim]{safe(e.file)}:{e.line}[/]  {safe(redact(e.text))}" for e in found.evidence]
        first, *rest = lines
        screen.print(Panel("\n".join([f"[bold]{first}[/]", *rest]), title="evidence", title_align="left", style=colour))
    if found.echoes:
        screen.print(f"Put aside: {len(found.echoes)} line{'s' * (len(found.echoes) > 1)} that only look like a cause")
        for echo in found.echoes[:most_echoes]:
            screen.print(f"  [dim]{safe(echo.file)}:{echo.line}  {safe(redact(echo.text), 160)}[/]")
            screen.print(f"    [italic]{safe(redact(echo.why))}[/]")
        if len(found.echoes) > most_echoes:
            screen.print(f"  [dim]... {len(found.echoes) - most_echoes} more; --all shows them[/]")
    retry = {True: "running it again may help", False: "running it again unchanged will not help", None: ""}
    screen.print(
        f"[bold]Do:[/] {safe(found.action)}" + (f" ({retry[found.retryable]})" if retry[found.retryable] else "")
    )
    screen.print(safe(redact(found.explanation)))


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(diagnose)
