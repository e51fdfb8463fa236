"""The report: one HTML file from one walk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedmate.demo import charts
from schedmate.demo.findings import findings, read_example
from schedmate.demo.plays import PLAYS
from schedmate.demo.walk import Walk
from schedmate.report import render_page
from schedmate.report.scale import duration, percent

TEMPLATES = Path(__file__).parent / "templates"
SHOWN_RUNNING = 8


def report(walk: Walk, result: dict[str, Any]) -> str:
    """The whole page as text."""
    return render_page(
        TEMPLATES / "report",
        "report.html.j2",
        result=result,
        rows={row["key"]: row for row in result["policies"]},
        plays=PLAYS,
        utilisation=charts.utilisation(walk).html,
        waiting=charts.waiting(walk).html,
        waiting_by_size=[figure.html for figure in charts.waiting_by_size(walk)],
        predictions=charts.predictions(walk).html,
        findings=findings(walk),
        example=read_example(walk),
        watched=walk.watched[:SHOWN_RUNNING],
        days=walk.workload.span_s / 86_400,
        lede=lede(result),
        duration=duration,
        percent=lambda value: "–" if value is None else percent(value),
    )


def lede(result: dict[str, Any]) -> str:
    """The outcome in a few sentences, whichever way it went."""
    rows = {row["key"]: row for row in result["policies"]}
    hints = rows["hints"]
    waits = {key: duration(row["queueing_s"]["mean"]) for key, row in rows.items()}
    tails = {key: duration(row["queueing_s"]["p99"]) for key, row in rows.items()}
    return (
        f"With hints read from code and history, a job waited {waits['hints']} on average; under FIFO {waits['fifo']}, "
        f"under EASY backfill with the limits that users asked for {waits['easy']}, under the same core without hints "
        f"{waits['core']}. From submission to end that is {_change(hints, rows['fifo'])} than FIFO, "
        f"{_change(hints, rows['easy'])} than EASY and {_change(hints, rows['core'])} than no hints. "
        f"One job in a hundred waited longer than {tails['hints']} with hints, {tails['core']} without, "
        f"{tails['easy']} under EASY and {tails['fifo']} under FIFO."
    )


def _change(row: dict[str, Any], other: dict[str, Any]) -> str:
    ratio = row["jct_s"]["mean"] / other["jct_s"]["mean"]
    return f"{percent(abs(1 - ratio))} {'less' if ratio < 1 else 'more'}"
