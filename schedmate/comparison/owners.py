"""Who waits: the mean wait of each tenant or user under each policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedmate.comparison.axes import data_of
from schedmate.comparison.runs import Run
from schedmate.report import Figure, Plot, figure, linear, logarithmic
from schedmate.report.scale import duration, percent, tick_duration

_ROW_PX = 24
_SHORTEST_S = 1.0


def fairness(runs: Sequence[Run]) -> Figure | None:
    """A row a tenant or user, a dot a run; None where the trace says nobody's name."""
    known = [run for run in runs if run.detail and run.detail["owners"]["known"]]
    if not known:
        return None
    first: list[dict[str, Any]] = known[0].detail["owners"]["rows"] if known[0].detail else []
    total_s = sum(row["gpu_s"] for row in first) or 1.0
    waits = {run.label: {row["owner"]: row["queueing_mean_s"] for row in _rows(run)} for run in known}
    names = [row["owner"] for row in first]
    index = ", ".join(f"{run.label} {run.detail['owners']['jain_index']:.2f}" for run in known if run.detail)

    def draw(width: int) -> tuple[str, float]:
        wide = width > 500
        left, right, height = (190, 84, _ROW_PX * len(names)) if wide else (110, 44, _ROW_PX * len(names))
        longest = max(600.0, *(each for own in waits.values() for each in own.values()))
        ticks = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400) if wide else (1, 60, 3600, 86_400)
        x = logarithmic(_SHORTEST_S, longest, lambda s: "≤1 s" if s <= 1 else tick_duration(s), ticks)
        plot = Plot((left, 24, width - left - right, height), x, linear(0, len(names), str, ()))
        plot.axes("mean waiting time", grid_x=True)
        plot.label(width - 4, 14, "GPU time" if wide else "", "end")
        for number, row in enumerate(first):
            y = len(names) - number - 0.5
            plot.line([(_SHORTEST_S, y), (longest, y)], "faint")
            at = plot.at(_SHORTEST_S, y)[1] + 4
            plot.label(left - 12, at, _short(row["owner"], 24 if wide else 13), "end")
            plot.label(width - 4, at, percent(row["gpu_s"] / total_s), "end")
        for run in known:
            points = [
                (max(_SHORTEST_S, waits[run.label][name]), len(names) - number - 0.5)
                for number, name in enumerate(names)
                if name in waits[run.label]
            ]
            plot.dots(points, run.style, 4.5)
        bottom, each = plot.top + height + 58, 150
        per_row = max(1, (width - 20) // each)
        for i, run in enumerate(known):
            plot.label(10 + (i % per_row) * each, bottom + 18 * (i // per_row), f"● {run.label}", f"strong {run.style}")
        return plot.svg(), bottom + 18 * ((len(known) - 1) // per_row) + 8

    told = "; ".join(f"{run.label}: {_extremes(run)}" for run in known)
    return figure(
        "Who waits",
        f"Mean waiting time of each tenant or user under each policy. {told}.",
        "Mean waiting time (horizontal, logarithmic) of the jobs of each tenant, or of each user where the trace names "
        "no tenants; the largest users of GPU time first, with their share of it at the right. Jain's index of their "
        f"mean bounded slowdowns (1: all alike): {index}. {data_of(runs)}",
        draw,
    )


def _rows(run: Run) -> list[dict[str, Any]]:
    return list(run.detail["owners"]["rows"]) if run.detail else []


def _extremes(run: Run) -> str:
    waits = [row["queueing_mean_s"] for row in _rows(run)]
    return f"from {duration(min(waits))} to {duration(max(waits))}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
