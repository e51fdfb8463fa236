"""`schedmate demo`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from schedmate.console import out, plain, print_json, progress, safe


def demo(
    folder: Annotated[
        Path, typer.Option("--out", help="Folder for the report and the files; only its own are replaced.")
    ] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the workload; the same seed gives the same files.", min=0)] = 1,
    jobs: Annotated[int, typer.Option(help="Jobs to generate.", min=20, max=5000)] = 400,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Walk a synthetic cluster from source code to report, and compare scheduling with and without hints.

    Users, code, logs and failures are generated from the seed; reading, prediction, scheduling and diagnosis are real.

    Example: schedmate demo --seed 7 --out demo-out
    """
    from schedmate.demo.outcome import outcome
    from schedmate.demo.page import report
    from schedmate.demo.terminal import comparison, heading, readings
    from schedmate.demo.walk import walk
    from schedmate.workload import WorkloadSpec
    from schedmate.workload.folder import OutFolder

    written = OutFolder(folder, "demo")
    try:
        made = walk(WorkloadSpec(seed=seed, jobs=jobs), written, progress)
        result = outcome(made, folder, f"schedmate demo --seed {seed} --jobs {jobs}")
        written.write("demo.json", _as_text(result))
        path = written.write("report.html", report(made, result))
    finally:
        written.close()
    if json_:
        print_json(result)
        return
    console = out()
    console.print(heading(result), end="\n\n")
    console.print(comparison(result))
    console.print()
    console.print(readings(result))
    console.print(f"\nReport: {safe(str(path.resolve()))}", soft_wrap=True)


def _as_text(result: dict[str, Any]) -> str:
    return json.dumps(plain(result), ensure_ascii=False, allow_nan=False, indent=2) + "\n"


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.command()(demo)
