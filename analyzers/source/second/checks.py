"""Whether what a second reader says about a fact stands in the line that it cites."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from analyzers.source.reading import NUMBER_MAX, TEXT_MAX
from analyzers.source.second.excerpts import Line
from analyzers.source.second.questions import Question
from analyzers.types import JsonValue
from prompts.evidence import cited

_NUMBERS = re.compile(r"(?<![\w.])[-+]?(?:\d[\d_]*(?:,\d{3})*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w|\.[A-Za-z])")
_STRING = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_WORDS = re.compile(r"[A-Za-z]{3,}|[A-Za-z]+\d+[A-Za-z0-9]*|\d+[A-Za-z]+")
#: Between what names a fact and its number there may be these, and no other name with a value.
_BETWEEN = re.compile(r"([A-Za-z_]\w*)\s*[=:]")
_OF_OPTIONS = frozenset({"default", "type", "required", "help", "metavar", "dest", "int", "float", "nargs", "value"})
_FARTHEST_CHARS = 90
#: A name with this in it speaks of something else: how often is saved, how long is warmed up, what is evaluated.
_OTHER_THING = re.compile(
    r"warm|sav(?:e|ing)|log|eval|valid|(?:^|_)val|test|pred|every|interval|freq|decay|patience|start|resum|last|min|print|"
    r"sched|gamma|milestone|per_epoch|(?:steps?|iters?|iterations|batches|samples|examples)_per|ckpt|checkpoint|seed",
    re.IGNORECASE,
)
#: Words that say nothing about which model, data set or task it is.
_EMPTY = frozenset({
    "model", "models", "net", "network", "the", "and", "for", "with", "data", "dataset", "datasets", "train",
    "training", "test", "loader", "from", "import", "self", "args", "config", "name", "path", "load", "none", "null",
    "true", "false", "default", "type", "str", "int", "float", "class", "def", "return", "unknown", "custom", "file",
    "dir"
})  # fmt: skip


def checked_value(question: Question, said: str) -> JsonValue:
    """What was said as a value of the fact's kind, None where it is none (``"unknown"`` and the like included)."""
    text = "".join(c for c in said if c.isprintable()).strip().strip("\"'`").strip()
    if not text or len(text) > TEXT_MAX or text.lower() in _NOTHING:
        return None
    if question.kind in ("count", "number"):
        value = _number(text)
        if value is None or not 0 < value <= NUMBER_MAX:
            return None
        if question.kind == "count":
            return int(value) if value == int(value) else None
        return value
    if question.kind == "choice":
        return text if text in question.choices else None
    return text[:80]


_NOTHING = frozenset(("null", "none", "unknown", "n/a", "na", "not given", "not stated", "unspecified", "-", "?", "0"))


def why_not(
    question: Question, value: JsonValue, number: int, quote: str, lines: Sequence[Line]
) -> tuple[str, Line | None]:
    """(Why a value is not accepted, empty where it is; the line that backs it)."""
    index = cited(number, quote, [line.text for line in lines])
    if index is None:
        return f"the quote {quote[:60]!r} does not stand in the data", None
    line = lines[index]
    if line.prose and not question.prose:
        return "it rests on prose", line
    problem = _unbacked(question, value, line)
    return problem, line


def _unbacked(question: Question, value: JsonValue, line: Line) -> str:
    if question.kind in ("count", "number"):
        assert isinstance(value, int | float)
        return "" if _gives(question, float(value), line) else f"{value} is not what the cited line gives it"
    if question.kind == "choice":
        held = question.choices[str(value)].search(line.text) is not None
        return "" if held else f"the cited line does not speak of {value}"
    said = _content(str(value))
    stems = question.kind == "words"
    there = _content(line.text)
    if any(word in there or (stems and _shares_stem(word, there)) for word in said):
        return ""
    return f"the cited line does not name {str(value)[:40]!r}"


def _content(text: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(text)} - _EMPTY


def _shares_stem(word: str, others: set[str]) -> bool:
    stem = word[: max(5, len(word) - 7)]
    return len(word) >= 5 and any(other.startswith(stem) or stem in other for other in others)


def _gives(question: Question, wanted: float, line: Line) -> bool:
    """Whether the number stands in the line, after a word that names the fact, and no other name has it."""
    text = _without_prose(line.text) if line.python else line.text
    for found, start in _found_numbers(text):
        if not math.isclose(found, wanted, rel_tol=1e-9):
            continue
        for match in question.words.finditer(text, 0, start):
            before, after = _rest_of_name(text, match)
            between = text[match.end() + len(after) : start]
            others = set(_BETWEEN.findall(between)) - _OF_OPTIONS
            if len(between) <= _FARTHEST_CHARS and not others and not _OTHER_THING.search(f"{before} {after}"):
                return True
    return False


def _rest_of_name(text: str, match: re.Match[str]) -> tuple[str, str]:
    """What the name that a match stands in has before and after it: ``num_`` and ``s`` of ``num_epochs``."""
    start, end = match.span()
    while start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    return text[start : match.start()], text[match.end() : end]


def _found_numbers(text: str) -> Iterator[tuple[float, int]]:
    for match in _NUMBERS.finditer(text):
        value = _number(match[0])
        if value is not None:
            yield value, match.start()


def _number(text: str) -> float | None:
    plain = text.replace("_", "")
    if re.fullmatch(r"\d{1,3}(,\d{3})+", plain):
        plain = plain.replace(",", "")
    try:
        value = float(plain[:40])
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _without_prose(text: str) -> str:
    """A line of a program without numbers in its texts, except where a text is a number or an option's name."""

    def shown(match: re.Match[str]) -> str:
        inner = match[0][1:-1]
        keeps = _number(inner) is not None or re.fullmatch(r"[\w.\-\[\]]{1,60}", inner) is not None
        return match[0] if keeps else match[0][0] + " " * len(inner) + match[0][0]

    return _STRING.sub(shown, text)
