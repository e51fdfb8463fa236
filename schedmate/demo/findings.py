"""What the report shows of the readings: two root causes with their lines, and one job's facts with their evidence."""

from __future__ import annotations

from dataclasses import dataclass

from analyzers.types import Echo, JsonValue
from schedmate.demo.scores import Diagnosed
from schedmate.demo.walk import Walk
from schedmate.report import Excerpt, read_excerpt
from schedmate.report.excerpt import printable
from schedmate.workload import Ask

SHOWN_FINDINGS = 2
SHOWN_FILES = 2
SHOWN_ECHOES = 3
LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosed failure with excerpts; ``more_echoes`` counts dismissed lines that are not shown."""

    case: Diagnosed
    excerpts: tuple[Excerpt, ...]
    echoes: tuple[Echo, ...]
    more_echoes: int


@dataclass(frozen=True, slots=True)
class ShownFact:
    """One fact; ``where`` is ``file:line`` and ``line`` the text that stands there."""

    name: str
    value: str
    confidence: float
    where: str
    line: str


@dataclass(frozen=True, slots=True)
class ReadExample:
    """One job's facts, those with a line to show apart from those concluded from what is not there."""

    ask: Ask
    facts: tuple[ShownFact, ...]
    without_a_line: tuple[ShownFact, ...]


def findings(walk: Walk) -> list[Finding]:
    """Cases with the most dismissed lines, of different categories. Chosen by what was found, not by being right."""
    cases = sorted(walk.diagnosed, key=lambda case: (-len(case.found.echoes), case.ask.job_id))
    shown: list[Diagnosed] = []
    for case in cases:
        if case.found.evidence and case.found.category not in {other.found.category for other in shown}:
            shown.append(case)
        if len(shown) == SHOWN_FINDINGS:
            break
    return [_finding(walk, case) for case in shown]


def _finding(walk: Walk, case: Diagnosed) -> Finding:
    folder = walk.run_folders[case.ask.job_id]
    marks: dict[str, dict[int, str]] = {}
    for evidence in case.found.evidence:
        marks.setdefault(evidence.file, {})[evidence.line] = "root"
    excerpts = [read_excerpt(folder, file, lines) for file, lines in list(marks.items())[:SHOWN_FILES]]
    echoes = _different(case.found.echoes)
    return Finding(case, tuple(excerpts), tuple(echoes), len(case.found.echoes) - len(echoes))


def _different(echoes: tuple[Echo, ...]) -> list[Echo]:
    """A few echoes, each dismissed for another reason where there are several reasons."""
    first = {echo.why: echo for echo in reversed(echoes)}
    chosen = [echo for echo in echoes if first[echo.why] is echo][:SHOWN_ECHOES]
    rest = [echo for echo in echoes if echo not in chosen]
    shown = sorted([*chosen, *rest[: SHOWN_ECHOES - len(chosen)]], key=echoes.index)
    return [Echo(echo.file, echo.line, printable(echo.text, 220), echo.why) for echo in shown]


def read_example(walk: Walk) -> ReadExample:
    """The job with the most facts from the most files; the first of them in order of submission."""

    def richness(ask: Ask) -> tuple[int, int]:
        facts = walk.facts[ask.job_id].facts
        files = {evidence.file for fact in facts.values() for evidence in fact.evidence}
        return len(files), sum(fact.value is not None for fact in facts.values())

    ask = max(walk.workload.asks, key=richness)
    facts = walk.facts[ask.job_id].facts
    known = [(name, fact) for name, fact in facts.items() if fact.value is not None]
    shown = []
    for name, fact in known:
        place = fact.evidence[0] if fact.evidence else None
        line = _source_line(walk, ask, place.file, place.line) if place else ""
        where = "" if place is None else "launch command" if place.file == LAUNCH else f"{place.file}:{place.line}"
        shown.append(ShownFact(name, _told(fact.value), fact.confidence, where, line))
    with_line = tuple(fact for fact in shown if fact.where)
    return ReadExample(ask, with_line, tuple(fact for fact in shown if not fact.where))


def _source_line(walk: Walk, ask: Ask, file: str, line: int) -> str:
    workdir = walk.submissions[ask.job_id].workdir
    if file == LAUNCH or workdir is None:
        return ""
    lines = read_excerpt(workdir, file, {line: "root"}, around=0).lines
    return lines[0].text.strip() if lines else ""


def _told(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and value >= 1000):
        return f"{int(value):,}"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(_told(item) for item in value)
    return str(value)
