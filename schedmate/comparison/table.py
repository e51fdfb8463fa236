"""The metrics of several runs as rows of text, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedmate.comparison.runs import Ratio, Run, jct_ratios, with_delays
from schedmate.durations import short_duration

_NOT_COMPARED = "n/a"
_SPREAD = ("mean", "p50", "p99", "max")


def metric_rows(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """(name, one text a run) in the order of reading; the ratio of mean JCT to the first run comes first."""
    ratios = [_NOT_COMPARED if ratio is None else _ratio(ratio) for ratio in jct_ratios(runs)]
    return [("mean JCT, ratio", ratios), *summary_rows([run.summary for run in runs])]


def summary_rows(every: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The same of summaries as `Result.summary` makes them, without ratios."""

    def row(label: str, cell: Callable[[Mapping[str, Any]], str]) -> tuple[str, list[str]]:
        return label, [cell(each) for each in every]

    found: list[tuple[str, list[str]]] = []
    for label, key in (("completion (JCT)", "jct_s"), ("waiting", "queueing_s")):
        found += [(f"{label}, {q}", [_time(s[key][q]) for s in every]) for q in _SPREAD]
    if with_delays(every):
        found += [(f"delay (JCT less runtime), {q}", [_time(s["delay_s"][q]) for s in every]) for q in _SPREAD]
    for bucket, wait in every[0]["jwtd_s"].items():
        if wait["jobs"]:
            label = f"waiting, mean of {bucket} GPU{'s' * (bucket != '1')}"
            found.append((label, [_time(s["jwtd_s"].get(bucket, {}).get("mean")) for s in every]))
    found += [(f"bounded slowdown, {q}", [_number(s["bounded_slowdown"][q]) for s in every]) for q in _SPREAD]
    found.append(row("GPUs allocated (SOR)", lambda s: share(s["sor"])))
    found.append(row("  until the last submission", lambda s: share(s["sor_while_arriving"])))
    found.append(row("nodes fragmented (GFR)", lambda s: share(s["gfr"]["mean"])))
    if any(each.get("evictions") for each in every):
        found.append(row("evictions", lambda s: f"{s.get('evictions', 0):,}"))
        found.append(row("  GPU time lost and restarting", _lost))
    found += _mishaps(every)
    for name in every[0].get("tenants", {}):
        owned = [each.get("tenants", {}).get(name, {}) for each in every]
        if owned[0]["jobs"]:
            waits = [_time(each.get("queueing_s", {}).get("mean")) for each in owned]
            found.append((f"tenant {name or '(none)'}, waiting, mean", waits))
            found.append(("  share of the GPU time", [share(each.get("share")) for each in owned]))
    found.append(row("makespan", lambda s: _time(s["makespan_s"])))
    return found


def _mishaps(every: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """What was asked to go wrong, and did."""
    found: list[tuple[str, list[str]]] = []

    def row(label: str, name: str, cell: Callable[[Mapping[str, Any]], str]) -> None:
        if any(name in each for each in every):
            found.append((label, [cell(each[name]) if name in each else "0" for each in every]))

    row("cancelled, waiting / running", "cancelled", lambda of: f"{of['waiting']:,} / {of['running']:,}")
    row("failed runs", "failures", lambda of: f"{of['runs']:,}")
    row("  GPU time of failed runs", "failures", lambda of: short_duration(of["lost_gpu_s"]))
    row("faults / jobs interrupted", "faults", lambda of: f"{of['events']:,} / {of['jobs_interrupted']:,}")
    if any(each.get("faults", {}).get("jobs_failed") for each in every):
        row("  jobs failed by them", "faults", lambda of: f"{of.get('jobs_failed', 0):,}")
    return found


def _lost(summary: Mapping[str, Any]) -> str:
    return _time(summary.get("lost_gpu_s", 0.0) + summary.get("restart_gpu_s", 0.0))


def _ratio(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.mean:.3f}"
    return f"{ratio.mean:.3f} ±{(ratio.high - ratio.low) / 2:.3f}"


def _time(seconds: float | None) -> str:
    return "n/a" if seconds is None else short_duration(seconds)


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.2f}"


def share(value: float | None) -> str:
    """A share as per cent with one digit."""
    return "n/a" if value is None else f"{100 * value:.1f} %"
