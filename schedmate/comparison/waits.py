"""How long jobs wait: distribution functions over all jobs and by size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedmate.comparison.axes import LEFT_PX, data_of
from schedmate.comparison.runs import Run, with_delays
from schedmate.report import Draw, Figure, Plot, figure, linear, logarithmic
from schedmate.report.plot import spread
from schedmate.report.scale import NBSP, duration, percent, tick_duration
from schedmate.simulator.metrics import SIZE_BUCKETS

#: Waits below this are drawn as this: many jobs start at once, and a logarithmic axis has no zero.
SHORTEST_S = 10.0
PANEL_PX = 300
Curve = list[tuple[float, float]]


def waiting(runs: Sequence[Run], recorded: Run | None = None) -> Figure:
    """Over all jobs; with the waits that the trace records, if it does."""
    shown = [*runs, recorded] if recorded is not None else runs
    told = ", ".join(f"{run.label} {duration(run.summary['queueing_s']['p99'])}" for run in shown)
    first = "Only until the first start: what came after it, evictions for one, is in the delay. " * with_delays(
        [run.summary for run in runs]
    )
    own = "" if recorded is None else "Dashed: by the starts that stand in the trace. "
    return figure(
        "How long jobs wait",
        f"Share of jobs that had started after a given wait. 99 in 100 jobs waited no longer than: {told}.",
        "Share of jobs in per cent (vertical) that had started after waiting this long (horizontal, logarithmic); "
        f"higher and further left is better. Waits under 10 s are drawn at 10 s. {own}{first}{data_of(runs)}",
        lambda width: _large(shown, width),
    )


def waiting_by_size(runs: Sequence[Run], recorded: Run | None = None) -> list[Figure]:
    """The same for each size of job, as small panels."""
    panels = []
    shown = [*runs, recorded] if recorded is not None else runs
    for name, _, _ in SIZE_BUCKETS:
        own = [run for run in shown if run.detail and name in run.detail["waiting_cdf"]]
        jobs = max((run.detail["waiting_cdf"][name]["jobs"] for run in own if run.detail), default=0)
        if jobs < 2:
            continue
        title = f"{name} GPU{'' if name == '1' else 's'}, {jobs:,} jobs"
        panels.append(
            figure(title, f"Share of jobs of {name} GPUs started.", "", _small(own, name), widths=(PANEL_PX,))
        )
    return panels


def _small(runs: Sequence[Run], bucket: str) -> Draw:
    def draw(width: int) -> tuple[str, float]:
        plot = _axes(runs, bucket, (44, 22, width - 52, 130), (60, 3600, 86_400), 0.0)
        plot.axes("waiting time", "jobs started", grid_x=True)
        for run in runs:
            plot.steps(_curve(run, bucket, plot.x.high), run.style)
        return plot.svg(), 22 + 130 + 44

    return draw


def _large(runs: Sequence[Run], width: int) -> tuple[str, float]:
    wide = width > 500
    right, height = (190, 300) if wide else (10, 220)
    ticks = (10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400) if wide else (60, 3600, 86_400)
    least = min(_curve(run, "all", math.inf)[0][1] for run in runs if run.detail)
    plot = _axes(runs, "all", (LEFT_PX, 24, width - LEFT_PX - right, height), ticks, 0.25 * math.floor(least / 0.25))
    plot.axes("waiting time", "jobs started", grid_x=True)
    curves = {run.label: _curve(run, "all", plot.x.high) for run in runs}
    for run in runs:
        plot.steps(curves[run.label], run.style)
    if wide:
        gap = min(40.0, (height - 10) / len(runs))
        places = spread([plot.top + 12 + gap * i for i in range(len(runs))], gap, plot.top, plot.top + height)
        for run, y in zip(runs, places, strict=True):
            plot.label(plot.left + plot.width + 14, y, _key(run), f"strong {run.style}")
            if gap > 30:
                waits = duration(run.summary["queueing_s"]["p90"])
                plot.label(plot.left + plot.width + 32, y + 16, f"90{NBSP}% within {waits}")
        return plot.svg(), plot.top + height + 44
    bottom = plot.top + height + 58
    for i, run in enumerate(runs):
        plot.label(LEFT_PX + (i % 2) * 150, bottom + 18 * (i // 2), _key(run), f"strong {run.style}")
    return plot.svg(), bottom + 18 * ((len(runs) + 1) // 2)


def _key(run: Run) -> str:
    return f"{'┅' if run.style == 'recorded' else '━'} {run.label}"


def _axes(
    runs: Sequence[Run], bucket: str, box: tuple[float, float, float, float], ticks: Sequence[float], low: float
) -> Plot:
    longest = max(60 * SHORTEST_S, *(run.detail["waiting_cdf"][bucket]["wait_s"][-1] for run in runs if run.detail))
    x = logarithmic(SHORTEST_S, longest, lambda s: "≤10 s" if s <= SHORTEST_S else tick_duration(s), ticks)
    steps = [low + 0.25 * i for i in range(round((1 - low) / 0.25) + 1)] if low or box[3] > 150 else [0, 0.5, 1]
    return Plot(box, x, linear(low, 1, percent, steps))


def _curve(run: Run, bucket: str, longest: float) -> Curve:
    """Points of the distribution function; jobs that start at once make its first step."""
    found = (run.detail or {})["waiting_cdf"][bucket]
    points: Curve = []
    for wait, share in zip(found["wait_s"], found["share"], strict=True):
        at = max(wait, SHORTEST_S)
        if points and points[-1][0] == at:
            points[-1] = (at, share)
        else:
            points.append((at, share))
    return points if longest == math.inf else [*points, (longest, 1.0)]
