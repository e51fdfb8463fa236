"""The table that `schedmate simulate` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedmate.console import out, safe

if TYPE_CHECKING:
    from schedmate.scheduler import ClusterSpec


def print_table(
    trace: Path,
    spec: ClusterSpec,
    estimates: str,
    summaries: Mapping[str, Mapping[str, Any]],
    recorded: Mapping[str, Any] | None,
) -> None:
    """Metrics down, policies across, so that it fits a narrow terminal; exact values are for ``--json``. The queue that
    the trace records stands first."""
    from rich.table import Table

    from schedmate.comparison.own_queue import LABEL, NOT_RECORDED, told, with_recorded
    from schedmate.comparison.table import summary_rows

    every = list(summaries.values())
    jobs, size = every[0]["jobs"], f"{spec.nodes} node{'s' * (spec.nodes > 1)}, {spec.gpus} GPUs"
    out().print(f"{safe(trace.name)}: {jobs:,} jobs on {size}, {estimates} runtimes", soft_wrap=True)
    table = Table(box=None, header_style="bold")
    table.add_column("")
    for name in summaries if recorded is None else (LABEL, *summaries):
        table.add_column(name, justify="right")
    rows = summary_rows(every)
    for label, cells in rows if recorded is None else with_recorded(rows, recorded):
        table.add_row(label, *cells)
    out().print(table)
    out().print(f"{LABEL}: {NOT_RECORDED}, the trace has no start times" if recorded is None else told(recorded))
