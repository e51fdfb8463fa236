"""Mean JCT of each run against the first, with what is known of the chance in it."""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.comparison.axes import data_of
from schedmate.comparison.runs import Run, jct_ratios
from schedmate.report import Figure, Plot, figure, linear

_ROW_PX = 30


def jct_ratio(runs: Sequence[Run]) -> Figure:
    """A row a run: the ratio as a dot, its 95 % confidence interval as a bar."""
    ratios = [ratio for ratio in jct_ratios(runs) if ratio is not None]
    n = max(ratio.n for ratio in ratios)
    judged = (
        f"Bars are 95 % confidence intervals of the mean over {n} replays in which every submit time was "
        f"moved by up to {_within(runs):.0f} s, the same way for every policy"
        if n > 1
        else "The trace was replayed once, so nothing tells how much of a difference is chance"
    )
    told = ", ".join(f"{run.label} {ratio.mean:.3f}" for run, ratio in zip(runs, ratios, strict=True))

    def draw(width: int) -> tuple[str, float]:
        low = min(1.0, *(ratio.low if ratio.low is not None else ratio.mean for ratio in ratios))
        high = max(1.0, *(ratio.high if ratio.high is not None else ratio.mean for ratio in ratios))
        room = max(0.02, 0.06 * (high - low))
        left = 190 if width > 500 else 110
        height = _ROW_PX * len(runs)
        x = linear(max(0.0, low - room), high + room, lambda v: f"{v:.2f}")
        plot = Plot((left, 12, width - left - (150 if width > 500 else 60), height), x, linear(0, len(runs), str, ()))
        plot.axes(f"mean JCT over that of {runs[0].label}, ratio", grid_x=True)
        plot.line([(1, 0), (1, len(runs))], "guide")
        for number, (run, ratio) in enumerate(zip(runs, ratios, strict=True)):
            y = len(runs) - number - 0.5
            words = f"{ratio.mean:.3f}"
            if ratio.low is not None and ratio.high is not None:
                plot.line([(ratio.low, y), (ratio.high, y)], f"{run.style} wide")
                words += f" ({ratio.low:.3f} to {ratio.high:.3f})" if width > 500 else ""
            plot.dots([(ratio.mean, y)], run.style, 5)
            plot.label(left - 12, plot.at(1, y)[1] + 4, run.label, f"strong end {run.style}")
            plot.label(width - 4, plot.at(1, y)[1] + 4, words, "end")
        return plot.svg(), height + 12 + 44

    return figure(
        "Completion time against the first policy",
        f"Mean job completion time over that of {runs[0].label}: {told}.",
        f"JCT: from submission to end; below 1 is better than {runs[0].label}. {judged}. {data_of(runs)}",
        draw,
    )


def _within(runs: Sequence[Run]) -> float:
    return max(float(run.summary["shakes"]["within_s"]) for run in runs if run.summary.get("shakes"))
