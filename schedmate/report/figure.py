"""A picture with its title, caption and description; drawn twice, for wide and for narrow screens."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

WIDE_PX = 980
NARROW_PX = 360

#: Draws into a given width and returns (SVG marks, height).
Draw = Callable[[int], tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """``html`` is the whole figure element."""

    html: Markup


def figure(
    title: str, description: str, caption: str, draw: Draw, *, widths: tuple[int, ...] = (WIDE_PX, NARROW_PX)
) -> Figure:
    """Draw a figure. ``description`` says in words what the picture shows, for those who can not see it."""
    drawings = []
    for width in widths:
        marks, height = draw(width)
        kind = "only" if len(widths) == 1 else "wide" if width == max(widths) else "narrow"
        drawings.append(svg(marks, width, height, title, description, kind))
    head = f"<h3>{escape(title)}</h3>" if title else ""
    foot = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Figure(Markup(f"<figure>{head}{''.join(drawings)}{foot}</figure>"))


def svg(marks: str, width: float, height: float, title: str, description: str, kind: str = "only") -> str:
    """The surrounding element with an accessible name and description."""
    name = f"f-{zlib.crc32(f'{title} {kind} {width}'.encode()):08x}"
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>{marks}</svg>'
    )
