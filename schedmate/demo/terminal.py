"""The outcome for a terminal: the comparison table and a few sentences."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from schedmate.report.scale import duration, percent

#: Headings on two lines, so that the table fits 80 columns.
_HEADINGS = ("JCT\nmean", "\np50", "\np99", "vs\nFIFO", "wait\nmean", "\np50", "\np99", "SOR", "GFR", "make-\nspan")
_STYLES = {"hints": "bold", "perfect": "dim"}


def comparison(result: dict[str, Any]) -> Table:
    """One row per policy."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("policy", min_width=13)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in result["policies"]:
        ends = [duration(row["jct_s"][key]) for key in ("mean", "p50", "p99")]
        waits = [duration(row["queueing_s"][key]) for key in ("mean", "p50", "p99")]
        shares = [percent(row["sor"]), percent(row["gfr"]), duration(row["makespan_s"])]
        style = _STYLES.get(row["key"], "")
        table.add_row(row["title"], *ends, f"{row['jct_ratio']:.2f}", *waits, *shares, style=style)
    return table


def heading(result: dict[str, Any]) -> str:
    """What was scheduled."""
    workload, cluster = result["workload"], result["cluster"]
    return (
        f"Synthetic workload, seed {result['seed']}: {workload['jobs']} jobs in {duration(workload['span_s'])} on "
        f"{cluster['nodes']} nodes x {cluster['gpus_per_node']} GPUs, load {workload['load']:.2f}"
    )


def readings(result: dict[str, Any]) -> Table:
    """How good predictions, diagnoses and progress were."""
    prediction, diagnosis, watched = result["prediction"], result["diagnosis"], result["progress"]
    factor, limits = prediction["median_error_factor"], prediction["requested"]["median_error_factor"]
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_row("durations", f"half within x{factor:.1f} of the truth (requested limits: x{limits:.1f})")
    table.add_row("intervals", f"{_share(prediction['within_p10_p90'])} of the 80 % intervals hold the actual duration")
    table.add_row(
        "failures",
        f"{diagnosis['jobs']} diagnosed: category right {_share(diagnosis['category_right'])}, "
        f"rank {_share(diagnosis['rank_right'])}, quoted line {_share(diagnosis['evidence_right'])}",
    )
    table.add_row(
        "progress",
        f"time left right (within 20 % or 5 min) for {_share(watched['eta_right'])} of {watched['jobs']} running jobs",
    )
    return table


def _share(value: float | None) -> str:
    return "–" if value is None else percent(value)
