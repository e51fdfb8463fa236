"""The table that `schedmate simulate` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedmate.console import out, safe

if TYPE_CHECKING:
    from schedmate.scheduler import ClusterSpec

_SPREAD = ("mean", "p50", "p99", "max")


def print_table(trace: Path, spec: ClusterSpec, estimates: str, summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Metrics down, policies across, so that it fits a narrow terminal; exact values are for ``--json``."""
    from rich.table import Table

    from schedmate.comparison.table import mishap_rows
    from schedmate.durations import short_duration

    every = list(summaries.values())
    jobs, size = every[0]["jobs"], f"{spec.nodes} node{'s' * (spec.nodes > 1)}, {spec.gpus} GPUs"
    out().print(f"{safe(trace.name)}: {jobs:,} jobs on {size}, {estimates} runtimes", soft_wrap=True)
    table = Table(box=None, header_style="bold")
    table.add_column("")
    for name in summaries:
        table.add_column(name, justify="right")
    for label, key in (("completion (JCT)", "jct_s"), ("waiting", "queueing_s")):
        for quantile in _SPREAD:
            table.add_row(f"{label}, {quantile}", *(short_duration(s[key][quantile]) for s in every))
    if any(s["evictions"] or "failures" in s or "faults" in s for s in every):
        table.add_row("delay (JCT less runtime), mean", *(short_duration(s["delay_s"]["mean"]) for s in every))
        table.add_row("evictions", *(f"{s['evictions']:,}" for s in every))
        table.add_row(
            "  GPU time lost and restarting", *(short_duration(s["lost_gpu_s"] + s["restart_gpu_s"]) for s in every)
        )
    for mishap, told in mishap_rows(every):
        table.add_row(mishap, *told)
    for bucket, wait in every[0]["jwtd_s"].items():
        if wait["jobs"]:
            gpus = f"{bucket} GPU{'s' * (bucket != '1')}"
            cells = (short_duration(s["jwtd_s"][bucket]["mean"]) for s in every)
            table.add_row(f"waiting, mean of {gpus}", *cells)
    for quantile in _SPREAD:
        table.add_row(f"bounded slowdown, {quantile}", *(f"{s['bounded_slowdown'][quantile]:,.2f}" for s in every))
    table.add_row("GPUs allocated (SOR)", *(_percent(s["sor"]) for s in every))
    table.add_row("  until the last submission", *(_percent(s["sor_while_arriving"]) for s in every))
    table.add_row("nodes fragmented (GFR)", *(_percent(s["gfr"]["mean"]) for s in every))
    for name in every[0].get("tenants", {}):
        owned = [s["tenants"][name] for s in every]
        if owned[0]["jobs"]:
            table.add_row(f"tenant {name or '(none)'}, waiting, mean", *(_mean(each) for each in owned))
            table.add_row("  share of the GPU time", *(_percent(each["share"]) for each in owned))
    table.add_row("makespan", *(short_duration(s["makespan_s"]) for s in every))
    out().print(table)


def _mean(owned: Mapping[str, Any]) -> str:
    from schedmate.durations import short_duration

    return short_duration(owned["queueing_s"]["mean"])


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f} %"
