"""The table that `schedmate simulate` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedmate.console import out, safe

if TYPE_CHECKING:
    from schedmate.scheduler import ClusterSpec


def print_table(trace: Path, spec: ClusterSpec, estimates: str, summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Metrics down, policies across, so that it fits a narrow terminal; exact values are for ``--json``."""
    from rich.table import Table

    from schedmate.comparison.table import summary_rows

    every = list(summaries.values())
    jobs, size = every[0]["jobs"], f"{spec.nodes} node{'s' * (spec.nodes > 1)}, {spec.gpus} GPUs"
    out().print(f"{safe(trace.name)}: {jobs:,} jobs on {size}, {estimates} runtimes", soft_wrap=True)
    table = Table(box=None, header_style="bold")
    table.add_column("")
    for name in summaries:
        table.add_column(name, justify="right")
    for label, told in summary_rows(every):
        table.add_row(label, *told)
    out().print(table)
