"""The page around everything: one file with its style sheet inside."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent


@cache
def _environment(folder: Path) -> Environment:
    """Templates of a report and of this package; everything that is put into them is escaped."""
    return Environment(
        loader=FileSystemLoader([folder, HERE]),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(folder: Path, template: str, **values: Any) -> str:
    """Render ``template`` from ``folder``; it may extend ``base.html.j2`` and import ``parts.html.j2``."""
    css = Markup((HERE / "report.css").read_text(encoding="utf-8"))
    return _environment(folder).get_template(template).render(css=css, **values)
