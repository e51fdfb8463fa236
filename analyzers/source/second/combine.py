"""Asking, and putting what was said beside what was read. The first reading stands wherever the two differ."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from analyzers.source.directive import SourceOffError
from analyzers.source.opened import Opened
from analyzers.source.second.checks import backing, checked_value, given
from analyzers.source.second.excerpts import excerpts
from analyzers.source.second.explorer import Bounds, explore
from analyzers.source.second.lines import Line
from analyzers.source.second.questions import SURE_FROM, Question, controls, open_questions
from analyzers.types import FACT_NAMES, Fact, JsonValue, SourceEvidence, SourceFacts
from prompts.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prompts.answers import SourceAnswer
    from prompts.gateway import Gateway

#: What a second reader says counts no more than this: nobody measured its calibration.
CEILING = 0.6
#: ... and no more than this where it failed to see what is plain, where lines that are not known to run say so, several
#: lines say different things, or the first reader saw all that decides it: told, but counted by nobody.
DISTRUSTED = 0.4
_SUMMARY_CHARS = 400
#: No reading takes longer than this in s, whatever the gateway allows a question.
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to the model, as it was put."""

    wanted: tuple[Question, ...]
    controls: tuple[tuple[Question, Fact], ...]
    lines: tuple[Line, ...]
    known: bool = False


def prepare(
    facts: SourceFacts, opened: Opened, command: str, gathered: Sequence[Line] = (), *, summary: bool
) -> Asked | None:
    """What to ask about a job, None where there is nothing; ``gathered`` are lines to be shown besides."""
    wanted = open_questions(facts)
    if not wanted and not summary:
        return None
    sure = controls(facts)
    places = [(e.file, e.line) for _, fact in sure for e in fact.evidence[:1]]
    # what else speaks of a control is shown too: to see the right line among them is the check
    lines = excerpts(opened, command, [*wanted, *(q for q, _ in sure)], places)
    lines += [line for line in gathered if line not in lines]
    spoken_of = [q for q in wanted if q.prose or any(q.words.search(line.text) for line in lines)]
    shown = {(line.file, line.number) for line in lines}
    seen = tuple((q, fact) for q, fact in sure if (fact.evidence[0].file, fact.evidence[0].line) in shown)
    if not spoken_of and not summary:
        return None
    return Asked(tuple(spoken_of), seen if spoken_of else (), tuple(lines), opened.known)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one second reading may take: seconds (None: as the gateway has it), looks around in a work dir that could
    not be followed, and the tokens and seconds of those looks together."""

    within_s: float | None = None
    looks: int = 0
    looks_tokens: int = 30_000
    looks_s: float = LONGEST_S


def second_reading(
    facts: SourceFacts, opened: Opened, command: str, gateway: Gateway, *, summary: bool, limits: Limits | None = None
) -> SourceFacts:
    """The facts, with those that a model could add to them.

    Its facts are of ``how`` "model" and at most `CEILING` sure; each cites a line in which its value stands. What
    came of asking is told in ``warnings``. Never raises for what the model says or does not say.
    """
    bounds = limits or Limits()
    deadline = time.monotonic() + (bounds.within_s if bounds.within_s is not None else LONGEST_S)
    gathered: list[Line] = []
    wanted = open_questions(facts)
    if bounds.looks and wanted and not opened.followed:
        try:
            around = Bounds(bounds.looks, bounds.looks_tokens, min(deadline, time.monotonic() + bounds.looks_s))
            gathered, failed = explore(opened, command, in_words(wanted), gateway, around)
        except SourceOffError:
            return facts
        if failed is not None:  # asking once more would only cost as much time again
            return _unheard(facts, failed.model, failed.reason)
    asked = prepare(facts, opened, command, gathered, summary=summary)
    if asked is None:
        return facts
    # what only a model needs is imported only when there is one
    from prompts.answers import source_answer
    from prompts.templates import load_template

    names = [q.name for q in asked.wanted] + [q.name for q, _ in asked.controls]
    answer = gateway.ask(
        load_template("read_source"),
        source_answer(tuple(names), summary),
        {
            "questions": in_words([*asked.wanted, *(q for q, _ in asked.controls)]),
            "known": _known(facts),
            "lines": shown(asked.lines),
        },
        lambda found: None,
        within_s=None if bounds.within_s is None else max(0.0, deadline - time.monotonic()),
    )
    if answer.value is None:
        return _unheard(facts, answer.model, answer.reason)
    return combined(facts, asked, answer.value, answer.model)


def _unheard(facts: SourceFacts, model: str, reason: str) -> SourceFacts:
    return _noted(facts, f"answer of {model} not used: {reason}; the first reading stands")


def shown(lines: Sequence[Line]) -> str:
    """The lines as a model sees them."""
    return "\n".join(
        f"[{index}] {line.file}:{line.number}{' (prose)' if line.prose else ''}| {line.text}"
        for index, line in enumerate(lines, 1)
    )


def combined(facts: SourceFacts, asked: Asked, said: SourceAnswer, model: str) -> SourceFacts:
    """The first reading with what holds of the second."""
    notes: list[str] = []
    trusted = True
    for question, fact in asked.controls:
        value, _, _ = _accepted(question, said, asked.lines)
        if value is not None and value != fact.value:
            trusted = False
            notes.append(f"says {question.name} {_short(value)} where the first reading has {_short(fact.value)}")
    new: dict[str, Fact] = {}
    for question in asked.wanted:
        value, line, problem = _accepted(question, said, asked.lines)
        if problem:
            notes.append(f"{question.name} not used: {problem}")
        if value is None or line is None:
            continue
        first = facts.facts.get(question.name)
        if first is not None and first.value != value:
            notes.append(f"says {question.name} {_short(value)} where the first reading has {_short(first.value)}")
            continue
        counts = trusted and not line.idle and _is_news(question, asked) and _is_plain(question, value, asked.lines)
        confidence = CEILING if counts else DISTRUSTED
        if first is None or first.confidence < confidence:
            new[question.name] = Fact(value, confidence, (SourceEvidence(line.file, line.number),), "model")
    problem = _contradiction({**facts.facts, **new}, new)
    if problem:
        for name in ("global_batch_size", "batch_size_per_gpu", "grad_accum"):
            if new.pop(name, None) is not None:
                notes.append(f"{name} not used: {problem}")
    if new:
        unsure = [name for name, fact in new.items() if fact.confidence < SURE_FROM]
        told = f" (unsure: {', '.join(unsure)})" if unsure else ""
        notes.insert(0, f"added {', '.join(new)}{told}" + ("" if trusted else ", though it missed what is plain"))
    merged = {**facts.facts, **new}
    ordered = {name: merged[name] for name in FACT_NAMES if name in merged}
    result = replace(facts, facts=ordered, summary=_summary(said, facts, asked.lines))
    for note in notes:
        result = _noted(result, f"{model} {note}")
    return result


def _accepted(question: Question, said: SourceAnswer, lines: Sequence[Line]) -> tuple[JsonValue, Line | None, str]:
    """(Value, the line that backs it, why not): without value and reason where nothing was said."""
    finding = getattr(said, question.name)
    value = None if finding is None else checked_value(question, str(finding.value))
    if finding is None or value is None:
        return None, None, ""
    problem, line = backing(question, value, finding.line, lines)
    return (None, line, problem) if problem else (value, line, "")


def _is_news(question: Question, asked: Asked) -> bool:
    """Whether the first reader can have overlooked it. What gives a number or a format it knows: where it went to the
    end of a program that leaves nothing to unknown libraries, an open one is decided by what does not stand there."""
    return not asked.known or question.kind in ("name", "words")


def _is_plain(question: Question, value: JsonValue, lines: Sequence[Line]) -> bool:
    """Whether all lines that give a fact a number give it this one: which of several counts is anybody's guess. What
    the launch command gives decides."""
    if question.kind not in ("count", "number"):
        return True
    launch = {number for line in lines if line.file == "launch" for number in given(question, line)}
    return (launch or {number for line in lines for number in given(question, line) if not line.prose}) == {value}


def _contradiction(merged: Mapping[str, Fact], new: Mapping[str, Fact]) -> str:
    """Why sizes that were added can not stand with the others."""
    sizes = ("global_batch_size", "batch_size_per_gpu", "grad_accum")
    if not set(sizes) & set(new):
        return ""
    whole, part, accumulated = (merged[name].value if name in merged else None for name in sizes)
    if not isinstance(whole, int | float) or not isinstance(part, int | float):
        return ""
    steps = accumulated if isinstance(accumulated, int | float) and "grad_accum" not in new else 1
    if whole < part * steps or whole % part:
        return f"a step of {whole} samples is no multiple of {part} a GPU"
    return ""


def _summary(said: SourceAnswer, facts: SourceFacts, lines: Sequence[Line]) -> str:
    """What the model says in plain words; nothing where it names a number that stands nowhere."""
    text = " ".join("".join(c if c.isprintable() else " " for c in getattr(said, "summary", "")).split())
    there = set(re.findall(r"\d+", " ".join(line.text for line in lines)))
    there |= {digits for fact in facts.facts.values() for digits in re.findall(r"\d+", str(fact.value))}
    return redact(text[:_SUMMARY_CHARS]) if set(re.findall(r"\d+", text)) <= there else ""


def in_words(wanted: Sequence[Question]) -> str:
    """The questions, a line each."""
    rows = []
    for question in wanted:
        choices = f" (one of {', '.join(question.choices)})" if question.choices else ""
        rows.append(f"- {question.name}: {question.asks}{choices}")
    return "\n".join(rows)


def _known(facts: SourceFacts) -> str:
    told = ("workload_type", "framework", "task", "model", "dataset")
    return (
        ", ".join(f"{name} {_short(facts.value(name))}" for name in told if facts.value(name) is not None) or "nothing"
    )


def _short(value: JsonValue) -> str:
    return str(value)[:60]


def _noted(facts: SourceFacts, what: str) -> SourceFacts:
    return replace(facts, warnings=(*facts.warnings, f"language model: {redact(what)[:300]}"))
