"""`schedmate batch`: many jobs at once, on local processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schedmate.console import err, out, print_json, progress, safe

if TYPE_CHECKING:
    from schedmate.batch.run import Summary

app = typer.Typer(no_args_is_help=True, help="Work on many jobs at once.")


@app.callback()
def _batch() -> None:
    """Work on many jobs at once."""


@app.command()
def diagnose(
    folder: Annotated[Path, typer.Argument(help="Folder with log files and case folders.", metavar="DIR")],
    results: Annotated[Path, typer.Option("--out", help="Results, one JSON object a line.", metavar="FILE")] = Path(
        "results.jsonl"
    ),
    parquet: Annotated[
        Path | None, typer.Option(help="The same results as Parquet, written at the end.", metavar="FILE")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (default: batch.workers, else one per processor).")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds after which one case is given up.", metavar="SECONDS")
    ] = 300.0,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Start over, or go on and skip what is done (default).")
    ] = False,
    engine: Annotated[str, typer.Option(help="Where the work runs.")] = "local",
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout: the summary.")] = False,
) -> None:
    """Say why each of many jobs failed.

    A folder that holds files of several ranks or nodes is one case; every other log file is a case by itself. A case
    that crashes or hangs costs only itself. Running the same command again skips what is done and unchanged.
    Exit code 1: a case crashed, hung or hit an error.

    Example: schedmate batch diagnose logs/ --out results.jsonl --parquet results.parquet
    """
    import os

    from schedmate.batch.cases import find_cases
    from schedmate.batch.run import Options, run_batch
    from schedmate.config import load_settings
    from schedmate.ports import ENGINES, load

    settings = load_settings()
    runner = load(ENGINES, engine)()
    found = find_cases(folder)
    count = workers or settings.integer("batch.workers") or len(os.sched_getaffinity(0))
    options = Options(results, parquet, min(count, len(found.cases)), timeout_s, fresh)
    done = 0

    try:
        with progress("Diagnosing", len(found.cases)) as show:

            def advance(number: int) -> None:
                nonlocal done
                done += number
                show(number)

            summary = run_batch(found, options, settings, runner, advance)
    except KeyboardInterrupt:
        err().print(f"{done} of {len(found.cases)} cases are done; run the same command again to go on")
        raise
    if json_:
        print_json(summary)
    else:
        _show(summary)
    if summary.in_trouble:
        raise typer.Exit(1)


def _show(summary: Summary) -> None:
    from rich.table import Table

    table = Table("category", "jobs", "share", "retryable", "most often", box=None, header_style="bold")
    for category, entry in summary.by_category.items():
        often = sorted(entry["subcategories"].items(), key=lambda item: (-item[1], item[0]))[:3]
        table.add_row(
            safe(category),
            str(entry["count"]),
            f"{entry['count'] / summary.diagnosed:.0%}",
            str(entry["retryable"]),
            safe(", ".join(f"{name} ({number})" for name, number in often)),
        )
    out().print(table)
    words = [f"{summary.cases} cases, {summary.diagnosed} diagnosed"]
    if summary.already_done:
        words.append(f"{summary.already_done} of them before")
    words += [f"{number} {kind}" for kind, number in summary.failures.items()]
    out().print(f"{', '.join(words)}; {summary.seconds:.1f} s; results in {safe(summary.out)}")
    if summary.left_out:
        reasons = ", ".join(f"{number} {reason}" for reason, number in summary.left_out.items())
        out().print(f"left out: {safe(reasons)}")


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="batch")
