"""A signature that a language model proposes for a failure that it explained and no rule knew.

The pattern is made here from a literal phrase of a quoted line, so an answer can bring none that runs away. The role,
the category and what to do are those of the verdict; a node is never named by it. It enters as a candidate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analyzers.types import Diagnosis
from prompts.redaction import REDACTED, redact

if TYPE_CHECKING:
    from prompts.answers import ProposedSignature
    from prompts.gateway import Gateway

_LEAST_WORDS = 3
_MOST_LINES = 5
_LONGEST_LINE_CHARS = 400
_WORD = re.compile(r"[A-Za-z]{3,}")
_VARIES = re.compile(r"\d+|" + re.escape(REDACTED))


def proposed(found: Diagnosis, gateway: Gateway) -> tuple[dict[str, Any] | None, str]:
    """(A row for a candidate or None, the model's name or why there is none), for a verdict that a model gave.

    Never raises for what the endpoint does.
    """
    from prompts.answers import ProposedSignature
    from prompts.outgoing import outgoing_line
    from prompts.templates import load_template

    lines = [outgoing_line(line.text, _LONGEST_LINE_CHARS) for line in found.evidence[:_MOST_LINES]]
    if not lines:
        return None, "no line is quoted"
    answer = gateway.ask(
        load_template("propose_signature"),
        ProposedSignature,
        {
            "verdict": f"{found.category}, {found.subcategory}: {redact(found.summary)}",
            "lines": "\n".join(f"[{number}] {line}" for number, line in enumerate(lines, 1)),
        },
        lambda given: _why_not(given, lines),
    )
    if answer.value is None:
        return None, f"answer of {answer.model} not used: {answer.reason}"
    return _row(answer.value, found, lines), answer.model


def _why_not(given: ProposedSignature, lines: list[str]) -> str | None:
    """Why a proposal is not accepted, in words for the model."""
    if not any(given.phrase in line for line in lines):
        return f"the phrase {given.phrase[:80]!r} does not stand in the lines"
    if len(_WORD.findall(given.phrase)) < _LEAST_WORDS:
        return f"the phrase has fewer than {_LEAST_WORDS} words, so it would fit too much"
    pattern = re.compile(_pattern(given.phrase))
    if not pattern.search(given.other_line):
        return "the phrase does not fit other_line"
    fits = next((line for line in given.unlike if pattern.search(line)), None)
    return None if fits is None else f"the phrase also fits {fits[:80]!r}, which is in unlike"


def _pattern(phrase: str) -> str:
    """The phrase with any number in the place of each, and anything where a secret stood."""
    parts: list[str] = []
    at = 0
    for varies in _VARIES.finditer(phrase):
        parts += [re.escape(phrase[at : varies.start()]), r"\d{1,20}" if varies[0].isdigit() else r"\S{1,200}"]
        at = varies.end()
    return "".join([*parts, re.escape(phrase[at:])])


def _row(given: ProposedSignature, found: Diagnosis, lines: list[str]) -> dict[str, Any]:
    pattern = _pattern(given.phrase)
    fitting = [line for line in lines if re.search(pattern, line)]
    return {
        "id": _name(given.phrase),
        "pattern": pattern,
        "role": "ambiguous",
        "scope": "job",
        "category": found.category,
        "subcategory": found.subcategory,
        "action": found.action,
        "retryable": found.retryable,
        "says": " ".join(given.says.split()).rstrip("."),
        "match": list(dict.fromkeys([*fitting, given.other_line])),
        "reject": list(given.unlike),
    }


def _name(phrase: str) -> str:
    words = [word.lower() for word in _WORD.findall(phrase)]
    return f"model-{'-'.join(words[:5])}"[:60].strip("-")
