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


def sentences(result: dict[str, Any]) -> str:
    """How good predictions, diagnoses and progress were."""
    prediction, diagnosis, watched = result["prediction"], result["diagnosis"], result["progress"]
    lines = (
        f"Durations: half are within x{prediction['median_error_factor']:.1f} of the truth (requested limits: "
        f"x{prediction['requested']['median_error_factor']:.1f}); "
        f"{_share(prediction['within_p10_p90'])} of the 80 % intervals hold it.",
        f"Failures: {diagnosis['jobs']} diagnosed; category right {_share(diagnosis['category_right'])}, rank "
        f"{_share(diagnosis['rank_right'])}, first quoted line {_share(diagnosis['evidence_right'])}.",
        f"Running jobs: time left right for {_share(watched['eta_right'])} of {watched['jobs']}.",
    )
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "none to count" if value is None else percent(value)
