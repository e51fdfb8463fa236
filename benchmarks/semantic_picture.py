"""What hints are worth over the load of a cluster, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from schedmate.report.plot import Plot
from schedmate.report.scale import linear

WIDTH, HEIGHT = 860, 350
COLOURS = ("#c2410c", "#3b6fd4", "#15803d", "#7c3aed")
Curve = Sequence[tuple[float, float]]


def svg(curves: Mapping[tuple[str, str], Curve]) -> str:
    """A panel for each kind of workload, a line for each knowledge. ``curves``: by workload and knowledge the load and
    mean JCT without hints over that with them."""
    names, knowledge = (
        list(dict.fromkeys(name for name, _ in curves)),
        list(dict.fromkeys(knows for _, knows in curves)),
    )
    points = [point for line in curves.values() for point in line]
    loads, ratios = [load for load, _ in points], [ratio for _, ratio in points]
    wide = (WIDTH - 40) / max(1, len(names))
    panels = []
    for i, name in enumerate(names):
        x = linear(min(loads), max(loads), lambda load: f"{load:g}")
        y = linear(min(1.0, *ratios), max(1.2, *ratios), lambda ratio: f"{ratio:.1f}x")
        plot = Plot((54 + wide * i, 44, wide - 40, HEIGHT - 130), x, y)
        plot.axes("load", f"{name}: mean JCT without hints / with them")
        for (of, knows), line in curves.items():
            if of == name:
                plot.line(line, f"c{knowledge.index(knows)}")
        panels.append(plot.svg())
    legend = Plot((0, 0, WIDTH, HEIGHT), linear(0, 1, str), linear(0, 1, str))
    styles = []
    for i, knows in enumerate(knowledge):
        colour = COLOURS[i % len(COLOURS)]
        styles.append(f".c{i}{{stroke:{colour}}} text.c{i}{{fill:{colour};stroke:none;font-weight:600}}")
        legend.label(54 + 160 * i, HEIGHT - 14, knows, f"c{i}")
    title = "Mean JCT without hints over that with them, by load"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t" '
        f'font-family="system-ui, sans-serif" font-size="12"><title id="t">{escape(title)}</title><style>'
        ".line{fill:none;stroke-width:2}"
        ".grid{stroke:#cbd2dc;stroke-width:.6}.axis{stroke:#8a94a6}.tick.mid{font-size:10.5px}"
        ".end{text-anchor:end}.mid{text-anchor:middle}text{fill:#4a5568}.bg{fill:#fff}"
        "@media (prefers-color-scheme: dark){.bg{fill:#12161d}text{fill:#c3cad6}.grid{stroke:#39414e}}"
        f'{"".join(styles)}</style><rect class="bg" width="{WIDTH}" height="{HEIGHT}"/>'
        f"{''.join(panels)}{legend.svg()}</svg>\n"
    )
