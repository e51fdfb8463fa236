"""A second reading by a language model where the static diagnosis is unsure; off unless a model is configured.

The rule of combination: the static reading stands unless the answer fits its schema, quotes lines that stand in the
log, names only ranks and nodes that the log names, and is surer than the static reading. Accepted or not, what came
of asking is written into the diagnosis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.logs.intake import discover, read_lines
from analyzers.types import Diagnosis, LogEvidence
from prompts.errors import UserError
from prompts.evidence import cited
from prompts.key_blocks import KeyBlocks
from prompts.redaction import redact
from schedmate.config import Settings
from schedmate.language_model import gateway_for

if TYPE_CHECKING:
    from prompts.answers import Quote, RefinedDiagnosis
    from prompts.gateway import Gateway

#: A static reading below this confidence, or of an unknown category, is put to the model.
UNSURE_BELOW = 0.5
#: No answer of a model counts for more than this: nobody measured its calibration.
CEILING = 0.6
#: An answer that is less sure than this is no answer.
FLOOR = 0.3

_MOST_LINES = 120
_MOST_CHARS = 20_000
_MOST_LINES_READ = 2_000_000
_LONGEST_LINE_CHARS = 400
_TAIL_LINES = 12
_TROUBLE_LINES = 60
_CONTEXT_LINES = 2
_TROUBLE = re.compile(
    r"(?i)error|exception|traceback|fail|fatal|panic|abort|kill|signal|timed? ?out|timeout|xid|ecc|out of memory|oom"
    r"|denied|refused|not found|no such|no space|quota|unreachable|preempt|cancel|mismatch|corrupt|nan\b|core dumped"
)
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Line:
    file: str
    number: int
    text: str


def needs_refining(diagnosis: Diagnosis) -> bool:
    """Whether the static reading is unsure enough to ask."""
    if diagnosis.category == "none":
        return False
    return diagnosis.category == "unknown" or diagnosis.confidence < UNSURE_BELOW


def refine_diagnosis(
    diagnosis: Diagnosis, path: Path, settings: Settings, *, gateway: Gateway | None = None
) -> Diagnosis:
    """The diagnosis of the log (file or folder) at ``path``, sharpened by the configured model where it is unsure.

    ``gateway`` is asked in the place of the configured one. With no model configured the diagnosis comes back as it is.
    Never raises for what the endpoint does; raises `UserError` when the configuration of the model is incomplete.
    """
    if (gateway is None and settings.text("llm.provider") == "none") or not needs_refining(diagnosis):
        return diagnosis
    # what only a model needs is imported only when there is one
    from prompts.answers import RefinedDiagnosis
    from prompts.templates import load_template

    asked = gateway if gateway is not None else gateway_for(settings)
    try:
        lines = _distil(diagnosis, path)
    except UserError as error:
        return _noted(diagnosis, f"the log could not be read again ({error.what})")
    shown = "\n".join(f"[{index}] {line.file}:{line.number}| {line.text}" for index, line in enumerate(lines, 1))
    answer = asked.ask(
        load_template("refine_diagnosis"),
        RefinedDiagnosis,
        {"static_reading": _in_words(diagnosis), "lines": shown},
        lambda found: _why_not(found, lines, diagnosis),
    )
    if answer.value is None:
        return _noted(diagnosis, f"answer of {answer.model} not used: {answer.reason}")
    if answer.value.category == "unknown":
        return _noted(diagnosis, f"{answer.model} leaves the cause open")
    return _combined(diagnosis, answer.value, lines, answer.model)


def _noted(diagnosis: Diagnosis, what: str) -> Diagnosis:
    return replace(diagnosis, warnings=(*diagnosis.warnings, f"language model: {what}; the static reading stands"))


def _in_words(diagnosis: Diagnosis) -> str:
    return (
        f"category {diagnosis.category}, subcategory {diagnosis.subcategory or 'none'}, "
        f"confidence {diagnosis.confidence:.2f}. {redact(diagnosis.summary)}"
    )


def _distil(diagnosis: Diagnosis, path: Path) -> list[_Line]:
    """The lines worth a model's while, redacted, in the log's order: cited ones with context, trouble, the ends."""
    cited = {(e.file, e.line) for e in diagnosis.evidence} | {(e.file, e.line) for e in diagnosis.echoes}
    around: dict[str, set[int]] = {}
    for file, number in cited:
        around.setdefault(file, set()).update(range(number - _CONTEXT_LINES, number + _CONTEXT_LINES + 1))
    first: list[tuple[int, int, _Line]] = []  # (priority, order, line)
    seen: set[str] = set()
    order = 0
    for source in discover(path):
        tail: list[tuple[int, _Line]] = []
        keys = KeyBlocks()
        for read in read_lines(source):
            order += 1
            if order > _MOST_LINES_READ:
                break
            text = keys.without(read.text)
            if not text.strip():
                continue
            line = _Line(read.file, read.number, text)
            tail = [*tail[-(_TAIL_LINES - 1) :], (order, line)]
            if read.number in around.get(read.file, ()):
                first.append((0 if (read.file, read.number) in cited else 2, order, line))
            elif len(seen) < _TROUBLE_LINES and _TROUBLE.search(line.text[:_LONGEST_LINE_CHARS]):
                shape = _DIGITS.sub("#", line.text[:_LONGEST_LINE_CHARS])
                if shape not in seen:
                    seen.add(shape)
                    first.append((1, order, line))
        first += [(1 if age < 3 else 2, at, line) for age, (at, line) in enumerate(reversed(tail))]
    return _within_bounds(first)


def _within_bounds(candidates: list[tuple[int, int, _Line]]) -> list[_Line]:
    from prompts.outgoing import outgoing_line

    kept: dict[int, _Line] = {}
    chars = 0
    for _, order, line in sorted(candidates, key=lambda item: item[:2]):
        if order in kept or len(kept) >= _MOST_LINES:
            continue
        line = replace(line, text=outgoing_line(line.text, _LONGEST_LINE_CHARS))
        chars += len(line.text) + len(line.file) + 16
        if chars > _MOST_CHARS:
            break
        kept[order] = line
    return [kept[order] for order in sorted(kept)]


def _why_not(found: RefinedDiagnosis, lines: list[_Line], static: Diagnosis) -> str | None:
    """Why an answer of the right form is not accepted."""
    if found.category == "unknown":
        return None  # an honest answer: nothing to be repaired
    if not found.evidence:
        return "it cites no line"
    for quote in found.evidence:
        if _cited(quote, lines) is None:
            return f"the quote {quote.quote[:80]!r} does not stand in the data"
    if found.culprit_rank is not None and not _names_rank(found.culprit_rank, lines, static):
        return f"rank {found.culprit_rank} is not named in the data"
    if found.culprit_node is not None and not _names_node(found.culprit_node, lines):
        return f"node {found.culprit_node[:80]!r} is not named in the data"
    surer = static.category == "unknown" or min(found.confidence, CEILING) > static.confidence
    if found.confidence < FLOOR or not surer:
        return f"its confidence of {found.confidence:.2f} is not above that of the static reading"
    return None


def _cited(quote: Quote, lines: list[_Line]) -> _Line | None:
    """The line that a quote stands in."""
    index = cited(quote.line, quote.quote, [line.text for line in lines])
    return None if index is None else lines[index]


def _names_rank(rank: int, lines: list[_Line], static: Diagnosis) -> bool:
    named = re.compile(rf"(?i)rank[\s_:=.\]\-#]{{0,3}}0*{rank}(?!\d)")
    texts = (text for line in lines for text in (line.text, line.file))
    return rank in static.culprit_ranks or any(named.search(text) for text in texts)


def _names_node(node: str, lines: list[_Line]) -> bool:
    named = re.compile(rf"(?<![\w-]){re.escape(node)}(?![\w-])")
    texts = (text for line in lines for text in (line.text, line.file))
    return bool(node.strip()) and any(named.search(text) or f"_{node}." in text for text in texts)


def _combined(static: Diagnosis, found: RefinedDiagnosis, lines: list[_Line], model: str) -> Diagnosis:
    evidence = tuple(dict.fromkeys((*_evidence(found, lines), *static.evidence)))
    was = f"{static.category} at {static.confidence:.2f}"
    nodes = () if found.culprit_node is None else (found.culprit_node,)
    note = f"Refined by the language model {model}; the static reading was {was}."
    return replace(
        static,
        category=found.category,
        subcategory=found.subcategory,
        confidence=min(found.confidence, CEILING),
        culprit_ranks=() if found.culprit_rank is None else (found.culprit_rank,),
        culprit_nodes=nodes,
        node_proof=(static.node_proof if nodes == static.culprit_nodes else "job-log") if nodes else None,
        evidence=evidence,
        retryable=found.retryable,
        action=found.action,
        summary=redact(" ".join(found.summary.split())),
        explanation=f"{static.explanation} {note}".strip(),
    )


def _evidence(found: RefinedDiagnosis, lines: list[_Line]) -> Iterator[LogEvidence]:
    for quote in found.evidence:
        line = _cited(quote, lines)
        if line is not None:
            yield LogEvidence(line.file, line.number, line.text)
