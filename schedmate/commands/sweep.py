"""`schedmate sweep`: many replays, on local processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedmate.console import err, out, print_json, progress, safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table


def sweep(
    spec: Annotated[Path, typer.Argument(help="What to sweep, in YAML.", metavar="SPEC.yaml")],
    folder: Annotated[
        Path, typer.Option("--out", help="Folder of the finished cells and of summary.json.", metavar="DIR")
    ] = Path("sweep-out"),
    data: Annotated[
        Path | None, typer.Option("--data", help="Where the traces are, if not beside SPEC.yaml.", metavar="DIR")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (default: batch.workers, else one per processor).")
    ] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Seconds after which one cell is given up.", metavar="SECONDS")
    ] = 3600.0,
    fresh: Annotated[
        bool, typer.Option("--fresh/--resume", help="Compute every cell again, or skip what is done (default).")
    ] = False,
    engine: Annotated[str, typer.Option(help="Where the work runs.")] = "local",
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout: the summary.")] = False,
) -> None:
    """Replay traces under many policies, loads and shaken inputs, and average.

    Each finished cell is a file: a sweep that was stopped or killed goes on where it was when the same command is run
    again. A cell counts as done only for the same trace, cluster and version of the code. Exit code 1: a cell failed.

    Example: schedmate sweep examples/sweep.yaml --out sweep-out
    """
    import os

    from schedmate.config import load_settings
    from schedmate.ports import ENGINES, load
    from schedmate.sweep.run import Options, all_na, planned, run_sweep, told_of_traces
    from schedmate.sweep.spec import read_spec

    groups = planned(read_spec(spec, data))
    if (error := all_na(groups)) is not None:
        raise error
    for line in told_of_traces(groups):
        err().print(f"[yellow]warning:[/] {safe(line)}", soft_wrap=True)
    runner = load(ENGINES, engine)()
    count = workers or load_settings().integer("batch.workers") or len(os.sched_getaffinity(0))
    total = sum(len(group.cells) for group in groups)
    try:
        with progress("sweeping", total) as advance:
            summary = run_sweep(groups, Options(folder, min(count, total), timeout_s, fresh), runner, advance)
    except KeyboardInterrupt:
        err().print("finished cells are kept; run the same command again to go on")
        raise
    if json_:
        print_json(summary)
    else:
        _show(summary)
    if summary["failures"]:
        raise typer.Exit(1)


def _show(summary: Mapping[str, Any]) -> None:
    rows = summary["rows"]
    for name, load in dict.fromkeys((row["workload"], row["load"]) for row in rows):
        own = [row for row in rows if (row["workload"], row["load"]) == (name, load)]
        jobs = next((row["jobs"] for row in own if row["jobs"]), None)
        seeds = len(own[0]["seeds"]) or max(len(row["seeds"]) for row in own)
        kind = "synthetic, " if own[0]["synthetic"] else ""
        counted = "" if jobs is None else f", {jobs:,} jobs"
        plural = "" if seeds == 1 else "s"
        console = out()
        console.print(f"{safe(name)} ({kind}load x{load:g}{counted}, mean of {seeds} seed{plural})", soft_wrap=True)
        console.print(_table(own))
        for line in _left_out(own):
            console.print(safe(line), soft_wrap=True)
        console.print()
    for failure in summary["failures"]:
        what = f"{failure['workload']}, {failure['policy']}/{failure['estimates']}, seed {failure['seed']}"
        err().print(f"[red]failed:[/] {safe(what)}: {safe(failure['message'])}", soft_wrap=True)
    words = f"{summary['cells']} cells, {summary['already_done']} of them done before"
    out().print(f"{words}, {len(summary['failures'])} failed; in {safe(summary['out'])}", soft_wrap=True)


def _left_out(rows: list[dict[str, Any]]) -> list[str]:
    """Jobs without figures; of which rows, where that is not all of them alike."""
    found = [row for row in rows if row["metrics"] is not None]
    told: dict[tuple[str, int], list[str]] = {}
    for row in found:
        for why, count in row["skipped"].items():
            told.setdefault((why, count), []).append(f"{row['policy']}/{row['estimates']}")
    return [
        f"{count:,} job{'s' * (count > 1)} left out{'' if len(of) == len(found) else ' under ' + ', '.join(of)}: {why}"
        for (why, count), of in told.items()
    ]


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("policy", "runtimes", box=None, header_style="bold")
    for head in ("mean JCT", "ratio", "mean wait", "p99 wait", "longest", "slowdown", "SOR", "GFR"):
        table.add_column(head, justify="right")
    for row in rows:
        name, knows = safe(row["policy"]), row["estimates"]
        if row["metrics"] is None:
            table.add_row(name, knows, "n/a", "", "", "", "", "", "", "", safe(row["reason"]))
        else:
            table.add_row(name, knows, *_cells(row))
    if any(row["metrics"] is None for row in rows):
        table.add_column("why")
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    from schedmate.durations import short_duration

    found, ratio = row["metrics"], row["jct_ratio"]
    times = [
        short_duration(found[key]["mean"])
        for key in ("jct_mean_s", "queueing_mean_s", "queueing_p99_s", "queueing_max_s")
    ]
    against = "" if ratio is None else f"{ratio['mean']:.3f}"
    if ratio is not None and ratio["low"] is not None:
        against += f" ±{ratio['mean'] - ratio['low']:.3f}"
    shares = [f"{100 * found[key]['mean']:.1f} %" if key in found else "n/a" for key in ("sor", "gfr")]
    return [times[0], against, *times[1:], f"{found['bounded_slowdown_mean']['mean']:,.2f}", *shares]


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(sweep)
