"""One self-contained page about a trace."""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from schedmate.report import render_page
from schedmate.report.scale import duration, percent
from schedmate.trace_summary import charts
from schedmate.trace_summary.collect import Collected
from schedmate.trace_summary.summary import local_date

_TEMPLATES = Path(__file__).parent / "templates"


def page(jobs: Collected, summary: dict[str, Any], unix_begin_s: float | None, zone: tzinfo = UTC) -> str:
    """The page as text; ``summary`` is what `summarise` gave, with ``file`` and ``format``;
    dates are those of ``zone``."""
    users = summary["users"]
    drawn = [
        charts.load_over_time(jobs, unix_begin_s, zone),
        charts.sizes(summary["sizes"]),
        charts.durations(jobs),
        charts.waiting(jobs),
        charts.states(summary["states"]),
        charts.users(jobs, users["gini_gpu_hours"] if users else None),
    ]
    return render_page(
        _TEMPLATES,
        "trace.html.j2",
        summary=summary,
        name=Path(summary["file"]).name,
        dates=[local_date(summary["clock"][which], zone)[:10] for which in ("first_submit", "last_submit")],
        figures=[each.html for each in drawn if each is not None],
        owners=[(title, summary[key]) for title, key in _OWNERS if summary[key]],
        duration=lambda value: "–" if value is None else duration(value),
        percent=lambda value: "–" if value is None else percent(value),
    )


_OWNERS = (("Users", "users"), ("Tenants", "tenants"), ("Partitions", "partitions"), ("GPU types", "gpu_types"))
