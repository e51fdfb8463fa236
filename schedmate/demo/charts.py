"""The pictures of the demo's report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from predictors.types import Prediction
from schedmate.demo.outcome import share_until
from schedmate.demo.plays import PLAYS
from schedmate.demo.walk import Walk
from schedmate.report import Figure, Plot, figure, linear, logarithmic
from schedmate.report.plot import spread
from schedmate.report.scale import NBSP, Scale, duration, percent, tick_duration
from schedmate.simulator.metrics import SIZE_BUCKETS
from schedmate.workload import Ask, Truth

DAY_S = 86_400.0
#: Waits below this are drawn as this: half of the jobs start at once, and a logarithmic axis has no zero.
SHORTEST_WAIT_S = 10.0
ROW_PX, ROW_GAP_PX = 74, 26
PANEL_PX = 210
Floats = NDArray[np.float64]


def utilisation(walk: Walk) -> Figure:
    """GAR over time, one row per policy on one time axis."""
    end_s = max(float(result.end_s.max()) for result in walk.results.values())
    until = walk.workload.span_s
    shares = ", ".join(f"{play.title} {percent(share_until(walk.results[play.key], until))}" for play in PLAYS)
    return figure(
        "GPUs in use over time",
        f"Share of allocated GPUs over {end_s / DAY_S:.1f} days, a row per policy. Means while jobs arrive: {shares}.",
        "GAR: allocated over schedulable GPUs, in stretches of equal length. The dotted line is where submissions end: "
        "what is drawn beyond it is the queue being worked off and the last long jobs.",
        partial(_utilisation, walk, end_s),
    )


def _utilisation(walk: Walk, end_s: float, width: int) -> tuple[str, float]:
    marks, top = [], 22.0
    every = 1.0 if width > 500 or end_s < 3.5 * DAY_S else 2.0
    days = np.arange(0, end_s / DAY_S + 0.001, every)
    x = linear(0, end_s, lambda s: f"day {s / DAY_S:.0f}", [float(day) * DAY_S for day in days])
    bare = linear(0, end_s, lambda s: "", [float(day) * DAY_S for day in days])
    for play in PLAYS:
        result = walk.results[play.key]
        last = play is PLAYS[-1]
        plot = Plot((44, top, width - 50, ROW_PX), x if last else bare, linear(0, 1, percent, (0, 0.5, 1)))
        steps = result.gar.resampled(width // 4)
        points = list(zip(steps.times_s.tolist(), steps.values.tolist(), strict=True))
        points.append((float(result.times_s[-1]), 0.0))
        plot.axes("time since the first day" if last else "")
        plot.area(points, f"s-{play.key}").steps(points, f"s-{play.key} thin")
        plot.line([(walk.workload.span_s, 0), (walk.workload.span_s, 1)], "guide dotted")
        plot.label(44, top - 7, play.title, f"strong s-{play.key}")
        plot.label(width - 6, top - 7, f"{percent(share_until(result, walk.workload.span_s))} while jobs arrive", "end")
        marks.append(plot.svg())
        top += ROW_PX + ROW_GAP_PX
    return "\n".join(marks), top + 24


def waiting(walk: Walk) -> Figure:
    """CDF of waiting times over all jobs."""
    at_once = ", ".join(
        f"{play.title} {percent(float(np.mean(walk.results[play.key].waiting_s <= 60)))}" for play in PLAYS
    )
    return figure(
        "How long jobs wait",
        f"Share of jobs that started within a given wait. Within a minute: {at_once}.",
        "Share of jobs (vertical) that had started after waiting this long (horizontal, logarithmic). Higher and "
        "further left is better. Waits under 10 s are drawn at 10 s.",
        partial(_waiting, {play.key: walk.results[play.key].waiting_s for play in PLAYS}, True),
    )


def waiting_by_size(walk: Walk) -> list[Figure]:
    """The same for each size bucket that has jobs, as small panels."""
    panels = []
    for name, least, most in SIZE_BUCKETS:
        waits: dict[str, Floats] = {}
        for play in PLAYS:
            result = walk.results[play.key]
            waits[play.key] = result.waiting_s[(result.gpus >= least) & (result.gpus <= most)]
        count = int(waits[PLAYS[0].key].size)
        if count < 2:
            continue
        title = f"{name} GPU{'' if name == '1' else 's'}, {count} jobs"
        medians = ", ".join(f"{play.title} {duration(float(np.median(waits[play.key])))}" for play in PLAYS)
        words = f"Share of jobs of {name} GPUs started within a given wait. Median waits: {medians}."
        panels.append(figure(title, words, "", partial(_waiting, waits, False), widths=(PANEL_PX,)))
    return panels


def _waiting(waits: Mapping[str, Floats], large: bool, width: int) -> tuple[str, float]:
    longest = max(SHORTEST_WAIT_S * 60, *(float(values.max()) for values in waits.values()))
    ticks = (10, 60, 600, 3600, 6 * 3600, DAY_S) if large and width > 500 else (60, 3600, DAY_S)
    x = logarithmic(SHORTEST_WAIT_S, longest, _wait_label, ticks)
    height = 300 if large and width > 500 else 220 if large else 150
    right = 168 if large and width > 500 else 10
    least = min(float(np.mean(values <= SHORTEST_WAIT_S)) for values in waits.values())
    low = 0.25 * math.floor(least / 0.25) if large else 0.0
    y = linear(low, 1, percent, np.arange(low, 1.01, 0.25).tolist() if large else (0, 0.5, 1))
    plot = Plot((44, 24 if large else 10, width - 44 - right, height), x, y)
    plot.axes("waiting time" if large else "", "jobs started" if large else "", grid_x=large)
    curves = {key: _cdf(values, longest) for key, values in waits.items()}
    for play in PLAYS:
        plot.steps(curves[play.key], f"s-{play.key}")
    bottom = plot.top + height + (44 if large else 26)
    if not large:
        return plot.svg(), bottom
    bottom = _name_curves(plot, curves, width, bottom)
    return plot.svg(), bottom


def _name_curves(plot: Plot, curves: Mapping[str, list[tuple[float, float]]], width: int, bottom: float) -> float:
    """Name each curve beside its middle where there is room, else in a row below. Returns the new height."""
    if width > 500:
        places = [plot.at(plot.x.high, 1 - 0.09 * i)[1] for i in range(len(PLAYS))]
        for play, y in zip(PLAYS, spread(places, 54, plot.top, plot.top + plot.height), strict=True):
            at_once = percent(curves[play.key][0][1])
            x = plot.left + plot.width + 12
            plot.label(x, y + 6, play.title, f"strong s-{play.key}")
            plot.label(x, y + 21, f"{at_once} at once,")
            plot.label(x, y + 36, f"90{NBSP}% within {duration(_reached(curves[play.key], 0.9))}")
        return bottom
    for i, play in enumerate(PLAYS):
        plot.label(44 + (i % 2) * 150, bottom + 16 + 18 * (i // 2), f"━ {play.title}", f"strong s-{play.key}")
    return bottom + 10 + 18 * ((len(PLAYS) + 1) // 2)


def _reached(curve: Sequence[tuple[float, float]], share: float) -> float:
    return next((x for x, y in curve if y >= share), curve[-1][0])


def _wait_label(seconds: float) -> str:
    return "≤10 s" if seconds <= SHORTEST_WAIT_S else tick_duration(seconds)


def _cdf(values: Floats, longest: float) -> list[tuple[float, float]]:
    """Steps of the distribution function, thinned to what a picture can show."""
    shown = np.sort(np.maximum(values, SHORTEST_WAIT_S))
    x, count = np.unique(shown, return_counts=True)
    y = np.cumsum(count) / shown.size
    keep = np.unique(np.linspace(0, x.size - 1, min(x.size, 160)).astype(int))
    points = [*zip(x[keep].tolist(), y[keep].tolist(), strict=True)]
    return [*points, (longest, 1.0)]


def predictions(walk: Walk) -> Figure:
    """Predicted median against actual duration with each job's 80 % interval."""
    told = [(ask, walk.workload.truth[ask.job_id], walk.predictions[ask.job_id]) for ask in walk.workload.asks]
    inside = float(np.mean([_covers(truth, said) for _, truth, said in told]))
    return figure(
        "Predicted against actual durations",
        "Each dot is a job; the vertical line is its predicted interval from the 10 % to the 90 % quantile. "
        f"{percent(inside)} of the intervals hold the actual duration; 80 % would be perfect calibration.",
        "Each job was predicted when it was submitted, from its source, its launch command and the jobs that had "
        f"ended by then. {percent(inside)} of the 80 % intervals hold the actual duration (blue); the others miss it "
        "(orange). Grey band: within a factor of two.",
        partial(_scatter, told),
    )


def _covers(truth: Truth, said: Prediction) -> bool:
    return said.duration_s.p10 <= truth.duration_s <= said.duration_s.p90


def _scatter(told: Sequence[tuple[Ask, Truth, Prediction]], width: int) -> tuple[str, float]:
    low, high = 10.0, 4 * DAY_S
    ticks = (10, 60, 600, 3600, 6 * 3600, DAY_S) if width > 500 else (60, 3600, DAY_S)
    axis: Scale = logarithmic(low, high, tick_duration, ticks)
    height = 440 if width > 500 else 300
    plot = Plot((62, 24, width - 62 - 10, height), axis, axis)
    name = "predicted duration (median and 80 % interval)" if width > 500 else "predicted (median, 80 % interval)"
    plot.axes("actual duration", name, grid_x=True)
    plot.band([(low, low / 2), (high, high / 2)], [(low, low * 2), (high, high * 2)], "factor")
    plot.line([(low, low), (high, high)], "guide")
    for holds, style in ((True, "s-hints"), (False, "s-easy")):
        group = [(t.duration_s, p.duration_s) for _, t, p in told if _covers(t, p) is holds]
        plot.bars([(actual, q.p10, q.p90) for actual, q in group], style)
    for holds, style in ((True, "s-hints"), (False, "s-easy")):
        group = [(t.duration_s, p.duration_s) for _, t, p in told if _covers(t, p) is holds]
        plot.dots([(actual, q.p50) for actual, q in group], style)
    plot.note(high, high, "exact", "end", dx=-4, dy=20)
    return plot.svg(), plot.top + height + 44
