"""Mean JCT from perfect to hostile hints as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from schedmate.report.plot import Plot
from schedmate.report.scale import linear

WIDTH, HEIGHT = 860, 350
COLOURS = ("#c2410c", "#3b6fd4", "#15803d", "#7c3aed")


def svg(curves: Mapping[tuple[str, bool], Sequence[float]], kinds: Sequence[str]) -> str:
    """A line for each trace with the gate, and a dashed one without. ``curves``: by trace and gate a ratio for each of
    the ``kinds``."""
    high = max((value for line in curves.values() for value in line), default=1.0)
    low = min((value for line in curves.values() for value in line), default=1.0)
    names = dict(enumerate(kinds))
    x = linear(0, len(kinds) - 1, lambda at: names[round(at)], [float(at) for at in names])
    y = linear(min(0.9, low), max(1.1, high), lambda value: f"{value:.2f}")
    plot = Plot((54, 34, WIDTH - 90, HEIGHT - 130), x, y)
    plot.axes("", "mean JCT, as a multiple of that without hints")
    traces = list(dict.fromkeys(name for name, _ in curves))
    styles = []
    for i, name in enumerate(traces):
        colour = COLOURS[i % len(COLOURS)]
        styles.append(f".c{i}{{stroke:{colour}}} text.c{i}{{fill:{colour};stroke:none;font-weight:600}}")
        plot.label(54 + 190 * i, HEIGHT - 14, name, f"c{i}")
    for (name, gated), line in curves.items():
        style = f"c{traces.index(name)}{'' if gated else ' open'}"
        plot.line(((float(at), value) for at, value in enumerate(line)), style)
    plot.label(54, HEIGHT - 34, "with the gate; dashed: without", "name")
    title = "Mean JCT from perfect to hostile hints, with the gate and without"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t" '
        f'font-family="system-ui, sans-serif" font-size="12"><title id="t">{escape(title)}</title><style>'
        ".line{fill:none;stroke-width:2}.open{stroke-width:1.4;stroke-dasharray:5 4}"
        ".grid{stroke:#cbd2dc;stroke-width:.6}.axis{stroke:#8a94a6}.tick.mid{font-size:10.5px}"
        ".end{text-anchor:end}.mid{text-anchor:middle}text{fill:#4a5568}.bg{fill:#fff}"
        "@media (prefers-color-scheme: dark){.bg{fill:#12161d}text{fill:#c3cad6}.grid{stroke:#39414e}}"
        f'{"".join(styles)}</style><rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>{plot.svg()}</svg>\n'
    )
