"""The pictures of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

import numpy as np

from schedmate.report import Figure, Plot, figure, linear, logarithmic
from schedmate.report.scale import NBSP, Scale, duration, percent, tick_duration
from schedmate.simulator.metrics import SIZE_BUCKETS
from schedmate.trace_summary.collect import Collected, Floats
from schedmate.trace_summary.load import Load, load_of
from schedmate.trace_summary.summary import by_owner, gpu_seconds, in_bucket, waits

DAY_S = 86_400.0
#: Times below are drawn as this: a logarithmic axis has no zero.
_SHORTEST_S = 1.0
_WIDE_PX = 500
_CURVE_POINTS = 160
_BUCKET_STYLES = ("s-fifo", "s-easy", "s-core", "s-hints", "s-perfect", "s-fifo")
_LEAST_JOBS_OF_A_CURVE = 5
_ROW_PX = 30
_TIME_TICKS = (1, 10, 60, 600, 3600, 6 * 3600, DAY_S, 7 * DAY_S, 30 * DAY_S)
_FEW_TIME_TICKS = (60, 3600, DAY_S)


def load_over_time(jobs: Collected, unix_begin_s: float | None, zone: tzinfo) -> Figure | None:
    """GPUs in use, or asked for where no starts are recorded."""
    load = load_of(jobs)
    if load is None:
        return None
    what = "GPUs in use" if load.recorded else "GPUs asked for"
    how = (
        "From recorded starts and ends."
        if load.recorded
        else "No starts are recorded: drawn as if every job had started when it was submitted. What was in use is less."
    )
    return figure(
        f"{what} over time",
        f"{what}: {load.mean:,.0f} on average, {load.peak:,.0f} at most.",
        f"{how} Mean {load.mean:,.0f}, at most {load.peak:,.0f}, in stretches of {duration(load.step_s)}.",
        partial(_load, load, _offset_s(jobs, unix_begin_s), zone),
    )


def _offset_s(jobs: Collected, unix_begin_s: float | None) -> float | None:
    return None if unix_begin_s is None else unix_begin_s - float(jobs.times["submit_s"].min())


def _load(load: Load, offset_s: float | None, zone: tzinfo, width: int) -> tuple[str, float]:
    wide = width > _WIDE_PX
    high = max(1.0, float(load.gpus.max()) * 1.05)
    x = _time_axis(load, offset_s, zone, wide)
    plot = Plot((52, 24, width - 62, 220 if wide else 160), x, linear(0, high, _count))
    edges = load.begin_s + load.step_s * np.arange(load.gpus.size)
    points = [*zip(edges.tolist(), load.gpus.tolist(), strict=True), (load.end_s, 0.0)]
    plot.axes(f"time ({zone})" if offset_s is not None else "time since the first start", "GPUs")
    plot.area(points, "s-hints").steps(points, "s-hints thin")
    return plot.svg(), plot.top + plot.height + 44


def _time_axis(load: Load, offset_s: float | None, zone: tzinfo, wide: bool) -> Scale:
    ticks = np.linspace(load.begin_s, load.end_s, 7 if wide else 3).tolist()
    span_s = load.end_s - load.begin_s

    def label(seconds: float) -> str:
        if offset_s is None:
            return duration(seconds - load.begin_s)
        try:
            moment = datetime.fromtimestamp(seconds + offset_s, zone)
        except (ValueError, OverflowError, OSError):
            return ""
        return f"{moment:%Y-%m-%d}" if span_s > 7 * DAY_S else f"{moment:%m-%d %H:%M}"

    return linear(load.begin_s, load.end_s, label, ticks[:-1] if len(ticks) > 1 else ticks)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:.1f}"


def sizes(numbers: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Share of jobs and of GPU hours by size."""
    total = max(1, sum(part["jobs"] for part in numbers.values()))
    rows = {
        f"{name} GPU{'' if name == '1' else 's'}": (part["jobs"] / total, part["share_of_gpu_hours"])
        for name, part in numbers.items()
        if part["jobs"]
    }
    return _shares("Jobs and GPU hours by size", rows)


def states(numbers: Mapping[str, Mapping[str, Any]] | None) -> Figure | None:
    """Share of jobs and of GPU hours by how they ended."""
    if not numbers:
        return None
    total = max(1, sum(part["jobs"] for part in numbers.values()))
    rows = {
        name.replace("_", " "): (part["jobs"] / total, part["share_of_gpu_hours"]) for name, part in numbers.items()
    }
    return _shares("How jobs ended", rows)


def _shares(title: str, rows: Mapping[str, tuple[float, float | None]]) -> Figure:
    told = ", ".join(f"{name} {percent(share)} of jobs" for name, (share, _) in rows.items())
    return figure(
        title, f"{title}: {told}.", "Upper bar: share of jobs. Lower bar: share of GPU hours.", partial(_bars, rows)
    )


def _bars(rows: Mapping[str, tuple[float, float | None]], width: int) -> tuple[str, float]:
    left, right, top = 96.0, 52.0, 8.0
    marks: list[str] = []
    for name, (jobs, time) in rows.items():
        plot = Plot(
            (left, top, width - left - right, _ROW_PX - 8), linear(0, 1, percent, ()), linear(0, 2, percent, ())
        )
        plot.label(left - 8, top + 15, name, "end strong")
        for share, low, style in ((jobs, 1.08, "s-hints"), (time, 0.0, "s-easy")):
            if share is None:
                continue
            plot.band([(0, low), (share, low)], [(0, low + 0.92), (share, low + 0.92)], style)
            px, py = plot.at(share, low)
            plot.label(px + 5, py - 1, percent(share), "tick")
        marks.append(plot.svg())
        top += _ROW_PX
    return "\n".join(marks), top + 6


def durations(jobs: Collected) -> Figure | None:
    """Distribution of runtimes by size."""
    return _curves("How long jobs ran", "runtime", jobs, jobs.times["duration_s"])


def waiting(jobs: Collected) -> Figure | None:
    """Distribution of recorded waiting times by size."""
    return _curves("How long jobs waited", "waiting time", jobs, waits(jobs))


def _curves(title: str, axis: str, jobs: Collected, values: Floats) -> Figure | None:
    curves: dict[str, tuple[str, Floats]] = {}
    for (name, least, most), style in zip(SIZE_BUCKETS, _BUCKET_STYLES, strict=True):
        inside = values[in_bucket(jobs, least, most) & np.isfinite(values)]
        if inside.size >= _LEAST_JOBS_OF_A_CURVE:
            curves[f"{name} GPU{'' if name == '1' else 's'}"] = (style, np.sort(inside))
    if not curves:
        return None
    medians = ", ".join(f"{name} {duration(float(np.median(found)))}" for name, (_, found) in curves.items())
    return figure(
        title,
        f"Share of jobs whose {axis} was at most so long, by size. Medians: {medians}.",
        f"Share of jobs (vertical) whose {axis} was at most this (horizontal, logarithmic). Medians: {medians}.",
        partial(_cdfs, axis, curves),
    )


def _cdfs(axis: str, curves: Mapping[str, tuple[str, Floats]], width: int) -> tuple[str, float]:
    wide = width > _WIDE_PX
    longest = max(60.0, *(float(found[-1]) for _, found in curves.values()))
    x = logarithmic(_SHORTEST_S, longest, _time_label, _TIME_TICKS if wide else _FEW_TIME_TICKS)
    right = 120 if wide else 12
    plot = Plot((48, 24, width - 48 - right, 260 if wide else 200), x, linear(0, 1, percent, (0, 0.25, 0.5, 0.75, 1)))
    plot.axes(axis, "jobs", grid_x=True)
    for style, found in curves.values():
        plot.steps(_cdf(found, longest), style)
    bottom = plot.top + plot.height + 48
    for i, (name, (style, found)) in enumerate(curves.items()):
        text = f"━ {name} ({found.size:,})"
        if wide:
            plot.label(plot.left + plot.width + 10, plot.top + 14 + 22 * i, text, style)
        else:
            plot.label(48 + (i % 2) * 150, bottom + 14 + 18 * (i // 2), text, style)
    return plot.svg(), bottom if wide else bottom + 8 + 18 * ((len(curves) + 1) // 2)


def _cdf(ordered: Floats, longest: float) -> list[tuple[float, float]]:
    shown = np.maximum(ordered, _SHORTEST_S)
    keep = np.unique(np.linspace(0, shown.size - 1, min(shown.size, _CURVE_POINTS)).astype(int))
    points = [(float(shown[i]), float((i + 1) / shown.size)) for i in keep.tolist()]
    return [(_SHORTEST_S, 0.0), *points, (longest, 1.0)]


def _time_label(seconds: float) -> str:
    return f"≤1{NBSP}s" if seconds <= _SHORTEST_S else tick_duration(seconds)


def users(jobs: Collected, gini: float | None) -> Figure | None:
    """Lorenz curve of GPU hours over users."""
    hours = np.sort(by_owner(jobs, "user", gpu_seconds(jobs)))
    if hours.size < 2 or hours.sum() <= 0 or gini is None:
        return None
    top = float(hours[-max(1, hours.size // 10) :].sum() / hours.sum())
    words = f"The busiest tenth of the {hours.size:,} users had {percent(top)} of the GPU hours (Gini {gini:.2f})."
    return figure(
        "GPU hours over users",
        words,
        f"{words} Share of GPU hours (vertical) that the users below had (horizontal, from the least busy on); on the "
        "dotted line all would have the same.",
        partial(_lorenz, np.cumsum(hours) / hours.sum()),
    )


def _lorenz(shares: Floats, width: int) -> tuple[str, float]:
    side = min(width - 70, 320)
    ticks = (0, 0.25, 0.5, 0.75, 1)
    plot = Plot((48, 24, side, side * 0.75), linear(0, 1, percent, ticks), linear(0, 1, percent, ticks))
    keep = np.unique(np.linspace(0, shares.size - 1, min(shares.size, _CURVE_POINTS)).astype(int))
    points = [(0.0, 0.0), *(((i + 1) / shares.size, float(shares[i])) for i in keep.tolist())]
    plot.axes("users", "GPU hours", grid_x=True)
    plot.line([(0, 0), (1, 1)], "guide dotted").line(points, "s-hints")
    return plot.svg(), plot.top + plot.height + 44
