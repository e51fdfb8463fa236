"""What the pictures have in common: the axis of time, rows of one run each, and what the data are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from prompts.errors import UserError
from schedmate.comparison.runs import Run
from schedmate.durations import zone_named
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


def time_axis(runs: Sequence[Run], width: int) -> Scale:
    """Seconds since the first submission, with ticks so far apart that their labels do not touch: at round dates where
    the trace has them, else at round times."""
    span_s, begin = span_of(runs), first_moment(runs)
    most = max(2, width // 90)
    step = next((each for each in _SPANS_S if span_s / each <= most), span_s)
    if begin is not None:
        dates = _round_dates(begin, span_s, step)
        return linear(0, span_s, dict(dates).__getitem__, [at_s for at_s, _ in dates])
    values = [step * i for i in range(math.floor(span_s / step + 1e-9) + 1)]
    return linear(0, span_s, lambda s: _told(s, step), values)


def time_name(runs: Sequence[Run]) -> str:
    """What to call that axis."""
    begin = first_moment(runs)
    if begin is None:
        return "time since the first submission"
    return f"time ({runs[0].document['clock']['timezone']}, from {begin:%Y-%m-%d})"


def first_moment(runs: Sequence[Run]) -> datetime | None:
    """When the first job was submitted, in the trace's time zone; None where the trace has no dates, or the runs have
    several."""
    found = set()
    for run in runs:
        clock = run.document.get("clock") or {}
        if run.detail is None or not isinstance(clock.get("epoch_s"), int | float):
            return None
        try:
            zone = zone_named(str(clock["timezone"]))
            found.add(datetime.fromtimestamp(clock["epoch_s"] + run.detail["start_s"][0], zone))
        except (UserError, OverflowError, ValueError, OSError):
            return None
    return found.pop() if len(found) == 1 else None


def _round_dates(begin: datetime, span_s: float, step_s: float) -> list[tuple[float, str]]:
    """(Seconds since ``begin``, what to call them) of the moments where the local clock shows multiples of a step."""
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    found = []
    for number in range(math.floor((span_s + DAY_S) / step_s) + 2):
        local = midnight + timedelta(seconds=number * step_s)  # the clock on the wall, also where it is put back
        at_s = local.replace(tzinfo=begin.tzinfo).timestamp() - begin.timestamp()
        if 0 <= at_s <= span_s:
            whole_day = step_s >= DAY_S or (local.hour, local.minute) == (0, 0)
            found.append((at_s, f"{local.day}{NBSP}{local:%b}" if whole_day else f"{local:%H:%M}"))
    return list(dict(found).items())


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
    marks, top = [], 22.0
    for run in runs:
        x = time_axis(runs, width)
        last = run is runs[-1]
        plot = Plot((LEFT_PX, top, width - LEFT_PX - 8, height_px), x if last else _bare(x), y)
        plot.axes(time_name(runs) if last else "")
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
    counts = sorted({int(run.summary["jobs"]) for run in runs})
    jobs = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    words = f"Data: {', '.join(traces)}, {jobs} jobs on {cluster['nodes']:,} nodes with {cluster['gpus']:,} GPUs."
    return words + (" Synthetic: these jobs were generated." if any(run.synthetic for run in runs) else "")
