"""`schedmate compare`: what several simulations came to, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedmate.console import err, out, print_json, safe


def compare(
    files: Annotated[
        list[Path], typer.Argument(help="What `schedmate simulate --json` printed, one or more.", metavar="FILE...")
    ],
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a report with pictures, one HTML file.", metavar="FILE")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Compare simulations: all policies of all files, ratios against the first.

    Ratios have confidence intervals where the files were made with --shakes; pictures need files made with --detail.

    Example: schedmate compare a.json b.json --report compare.html
    """
    from rich.table import Table

    from schedmate.comparison.document import check_document, read_document
    from schedmate.comparison.own_queue import LABEL, recorded_in, with_recorded
    from schedmate.comparison.runs import differences, jct_ratios, runs_of
    from schedmate.comparison.table import metric_rows
    from schedmate.comparison.write import write_report
    from schedmate.files import refuse_inputs

    if report is not None:
        refuse_inputs(report, files, "name another file with --report")
    documents = [(path.stem, read_document(path)) for path in files]
    for path, (name, document) in zip(files, documents, strict=True):
        check_document(path, name, document)
    runs = runs_of(documents)
    warnings = differences(runs)
    if report is not None:
        warnings += [f"{run.label}: no pictures of it, made without --detail" for run in runs if run.detail is None]
        write_report(documents, report)
    if json_:
        rows = [
            {"run": run.label, "policy": run.policy, "estimates": run.summary["estimates"], "jct_ratio": ratio}
            | {key: run.summary[key] for key in ("jobs", "jct_s", "queueing_s", "bounded_slowdown", "sor")}
            | {"gfr": run.summary["gfr"]["mean"], "makespan_s": run.summary["makespan_s"]}
            for run, ratio in zip(runs, jct_ratios(runs), strict=True)
        ]
        print_json({"against": runs[0].label, "warnings": warnings, "runs": rows})
        return
    for warning in warnings:
        err().print(f"[yellow]warning:[/] {safe(warning)}", soft_wrap=True)
    table = Table("", box=None, header_style="bold")
    recorded, rows_told = recorded_in([run.document for run in runs]), metric_rows(runs)
    labels = [f"{run.label}\n{run.summary['estimates']} runtimes" for run in runs]
    for label in labels if recorded is None else [LABEL, *labels]:
        table.add_column(safe(label), justify="right")
    for name, cells in rows_told if recorded is None else with_recorded(rows_told, recorded):
        table.add_row(name, *cells)
    out().print(table)
    if report is not None:
        out().print(f"\nReport: {safe(str(report.resolve()))}", soft_wrap=True)


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(compare)
