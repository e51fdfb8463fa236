"""A diagnosis as Markdown, for tickets and chats. Quoted lines are untrusted: they stand in code, where nothing in
them is markup, and without secrets."""

from __future__ import annotations

import re

from analyzers.failures import cost_in_words
from analyzers.types import Diagnosis, LogEvidence
from prompts.redaction import redact
from schedmate.report.excerpt import printable

_MOST_ECHOES = 10


def markdown(found: Diagnosis, name: str) -> str:
    """The whole report as text that ends with a newline; ``name`` is what was diagnosed."""
    parts = [f"# {_plain(name)}: {headline(found)}", _plain(found.summary), _facts(found)]
    if found.evidence:
        parts += ["## Evidence", _quoted(found.evidence)]
    parts += ["## What to do", _plain(found.explanation)]
    if found.plan is not None:
        steps = [f"{number}. {_plain(step.says)}" for number, step in enumerate(found.plan.steps, 1)]
        parts.append("\n".join(steps))
        if cost := cost_in_words(found.plan):
            parts.append(_plain(cost))
    if found.echoes:
        parts.append(f"## Put aside ({len(found.echoes)})")
        shown = found.echoes[:_MOST_ECHOES]
        parts.append("\n".join(f"- {_code(f'{e.file}:{e.line}')} {_code(e.text)}: {_plain(e.why)}" for e in shown))
        if len(found.echoes) > len(shown):
            parts.append(f"and {len(found.echoes) - len(shown)} more.")
    if found.warnings:
        parts += ["## Not read", "\n".join(f"- {_plain(warning)}" for warning in found.warnings)]
    return "\n\n".join(parts) + "\n"


def headline(found: Diagnosis) -> str:
    """The verdict in a few words."""
    if found.category == "none":
        return "healthy"
    return found.category if found.category == "unknown" else f"{found.category}, {found.subcategory}"


def facts(found: Diagnosis) -> list[tuple[str, str]]:
    """Names and values of the verdict, without those that are empty."""
    again = {True: "may help", False: "will not help", None: ""}[found.retryable]
    rows = [
        ("confidence", f"{found.confidence:.2f}"),
        ("ranks", ", ".join(map(str, found.culprit_ranks))),
        ("nodes", ", ".join(found.culprit_nodes)),
        ("action", found.action),
        ("running it again unchanged", again),
    ]
    return [(label, value) for label, value in rows if value]


def _facts(found: Diagnosis) -> str:
    rows = [f"| {label} | {_plain(value)} |" for label, value in facts(found)]
    return "\n".join(["| | |", "|---|---|", *rows])


def _quoted(lines: tuple[LogEvidence, ...]) -> str:
    rows = [f"{line.file}:{line.line}  {printable(redact(line.text))}" for line in lines]
    longest = max((len(run) for row in rows for run in re.findall(r"`+", row)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *rows, fence])


def _code(text: str) -> str:
    clean = printable(redact(text)).replace("\n", " ")
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", clean)), default=0) + 1)
    return f"{ticks} {clean} {ticks}" if "`" in clean else f"`{clean}`"


def _plain(text: str) -> str:
    """Prose whose names come from a log: no character of it starts markup."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", printable(redact(text), longest=2000).replace("\n", " "))
