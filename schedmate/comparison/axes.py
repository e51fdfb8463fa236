"""What the pictures have in common: the axis of time, rows of one run each, and what the data are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from schedmate.comparison.runs import Run
from schedmate.report import Plot
from schedmate.report.scale import NBSP, Scale, linear

DAY_S = 86_400.0
HOUR_S = 3600.0
LEFT_PX = 58
_ROW_GAP_PX = 28
_SPANS_S = tuple(
    unit * step
    for unit, steps in ((60.0, (1, 5, 15, 30)), (HOUR_S, (1, 2, 6, 12)), (DAY_S, (1, 2, 7, 14, 28, 91, 182, 364)))
    for step in steps
)


def time_axis(span_s: float, width: int) -> Scale:
    """From 0 to ``span_s``, with ticks at round times so far apart that their labels do not touch."""
    most = max(2, width // 90)
    step = next((each for each in _SPANS_S if span_s / each <= most), span_s)
    values = [step * i for i in range(math.floor(span_s / step + 1e-9) + 1)]
    return linear(0, span_s, lambda s: _told(s, step), values)


def _told(seconds: float, step: float) -> str:
    if step >= DAY_S:
        return f"day{NBSP}{seconds / DAY_S:.0f}"
    if step >= HOUR_S:
        return f"{seconds / HOUR_S:.0f}{NBSP}h"
    return f"{seconds / 60:.0f}{NBSP}min"


def span_of(runs: Sequence[Run]) -> float:
    """Seconds of the longest of the pictures' windows."""
    return max((run.detail["end_s"] - run.detail["start_s"][0] for run in runs if run.detail is not None), default=1.0)


def rows(
    runs: Sequence[Run],
    width: int,
    height_px: float,
    y: Scale,
    draw: Callable[[Run, Plot], str],
    y_label: str = "",
) -> tuple[str, float]:
    """One small picture a run, one below the other on one axis of time; ``draw`` returns words for its right end."""
    marks, top, span_s = [], 22.0, span_of(runs)
    for run in runs:
        x = time_axis(span_s, width)
        last = run is runs[-1]
        plot = Plot((LEFT_PX, top, width - LEFT_PX - 8, height_px), x if last else _bare(x), y)
        plot.axes("time since the first submission" if last else "")
        words = draw(run, plot)
        title = f"{run.label} · {y_label}" if y_label and run is runs[0] and width > 500 else run.label
        plot.label(LEFT_PX, top - 7, title, f"strong {run.style}")
        plot.label(width - 8, top - 7, words, "end")
        marks.append(plot.svg())
        top += height_px + _ROW_GAP_PX
    return "\n".join(marks), top + 24


def _bare(x: Scale) -> Scale:
    return Scale(x.low, x.high, tuple((value, "") for value, _ in x.ticks), x.warp)


def data_of(runs: Sequence[Run]) -> str:
    """What the pictures are of, for captions."""
    first = runs[0]
    cluster = first.document["cluster"]
    traces = sorted({str(run.document["trace"]).rpartition("/")[2] for run in runs})
    words = (
        f"Data: {', '.join(traces)}, {first.summary['jobs']:,} jobs on {cluster['nodes']:,} nodes with "
        f"{cluster['gpus']:,} GPUs."
    )
    return words + (" Synthetic: these jobs were generated." if any(run.synthetic for run in runs) else "")
