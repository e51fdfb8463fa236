"""Self-contained HTML reports: pictures as inline SVG, log excerpts, one style sheet. No network, no script."""

from schedmate.report.excerpt import Excerpt, Line, read_excerpt
from schedmate.report.figure import Draw, Figure, figure
from schedmate.report.page import render_page
from schedmate.report.plot import Plot
from schedmate.report.scale import Scale, linear, logarithmic

__all__ = [
    "Draw",
    "Excerpt",
    "Figure",
    "Line",
    "Plot",
    "Scale",
    "figure",
    "linear",
    "logarithmic",
    "read_excerpt",
    "render_page",
]
