"""Formats that somebody (a language model) proposes for an unknown log, by marking numbers in one of its lines.

The pattern is built here: the line's own words between numbers, so it can be neither slow nor clever. It is used only
where it proves itself on the log: on many lines, with steps that rise evenly and a total that stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from analyzers.logs.fields import number
from analyzers.logs.formats import LogFormat, parse_format
from analyzers.logs.prefix import strip_prefix

#: What a proposed format is called.
NAME = "proposed"
ROLES = ("step", "total", "epoch", "loss")
_NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PATTERN = r"[-+]?[\d.,]{1,20}(?:[eE][-+]?\d{1,4})?"
_FEWEST = 8
_MOST_CHARS, _MOST_NUMBERS = 400, 40
_UNEVEN = 4.0


def template_of(text: str) -> str:
    """A line without its numbers and spacing: lines of one format have the same."""
    return " ".join(_NUMBER.sub("#", strip_prefix(text).rest[:_MOST_CHARS]).split())


def built(text: str, marks: Mapping[str, str]) -> dict[str, Any] | None:
    """A format, in the form of a data file, whose line has the marked numbers where ``text`` has them.

    ``marks`` are numbers as they stand in the line, by role. None where one does not stand there, is no number of
    its own, or nothing counts.
    """
    rest = strip_prefix(text).rest[:_MOST_CHARS]
    found = list(_NUMBER.finditer(rest))
    if not marks.get("step") or not 0 < len(found) <= _MOST_NUMBERS:
        return None
    named: dict[int, str] = {}
    for role in ROLES:
        wanted = marks.get(role, "").strip()
        if not wanted:
            continue
        at = next((i for i, one in enumerate(found) if one[0] == wanted and i not in named), None)
        if at is None:
            return None
        named[at] = role
    pattern, end = "", 0
    for index, one in enumerate(found):
        pattern += _literal(rest[end : one.start()])
        pattern += rf"(?P<{named[index]}>{_PATTERN})" if index in named else _PATTERN
        end = one.end()
        if index == max(named):
            break
    words = re.findall(r"[A-Za-z_]{2,}", _NUMBER.sub(" ", rest[:end]))
    return {"name": NAME, "contains": sorted(words, key=len)[-1:], "line": "^" + pattern}


def _literal(text: str) -> str:
    """The text itself, with any blanks where it has some."""
    return r"\s{1,40}".join(re.escape(part) for part in re.split(r"\s+", text)) if text else ""


def proven(data: Mapping[str, Any], lines: Sequence[str]) -> LogFormat | None:
    """The format, if what it reads of the log's lines is progress; else None.

    It must fit eight lines at least, steps must rise nearly always and evenly, a total stay, and neither be a clock.
    """
    try:
        known = parse_format(dict(data), NAME)
    except ValueError:
        return None
    if known.line is None:
        return None
    read = list(_read(known, known.line, lines))
    steps = [step for step, _, _ in read]
    totals = {total for _, total, _ in read if total is not None}
    rises = [b - a for a, b in pairwise(steps) if b > a]
    if len(steps) < _FEWEST or len(rises) < 0.9 * (len(steps) - 1) or len(totals) > 1:
        return None
    if totals and max(steps) > next(iter(totals)):
        return None
    if sorted(rises)[int(0.9 * (len(rises) - 1))] > _UNEVEN * median(rises):
        return None
    return None if _is_clock(read) or steps[0] > 100 * median(rises) * (10 if totals else 1) else known


def _read(
    known: LogFormat, line: re.Pattern[str], lines: Sequence[str]
) -> Iterator[tuple[float, float | None, float | None]]:
    """Step, total and time of the lines that the format fits."""
    for text in lines:
        prefix = strip_prefix(text)
        match = line.search(prefix.rest[:2000]) if all(part in text for part in known.contains) else None
        step = number(match["step"]) if match is not None else None
        if match is None or step is None or step != int(step):
            continue
        total = number(match.groupdict().get("total") or "")
        yield step, total, prefix.time.timestamp() if prefix.time is not None and prefix.time.year > 1971 else None


def _is_clock(read: Sequence[tuple[float, float | None, float | None]]) -> bool:
    """Whether the steps are seconds or milliseconds that pass as the time stamps do."""
    passed = [
        (b[0] - a[0]) / (b[2] - a[2])
        for a, b in pairwise(read)
        if a[2] is not None and b[2] is not None and b[2] > a[2]
    ]
    return any(len(passed) >= 3 and all(0.97 * k < one < 1.03 * k for one in passed) for k in (1, 1000))
