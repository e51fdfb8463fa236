"""The map of nodes and time: which part of each node's GPUs was allocated when."""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.comparison.axes import LEFT_PX, data_of, time_axis, time_name
from schedmate.comparison.runs import Run
from schedmate.report import Draw, Figure, Plot, Scale, figure, linear

#: Upper ends of the shades, in per cent of the GPUs of a row; what is 0 is not drawn.
LEVELS = (25, 50, 75, 99, 100)
_MOST_PX, _LEAST_ROW_PX, _MOST_ROW_PX = 300.0, 2.5, 9.0


def occupancy(run: Run) -> list[Figure]:
    """One picture a pool."""
    found = []
    for number, pool in enumerate((run.detail or {})["occupancy"]):
        several = len((run.detail or {})["occupancy"]) > 1
        name = f"{run.label}{', pool ' + pool['pool'] if several else ''}"
        per_row = pool["nodes_per_row"]
        grouped = f"each row is {per_row} neighbouring nodes" if per_row > 1 else "each row is a node"
        found.append(
            figure(
                f"Nodes over time: {name}",
                f"Share of the GPUs of {pool['nodes']} nodes that is allocated, over time, under {name}.",
                f"Node number (vertical; {grouped}) over time (horizontal). The stronger the colour, the more "
                f"of a node's GPUs are allocated: up to 25, 50, 75 and 99 %, and all of them; paper colour is idle. "
                f"{data_of([run])}",
                _draw(run, number),
            )
        )
    return found


def _draw(run: Run, number: int) -> Draw:
    detail = run.detail or {}
    pool = detail["occupancy"][number]
    lines: list[list[int]] = pool["percent"]

    def draw(width: int) -> tuple[str, float]:
        shown = lines if width > 500 else [_halved(line) for line in lines]
        row_px = min(_MOST_ROW_PX, max(_LEAST_ROW_PX, _MOST_PX / len(shown)))
        height = row_px * len(shown)
        y = linear(0, pool["nodes"], lambda v: f"{v:,.0f}")
        plot = Plot((LEFT_PX, 24, width - LEFT_PX - 8, height), time_axis([run], width), _downwards(y, pool["nodes"]))
        plot.axes(time_name([run]), "node")
        cell_px = plot.width / max(1, len(shown[0]))
        marks = [plot.svg()]
        for level in range(len(LEVELS)):
            path = "".join(
                f"M{plot.left + a * cell_px:.1f} {plot.top + (row + 0.5) * row_px:.1f}h{(b - a) * cell_px:.1f}"
                for row, line in enumerate(shown)
                for a, b in _stretches(line, level)
            )
            if path:
                marks.append(f'<path class="heat h{level} {run.style}" style="stroke-width:{row_px:.2f}" d="{path}"/>')
        return "\n".join(marks), plot.top + height + 44

    return draw


def _downwards(y: Scale, nodes: int) -> Scale:
    """Node 0 is at the top."""
    return Scale(0, nodes, tuple((nodes - value, label) for value, label in y.ticks), y.warp)


def _level(percent: int) -> int | None:
    return None if percent == 0 else next(level for level, most in enumerate(LEVELS) if percent <= most)


def _stretches(line: Sequence[int], level: int) -> list[tuple[int, int]]:
    """Runs of cells of one shade, as (first, after the last)."""
    found, begin = [], None
    for at, percent in enumerate([*line, 0]):
        inside = _level(percent) == level
        if inside and begin is None:
            begin = at
        elif not inside and begin is not None:
            found.append((begin, at))
            begin = None
    return found


def _halved(line: Sequence[int]) -> list[int]:
    """Two stretches in one, for narrow screens."""
    return [round(sum(pair) / len(pair)) for pair in (line[i : i + 2] for i in range(0, len(line), 2))]
