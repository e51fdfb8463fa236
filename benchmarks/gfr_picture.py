"""GFR over time as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from schedmate.report.plot import Plot
from schedmate.report.scale import linear

WIDTH, HEIGHT = 860, 330
COLOURS = ("#8a94a6", "#c2410c", "#3b6fd4", "#15803d", "#7c3aed", "#be185d")
STEP_S = 7200.0


def svg(series: Mapping[str, Sequence[float]], nodes: int, days: float) -> str:
    """A line for each row. ``series`` are `averages`."""
    lines = {
        name: [((i + 0.5) * days / len(each), 100 * value / nodes) for i, value in enumerate(each)]
        for name, each in series.items()
    }
    high = max((value for line in lines.values() for _, value in line), default=1.0)
    x = linear(0, days, lambda day: f"{day:.0f}", [float(day) for day in range(int(days) + 1)])
    plot = Plot((54, 34, WIDTH - 330, HEIGHT - 90), x, linear(0, high, lambda value: f"{value:g} %"))
    plot.axes("day", "nodes partly used (GFR)")
    styles = []
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        styles.append(f".c{i}{{stroke:{colour}}} text.c{i}{{fill:{colour};stroke:none;font-weight:600}}")
        plot.line(line, f"c{i}")
        plot.label(WIDTH - 262, 60 + 22 * i, name, f"c{i}")
    title = "GFR over time by policy"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t" '
        f'font-family="system-ui, sans-serif" font-size="12"><title id="t">{escape(title)}</title><style>'
        ".line{fill:none;stroke-width:1.6}.grid{stroke:#cbd2dc;stroke-width:.6}.axis{stroke:#8a94a6}"
        ".end{text-anchor:end}.mid{text-anchor:middle}text{fill:#4a5568}.bg{fill:#fff}"
        "@media (prefers-color-scheme: dark){.bg{fill:#12161d}text{fill:#c3cad6}.grid{stroke:#39414e}}"
        f'{"".join(styles)}</style><rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>{plot.svg()}</svg>\n'
    )


def averages(series: Sequence[tuple[float, int]], days: float) -> list[float]:
    """Nodes partly used, averaged over time in steps of about `STEP_S`. ``series``: (time, from then on so many)."""
    until_s = days * 86400.0
    times = np.array([0.0, *(at_s for at_s, _ in series), until_s])
    values = np.array([0.0, *(float(count) for _, count in series)])
    total = np.concatenate([[0.0], np.cumsum(values * np.diff(times))])
    marks = np.linspace(0.0, until_s, max(1, round(until_s / STEP_S)) + 1)
    means: list[float] = (np.diff(np.interp(marks, times, total)) / np.diff(marks)).tolist()
    return means
