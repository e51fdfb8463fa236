"""What `schedmate trace describe` prints for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from schedmate.commands.replay_warnings import NO_GPUS_HINT
from schedmate.console import out, safe
from schedmate.durations import short_duration

_SHOWN_OWNERS = 5


def print_summary(summary: Mapping[str, Any], zone: tzinfo) -> None:
    """A few lines and tables; everything else is for ``--json`` and the page. Dates are those of ``zone``."""
    _print_head(summary, zone)
    _print_sizes(summary)
    if {name for name, part in summary["sizes"].items() if part["jobs"]} == {"0"}:
        out().print(f"no job asks for a GPU: {NO_GPUS_HINT}")
    _print_states(summary["states"])
    for title, key in (("users", "users"), ("tenants", "tenants"), ("partitions", "partitions")):
        _print_owners(title, summary[key])
    _print_missing(summary["missing"])
    if summary["page"]:
        out().print(f"pictures: {safe(summary['page'])}")


def _print_head(summary: Mapping[str, Any], zone: tzinfo) -> None:
    from schedmate.trace_summary.summary import local_date

    clock, load, wait = summary["clock"], summary["load"], summary["waiting_s"]
    first, last = (local_date(clock[which], zone) for which in ("first_submit", "last_submit"))
    dates = f", {first} to {last} ({zone})" if first else ""
    show = out().print
    show(f"{safe(summary['file'])}: {summary['jobs']:,} jobs ({summary['format']}), {_time(clock['span_s'])}{dates}")
    if clock["timezone"]:
        show(f"times without a zone were read as {safe(clock['timezone'])}")
    if load:
        what = "in use" if load["recorded"] else "asked for (no starts are recorded)"
        show(
            f"{summary['gpu_hours']:,.0f} GPU hours (GPUs times how long jobs held them); "
            f"{load['mean_gpus']:,.0f} GPUs {what} on average, "
            f"{load['peak_gpus']:,.0f} at most"
        )
    if wait and wait["with_gpus"]["mean"] is not None:
        spread = wait["with_gpus"]
        told = f"{_time(spread['p50'])} (half), {_time(spread['mean'])} (mean), {_time(spread['p99'])} (99 %)"
        show(f"jobs with GPUs waited: {told}")
    if asked := summary["requested"]:
        share = asked["used_share"]["p50"]
        show(f"limits: half of the jobs used at most {100 * share:.0f} % of theirs")
    unended = {name: count for name, count in summary["at_the_end"].items() if count}
    if unended:
        show("not ended when the trace was taken: " + ", ".join(f"{n:,} {name}" for name, n in unended.items()))


def _print_sizes(summary: Mapping[str, Any]) -> None:
    from rich.table import Table

    table = Table("GPUs", box=None, header_style="bold")
    for title in ("jobs", "GPU hours", "ran (half)", "ran (90 %)", "waited (mean)"):
        table.add_column(title, justify="right")
    waits = (summary["waiting_s"] or {}).get("by_size", {})
    for name, part in summary["sizes"].items():
        if not part["jobs"]:
            continue
        table.add_row(
            name,
            f"{part['jobs']:,}",
            _percent(part["share_of_gpu_hours"]),
            _time(part["duration_s"]["p50"]),
            _time(part["duration_s"]["p90"]),
            _time(waits.get(name, {}).get("mean")),
        )
    out().print(table)


def _print_states(states: Mapping[str, Any] | None) -> None:
    if not states:
        return
    told = (f"{name} {part['jobs']:,} ({_percent(part['share_of_gpu_hours'])})" for name, part in states.items())
    out().print("ended, with their share of the GPU hours: " + ", ".join(told))


def _print_owners(title: str, owners: Mapping[str, Any] | None) -> None:
    if not owners:
        return
    gini = "" if owners["gini_gpu_hours"] is None else f", Gini of GPU hours {owners['gini_gpu_hours']:.2f}"
    busiest = ", ".join(
        f"{safe(each['name'], 40)} {each['gpu_hours']:,.0f} h" for each in owners["busiest"][:_SHOWN_OWNERS]
    )
    out().print(f"{title}: {owners['count']:,}{gini}; busiest {busiest}")


def _print_missing(missing: list[Mapping[str, Any]]) -> None:
    from rich.table import Table

    if not missing:
        return
    table = Table("missing", box=None, header_style="bold")
    table.add_column("have it", justify="right")
    table.add_column("without it there is no")
    for each in missing:
        table.add_row(each["field"], _percent(each["share"]), each["rules_out"])
    out().print(table)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else short_duration(seconds)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
