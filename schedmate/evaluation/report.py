"""From rows to figures: what the model added, broke and cost."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schedmate.evaluation.jobs import State
from schedmate.evaluation.recorder import AttemptRow, QuestionRow
from schedmate.evaluation.run import Row

RUNGS = ("json_schema", "json_mode", "prompted", "repair")
TOP_REASONS = 10
_MILLION = 1e6
_SAID: frozenset[State] = frozenset({"right", "wrong", "guess"})
_Z = 1.96
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")
_NOT_USED = re.compile(r"\b\w+ not used: (?P<why>.*)", re.DOTALL)
_DIFFERS = re.compile(r"\bsays (?P<name>\w+) .* where the first reading has ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prices:
    """What a million tokens cost, and how long a prediction waits for a model in s."""

    sent: float = 0.0
    received: float = 0.0
    wait_s: float = 0.0


@dataclass(slots=True)
class Counts:
    """What was said of one fact or measure, without the model and with it."""

    wanted: int = 0
    without: Counter[State] = field(default_factory=Counter)
    with_model: Counter[State] = field(default_factory=Counter)
    changed: Counter[tuple[State, State]] = field(default_factory=Counter)
    #: Of those that are wanted, right ones: a label may accept a value that it does not want said.
    found_without: int = 0
    found_with_model: int = 0

    def add(self, wanted: bool, without: State, with_model: State) -> None:
        """Count one case."""
        self.wanted += wanted
        self.without[without] += 1
        self.with_model[with_model] += 1
        self.found_without += wanted and without == "right"
        self.found_with_model += wanted and with_model == "right"
        if without != with_model:
            self.changed[without, with_model] += 1

    def __iadd__(self, other: Counts) -> Counts:
        self.wanted += other.wanted
        self.without += other.without
        self.with_model += other.with_model
        self.changed += other.changed
        self.found_without += other.found_without
        self.found_with_model += other.found_with_model
        return self


def counted(rows: Sequence[Row]) -> dict[str, Counts]:
    """Counts by fact or measure, in the order of their first appearance."""
    found: dict[str, Counts] = {}
    for row in rows:
        for item in row["items"]:
            found.setdefault(item["name"], Counts()).add(item["wanted"], item["without"], item["with_model"])
    return found


def summed(counts: Sequence[Counts]) -> Counts:
    """All of them together."""
    total = Counts()
    for each in counts:
        total += each
    return total


def quality(counts: Counts, *, with_model: bool) -> dict[str, Any]:
    """Precision and recall with what they are made of; None where there is nothing to divide by."""
    states = counts.with_model if with_model else counts.without
    right, said = states["right"], sum(states[state] for state in _SAID)
    return {
        "right": right,
        "wrong": states["wrong"],
        "guesses": states["guess"],
        "precision": _share(right, said),
        "recall": _share(counts.found_with_model if with_model else counts.found_without, counts.wanted),
    }


def changes(counts: Counts) -> dict[str, int]:
    """What the model changed: see docs/json/llm-eval.md."""
    changed = counts.changed
    return {
        "added_right": changed["silent", "right"],
        "added_wrong": changed["silent", "wrong"] + changed["silent", "guess"],
        "added_unjudged": changed["silent", "unjudged"],
        "mended": changed["wrong", "right"] + changed["guess", "right"],
        "broken": sum(count for (before, after), count in changed.items() if before == "right" and after != "right"),
    }


def figures(counts: Counts, *, asked: bool) -> dict[str, Any]:
    """One line of a table."""
    return {
        "wanted": counts.wanted,
        "without": quality(counts, with_model=False),
        "with_model": quality(counts, with_model=True) if asked else None,
        "changes": changes(counts) if asked else None,
    }


def asking(rows: Sequence[Row], prices: Prices) -> dict[str, Any]:
    """What was asked, what came of it by template and rung, how long it took and what it cost."""
    questions = [question for row in rows for question in row["questions"]]
    live = [question for question in questions if question["attempts"]]
    attempts = [attempt for question in live for attempt in question["attempts"]]
    seconds = sorted(question["seconds"] for question in live)
    sent, received = _tokens(attempts)
    return {
        "asked": len(questions),
        "accepted": sum(question["accepted"] for question in questions),
        "cached": sum(question["cached"] for question in questions),
        "endpoint_failures": sum(question["failure"] == "endpoint" for question in questions),
        "not_accepted": sum(question["failure"] == "content" for question in questions),
        "not_asked": sum(question["failure"] == "not_asked" for question in questions),
        "seconds": round(math.fsum(seconds), 3),
        "seconds_median": _quantile(seconds, 0.5),
        "seconds_p95": _quantile(seconds, 0.95),
        "slower_than_wait": sum(each > prices.wait_s for each in seconds),
        "wait_s": prices.wait_s,
        "tokens_sent": sent,
        "tokens_received": received,
        "cost": (sent * prices.sent + received * prices.received) / _MILLION,
        "by_rung": [_rung(rung, [each for each in attempts if each["rung"] == rung]) for rung in RUNGS],
        "by_template": _by_template(questions),
    }


def rejections(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The most frequent reasons why an answer, or a part of one, was not used; numbers and quotes left out."""
    reasons: Counter[str] = Counter()
    for row in rows:
        for question in row["questions"]:
            if not question["accepted"]:
                reasons[_shape(question["reason"])] += 1
        for note in row["notes"]:
            differs, part = _DIFFERS.search(note), _NOT_USED.search(note)
            if note.startswith("answer of "):
                continue  # told by its question
            if differs:
                reasons["says something else than the first reading, which stands"] += 1
            elif part:
                reasons[_shape(part["why"])] += 1
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [{"why": why, "count": count} for why, count in ordered[:TOP_REASONS]]


def interval(right: int, said: int) -> list[float] | None:
    """Where the share of right ones among many more would lie with 95 % (Wilson), None without any."""
    if not said:
        return None
    share, spread = right / said, _Z * _Z / said
    middle = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / said + spread / (4 * said)) / (1 + spread)
    return [round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)]


def _rung(rung: str, attempts: list[AttemptRow]) -> dict[str, Any]:
    sent, received = _tokens(attempts)
    return {
        "rung": rung,
        "requests": len(attempts),
        "accepted": sum(each["accepted"] for each in attempts),
        "seconds": round(math.fsum(each["seconds"] for each in attempts), 3),
        "tokens_sent": sent,
        "tokens_received": received,
    }


def _by_template(questions: list[QuestionRow]) -> list[dict[str, Any]]:
    names = dict.fromkeys(question["template"] for question in questions)
    groups = [(name, [each for each in questions if each["template"] == name]) for name in names]
    return [
        {"template": name, "asked": len(group), "accepted": sum(each["accepted"] for each in group)}
        for name, group in groups
    ]


def _tokens(attempts: Sequence[AttemptRow]) -> tuple[int, int]:
    return sum(each["tokens_sent"] for each in attempts), sum(each["tokens_received"] for each in attempts)


def _shape(reason: str) -> str:
    return " ".join(_NUMBER.sub("#", _QUOTED.sub("...", reason)).split())[:160]


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """A value that occurred, with at least ``share`` of all at or below it."""
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3) if ordered else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
