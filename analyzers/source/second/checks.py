"""Whether what a second reader says about a fact stands in the line that it cites."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from analyzers.source.reading import NUMBER_MAX, TEXT_MAX
from analyzers.source.second.lines import Line
from analyzers.source.second.questions import Question
from analyzers.types import JsonValue

_NUMBERS = re.compile(
    r"(?<![\w.])[-+]?(?:[0-9][0-9_]*(?:,[0-9]{3})*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?!\w|\.[A-Za-z])"
)
_STRING = re.compile(r"""("(?:[^"\\]|\\.)*(?:"|\\?$)|'(?:[^'\\]|\\.)*(?:'|\\?$))""")
#: A number beside one of these is a part of what is computed or compared, not what is given.
_COMPUTED_AFTER = re.compile(r"\s*(?:\*|//?|%|\+|-(?![-A-Za-z])|<<|if\b)\s*[\w(]")
_COMPUTED_BEFORE = re.compile(r"(?:[*/%+]|[!=<>]=|(?<![-=\w])[<>]|\belse)\s*$")
_LOOP = re.compile(r"\s*(?:while|for)\b")
#: What is handed to a name that ends like this is for people to read.
_FOR_PEOPLE = (
    r"[\w.-]*(?:help|metavar|note|comment|description|descr?|message|msg|title|prompt|doc|reason|remark|instruction|label"
    r"|caption|tag|(?:job|run|exp|experiment|display|project|group)[_-]?name|echo|print|printf|banner|usage|epilog)"
    r"(?:s|_?[0-9]+)?"
)
_TO_PEOPLE = re.compile(rf"(?i)(?<![\w.-]){_FOR_PEOPLE}[\"']?\]?\s*[:=(\s]\s*$")
_BEFORE_WORDS = re.compile(rf"(?i)(?<![\w.-]){_FOR_PEOPLE}[\"']?(?:\s*[:=]\s*|\s+)")
_WORD_AFTER = re.compile(rf"{_BEFORE_WORDS.pattern}(?:\"[^\"]*\"?|'[^']*'?|\S+)")
_ECHO = re.compile(r"(?:^|[;&|(])\s*(?:echo|printf|logger)\s[^;&|]*")
_SAYS = re.compile(r"\s*(?:print|raise|assert|(?:\w+\.)*(?:log|logger|logging|warnings?)\b[\w.]*)\s*[\w(]")
#: Words as in a sentence; no setting is written so.
_SENTENCE = re.compile(r"(?:(?<![\w.=/-])[A-Za-z]+[,.;!]?\s+){3}")
_SETTINGS = frozenset(("yaml", "yml", "toml", "ini", "cfg", "conf", "gin", "json", "txt"))
_COMMANDS = frozenset(("launch", "sh", "bash", "slurm", "sbatch", "makefile"))
_MOST_DIGITS = 40
_WORDS = re.compile(r"[A-Za-z]{3,}|[A-Za-z]+\d+[A-Za-z0-9]*|\d+[A-Za-z]+")
#: Between what names a fact and its number there may be these, and no other name with a value.
_BETWEEN = re.compile(r"([A-Za-z_]\w*)\s*[=:]")
_OF_OPTIONS = frozenset({"default", "type", "required", "help", "metavar", "dest", "int", "float", "nargs", "value"})
_FARTHEST_CHARS = 90
#: A name with this in it speaks of something else: how often is saved, how long is warmed up, what is evaluated.
_OTHER_THING = re.compile(
    r"warm|sav(?:e|ing)|log|eval|valid|(?:^|_)val|test|pred|every|interval|freq|decay|patience|start|resum|last|min|print|"
    r"sched|gamma|milestone|output|cache|vocab|worker|board|per_epoch|(?:steps?|iters?|iterations|batches|samples|examples)_per|ckpt|checkpoint|seed",
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
    return text[:80] if question.value is None or question.value.search(text) else None


_NOTHING = frozenset(("null", "none", "unknown", "n/a", "na", "not given", "not stated", "unspecified", "-", "?", "0"))


def backing(question: Question, value: JsonValue, number: int, lines: Sequence[Line]) -> tuple[str, Line | None]:
    """(Why a value is not accepted, empty where it is; the line that backs it).

    The line is the ``number``-th (from 1) where the value stands in it, else the first in which it does.
    """
    named = lines[number - 1 : number] if number > 0 else []
    for line in (*named, *sorted(lines, key=lambda each: each.prose)):
        if backs(question, value, line):
            return "", line
    if question.kind in ("count", "number"):
        return f"no line gives it the value {value}", None
    return f"no line speaks of {str(value)[:40]!r}", None


def backs(question: Question, value: JsonValue, line: Line) -> bool:
    """Whether the value stands in the line, as one of this fact."""
    if line.prose and not question.prose:
        return False
    if question.kind in ("count", "number"):
        return isinstance(value, int | float) and any(
            math.isclose(v, value, rel_tol=1e-9) for v in given(question, line)
        )
    if question.kind == "choice":
        spoken_of = [choice for choice, pattern in question.choices.items() if pattern.search(line.text)]
        return spoken_of == [value]  # a line that offers several decides for none
    said = _content(str(value))
    if not set(re.findall(r"\d+", str(value))) <= set(re.findall(r"\d+", line.text)):
        return False
    if question.kind == "words":
        there = _content(line.text)
        return any(word in there or _shares_stem(word, there) for word in said)
    # every word of a name stands there: one that does is no licence for what was put beside it
    whole = line.text.lower()
    return all(word in whole for word in said) and any(_named(question, word, line) for word in said)


def _named(question: Question, word: str, line: Line) -> bool:
    """Whether a word of a name stands in the line where something of this kind is named: in prose beside a word that
    says so, in code behind one or in a name that has one (``BertModel``)."""
    text = (_texts_alone(line.text) if question.written and line.python else line.text).lower()
    places = [match.start() for match in re.finditer(rf"(?<![a-z]){re.escape(word)}", text)]
    if line.prose:
        return bool(places) and question.words.search(text) is not None
    return any(_names_it(question, text, start) or question.words.match(text, start) for start in places) or (
        re.search(rf"{re.escape(word)}\w*(?:{question.words.pattern})", text) is not None
    )


def _content(text: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(text)} - _EMPTY


def _shares_stem(word: str, others: set[str]) -> bool:
    stem = word[: max(5, len(word) - 7)]
    return len(word) >= 5 and any(other.startswith(stem) or stem in other for other in others)


def given(question: Question, line: Line) -> list[float]:
    """The numbers that a line gives the fact: behind a word that names it, and no other name has them; no number that
    is a part of a computation, a comparison, or of text for people."""
    if line.prose or (line.python and _SAYS.match(line.text)):
        return []
    ending = line.file.rpartition("/")[2].rpartition(".")[2].lower()
    text = _without_prose(line.text, in_code=ending not in _COMMANDS | _SETTINGS)
    if ending in _COMMANDS:
        text = _ECHO.sub(lambda match: " " * len(match[0]), text)
        text = _WORD_AFTER.sub(lambda match: " " * len(match[0]), text)
    if ending in _COMMANDS | _SETTINGS and (words := _SENTENCE.search(text)):
        text = text[: words.end()]
    if ending in _SETTINGS and (words := _BEFORE_WORDS.search(text)):
        text = text[: words.end()]
    return [value for value, start in _found_numbers(text) if value > 0 and _names_it(question, text, start)]


def _names_it(question: Question, text: str, start: int) -> bool:
    for match in question.words.finditer(text, 0, start):
        before, after = _rest_of_name(text, match)
        between = text[match.end() + len(after) : start]
        others = set(_BETWEEN.findall(between)) - _OF_OPTIONS
        if between.strip() == "[":  # the number of one of them
            continue
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
        before, value = text[max(0, match.start() - 12) : match.start()], _number(match[0])
        compared = _COMPUTED_BEFORE.search(before) and not (_LOOP.match(text) and before.rstrip()[-1] in "<=")
        if value is not None and not compared and not _COMPUTED_AFTER.match(text, match.end()):
            yield value, match.start()


def _number(text: str) -> float | None:
    plain = text.replace("_", "")
    if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+", plain):
        plain = plain.replace(",", "")
    if len(plain) > _MOST_DIGITS or not plain.isascii():
        return None
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _texts_alone(text: str) -> str:
    """A line of a program in which only names of arguments and options are left besides its texts."""
    at, kept = 0, []
    for match in _STRING.finditer(text):
        kept += [_keys_alone(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*kept, " " * (len(text) - at)])


def _keys_alone(text: str) -> str:
    """What stands directly before a text: the name that it is given to, or the function that it is handed to."""
    match = re.search(r"[\w.]+\s*(?:=|:|\()\s*$", text)
    return " " * len(text) if match is None else " " * match.start() + match[0]


def _without_prose(text: str, *, in_code: bool) -> str:
    """A line without numbers in its texts, except where a text is a number or the name of an option (in a
    configuration also a setting, ``"epochs=3"``) and nothing for people."""
    plain = r"[\w.\-]{1,60}" if in_code else r"[^\s\"']{1,120}"

    def shown(match: re.Match[str]) -> str:
        inner = match[0][1:-1]
        told = _TO_PEOPLE.search(text, max(0, match.start() - 60), match.start())
        keeps = _number(inner) is not None or re.fullmatch(plain, inner) is not None
        return match[0] if keeps and not told else match[0][0] + " " * len(inner) + match[0][0]

    return _STRING.sub(shown, text)
