"""A diagnosis as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from analyzers.failures import Moment, cost_in_words
from analyzers.types import Diagnosis
from prompts.redaction import redact
from schedmate.diagnosis_report.markdown import facts, headline
from schedmate.diagnosis_report.picture import ranks_over_time
from schedmate.report import Excerpt, Line, read_excerpt, render_page
from schedmate.report.excerpt import printable

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_FILES = 4


def page(found: Diagnosis, moments: Sequence[Moment], path: Path) -> str:
    """The page as text; ``path`` is what was diagnosed, from which lines around the evidence are shown."""
    picture = ranks_over_time(found, moments)
    return render_page(
        _TEMPLATES,
        "diagnosis.html.j2",
        name=path.resolve().name,
        found=found,
        headline=headline(found),
        facts=facts(found),
        figure=picture.html if picture is not None else None,
        excerpts=_excerpts(found, path),
        cost=cost_in_words(found.plan) if found.plan is not None else "",
        clean=lambda text: printable(redact(text)),
    )


def _excerpts(found: Diagnosis, path: Path) -> list[Excerpt]:
    """The evidence among the lines around it; where the file can not be read as it is (packed), the lines alone."""
    files = list(dict.fromkeys(line.file for line in found.evidence))[:_MOST_FILES]
    return [_excerpt(found, path, file) for file in files]


def _excerpt(found: Diagnosis, path: Path, file: str) -> Excerpt:
    quoted = {line.line: printable(redact(line.text)) for line in found.evidence if line.file == file}
    around = read_excerpt(path, file, dict.fromkeys(quoted, "root"))
    shown = {line.number for line in around.lines}
    if not set(quoted) <= shown:
        return Excerpt(file, tuple(Line(number, text, "root") for number, text in sorted(quoted.items())))
    lines = (replace(line, text=quoted.get(line.number) or printable(redact(line.text))) for line in around.lines)
    return Excerpt(file, tuple(lines))
