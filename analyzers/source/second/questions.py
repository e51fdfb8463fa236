"""What is worth asking a second reader about a job: facts that the first left open or is unsure of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from analyzers.source.knowledge.files import document
from analyzers.types import Fact, JsonValue, SourceFacts

Kind = Literal["count", "number", "choice", "name", "words"]

#: A fact that is less sure than this is asked for.
SURE_FROM = 0.5
#: A fact this sure may be asked for as a control: whether the second reader sees what is plain.
CONTROL_FROM = 0.85
MOST_CONTROLS = 2
_CONTROLS = ("learning_rate", "epochs", "max_steps", "batch_size_per_gpu", "seq_len", "image_size", "grad_accum")
#: Only where something is trained.
_OF_TRAINING = frozenset({"epochs", "max_steps", "learning_rate", "optimizer", "grad_accum", "global_batch_size"})
_UNTRAINED = frozenset({"eval", "inference", "preprocess"})
#: Fields of data in which a sample has no side in pixels, and none in tokens.
_TEXTUAL, _PICTORIAL = re.compile(r"language|text|summar|translat|tokeni|token"), re.compile(r"image|segment|detect")


@dataclass(frozen=True, slots=True)
class Question:
    """One fact that may be asked for; see ``knowledge/questions.yaml``."""

    name: str
    asks: str
    kind: Kind
    words: re.Pattern[str]
    prose: bool
    choices: Mapping[str, re.Pattern[str]]
    value: re.Pattern[str] | None = None
    written: bool = False


@cache
def questions() -> Mapping[str, Question]:
    """All of them, by the fact's name."""
    return {name: _question(name, row) for name, row in document("questions.yaml")["facts"].items()}


def _question(name: str, row: Mapping[str, Any]) -> Question:
    choices = {value: re.compile(pattern) for value, pattern in row.get("choices", {}).items()}
    words = re.compile(row["words"], re.IGNORECASE)
    value = re.compile(row["value"]) if "value" in row else None
    return Question(
        name,
        row["asks"],
        row["kind"],
        words,
        bool(row.get("prose", False)),
        choices,
        value,
        bool(row.get("written", False)),
    )


def open_questions(facts: SourceFacts) -> list[Question]:
    """What the first reading left open and a job of this kind has."""
    return [question for name, question in questions().items() if _is_open(name, facts)]


def _is_open(name: str, facts: SourceFacts) -> bool:
    known = facts.facts.get(name)
    if known is not None and known.confidence >= SURE_FROM:
        return False
    if name in _OF_TRAINING and facts.value("workload_type") in _UNTRAINED:
        return False
    if facts.value("framework") == "none" and name not in ("task", "workload_type", "dataset"):
        return False
    # what ends the run is either of the two, and the other is not there
    if name == "epochs":
        return facts.value("max_steps") is None and facts.value("iter_type") in (None, "epoch")
    if name == "max_steps":
        return facts.value("epochs") is None and facts.value("iter_type") in (None, "step")
    task = str(facts.value("task") or "")
    if name == "seq_len":
        return not _PICTORIAL.search(task) and facts.value("image_size") is None
    if name == "image_size":
        return not _TEXTUAL.search(task) and facts.value("seq_len") is None
    return True


def controls(facts: SourceFacts) -> list[tuple[Question, Fact]]:
    """Facts that are plain to see in one line, for a check of the second reader itself."""
    found = []
    for name in _CONTROLS:
        fact = facts.facts.get(name)
        plain = fact is not None and fact.how in ("literal", "override", "default") and len(fact.evidence) > 0
        if fact is not None and plain and fact.confidence >= CONTROL_FROM and is_number(fact.value):
            found.append((questions()[name], fact))
    return found[:MOST_CONTROLS]


def is_number(value: JsonValue) -> bool:
    """Whether it is a number (a switch is none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)
