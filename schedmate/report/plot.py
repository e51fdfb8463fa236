"""A small plotting surface that writes SVG. Colours are classes: one style sheet serves light, dark and print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from schedmate.report.scale import Scale

Point = tuple[float, float]


class Plot:
    """One set of axes. Marks are added in data coordinates and drawn in the order they were added.

    ``box`` is (left, top, width, height) of the plotting area in pixels. Classes of marks (``s-fifo`` and so on) are
    defined in ``report.css``.
    """

    def __init__(self, box: tuple[float, float, float, float], x: Scale, y: Scale) -> None:
        self.left, self.top, self.width, self.height = box
        self.x, self.y = x, y
        self._marks: list[str] = []

    def at(self, x: float, y: float) -> Point:
        """Pixels of a point in data coordinates."""
        return self.left + self.x.place(x) * self.width, self.top + (1 - self.y.place(y)) * self.height

    def axes(self, x_label: str = "", y_label: str = "", *, grid_x: bool = False) -> Plot:
        """Ticks, their labels, grid lines and the names of the axes."""
        bottom, right = self.top + self.height, self.left + self.width
        for value, label in self.y.ticks:
            y = self.at(self.x.low, value)[1]
            self._add(f'<path class="grid" d="M{self.left:.1f} {y:.1f}H{right:.1f}"/>')
            self.label(self.left - 6, y + 4, label, "tick end")
        for value, label in self.x.ticks:
            x = self.at(value, self.y.low)[0]
            end = self.top if grid_x else bottom + 4
            self._add(f'<path class="grid" d="M{x:.1f} {bottom:.1f}V{end:.1f}"/>')
            if label:
                self.label(x, bottom + 17, label, "tick mid")
        self._add(f'<path class="axis" d="M{self.left:.1f} {bottom:.1f}H{right:.1f}"/>')
        if x_label:
            self.label(right, bottom + 35, x_label, "name end")
        if y_label:
            self.label(self.left, self.top - 10, y_label, "name")
        return self

    def line(self, points: Iterable[Point], style: str) -> Plot:
        """A line through points."""
        self._add(f'<path class="line {style}" d="{self._path(points)}"/>')
        return self

    def steps(self, points: Sequence[Point], style: str) -> Plot:
        """A line that holds each value until the next point."""
        held: list[Point] = []
        for i, (x, y) in enumerate(points):
            if i:
                held.append((x, points[i - 1][1]))
            held.append((x, y))
        return self.line(held, style)

    def area(self, points: Sequence[Point], style: str) -> Plot:
        """The area under a step line, down to the bottom of the axes."""
        held: list[Point] = [(points[0][0], self.y.low)]
        for i, (x, y) in enumerate(points):
            if i:
                held.append((x, points[i - 1][1]))
            held.append((x, y))
        held.append((points[-1][0], self.y.low))
        self._add(f'<path class="area {style}" d="{self._path(held)}Z"/>')
        return self

    def bars(self, spans: Iterable[tuple[float, float, float]], style: str) -> Plot:
        """Thin vertical lines, each (x, low, high)."""
        parts = []
        for x, low, high in spans:
            (px, y1), (_, y2) = self.at(x, low), self.at(x, high)
            parts.append(f"M{px:.1f} {y1:.1f}V{y2:.1f}")
        self._add(f'<path class="bar {style}" d="{"".join(parts)}"/>')
        return self

    def dots(self, points: Iterable[Point], style: str, radius: float = 2.6) -> Plot:
        """A dot for each point."""
        parts = []
        for x, y in points:
            px, py = self.at(x, y)
            parts.append(f"M{px:.1f} {py:.1f}h0")
        self._add(f'<path class="dot {style}" style="stroke-width:{2 * radius:.1f}" d="{"".join(parts)}"/>')
        return self

    def band(self, lower: Sequence[Point], upper: Sequence[Point], style: str) -> Plot:
        """The area between two lines."""
        self._add(f'<path class="area {style}" d="{self._path([*lower, *reversed(upper)])}Z"/>')
        return self

    def note(self, x: float, y: float, text: str, style: str = "", dx: float = 0, dy: float = 0) -> Plot:
        """A label at a point in data coordinates, moved by pixels."""
        px, py = self.at(x, y)
        self.label(px + dx, py + dy, text, style)
        return self

    def label(self, x: float, y: float, text: str, style: str = "") -> Plot:
        """A label at a place in pixels; ``style`` may hold ``mid`` or ``end`` for its anchor."""
        self._add(f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>')
        return self

    def svg(self) -> str:
        """The marks as SVG, without the surrounding element."""
        return "\n".join(self._marks)

    def _add(self, mark: str) -> None:
        self._marks.append(mark)

    def _path(self, points: Iterable[Point]) -> str:
        pixels = [self.at(x, y) for x, y in points]
        return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in pixels)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move label positions apart until neighbours are ``gap`` pixels from each other, inside ``low..high``."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [places[i] for i in order]
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    overflow = moved[-1] - high if moved else 0.0
    if overflow > 0:
        moved[-1] = high
        for i in range(len(moved) - 2, -1, -1):
            moved[i] = min(moved[i], moved[i + 1] - gap)
    result = [0.0] * len(places)
    for position, index in zip(moved, order, strict=True):
        result[index] = max(position, low)
    return result
