"""What was said of each job's runtime when it was submitted, against what it took."""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.comparison.axes import data_of
from schedmate.comparison.runs import Run
from schedmate.report import Draw, Figure, Plot, figure, logarithmic
from schedmate.report.scale import percent, tick_duration

_SHORTEST_S = 1.0
_SAID = {"requested": "requested time", "predicted": "predicted runtime"}


def against_actual(runs: Sequence[Run]) -> Figure | None:
    """Of the first run that was told something else than the truth; None if there is none.

    One picture is enough: what is said at submission hardly depends on the policy.
    """
    told = [run for run in runs if run.summary["estimates"] in _SAID and run.detail and run.detail["predicted"]]
    if not told or told[0].detail is None:
        return None
    run, found = told[0], told[0].detail["predicted"]
    said = _SAID[run.summary["estimates"]]
    within = found["within_high"]
    covered = "" if within is None else f" {percent(within)} ended within the 90 % quantile that was told with it."
    half = (
        f"For half of the jobs the {said} is within a factor of {found['median_error_factor']:.1f} of the actual one."
    )
    shown = len(found["points"])
    return figure(
        f"{said.capitalize()} against actual runtime",
        f"Each dot is a job. {half}{covered}",
        f"Each dot is one of {shown:,} jobs out of {found['jobs']:,}, evenly spaced in the order of submission, under "
        f"{run.label}: actual runtime (horizontal) against the {said} (vertical)"
        + (", with a line up to its 90 % quantile" if within is not None else "")
        + f", both logarithmic. Grey band: within a factor of two. {half}{covered} {data_of([run])}",
        _draw(run, f"{said}"),
    )


def _draw(run: Run, name: str) -> Draw:
    points = (run.detail or {})["predicted"]["points"]

    def draw(width: int) -> tuple[str, float]:
        wide = width > 500
        longest = max(3600.0, *(max(actual, said, high or 0.0) for actual, said, high in points))
        ticks = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400) if wide else (1, 60, 3600, 86_400)
        axis = logarithmic(_SHORTEST_S, longest, lambda s: "≤1 s" if s <= 1 else tick_duration(s), ticks)
        plot = Plot((62, 24, min(width - 72, 620), 380 if wide else 280), axis, axis)
        plot.axes("actual runtime", name, grid_x=True)
        low = _SHORTEST_S
        plot.band([(low, low / 2), (longest, longest / 2)], [(low, low * 2), (longest, longest * 2)], "factor")
        plot.line([(low, low), (longest, longest)], "guide")
        at_least = [tuple(None if v is None else max(low, v) for v in point) for point in points]
        plot.bars([(actual, said, high) for actual, said, high in at_least if high and actual and said], run.style)
        plot.dots([(actual, said) for actual, said, _ in at_least if actual and said], run.style, 1.8)
        return plot.svg(), plot.top + plot.height + 44

    return draw
