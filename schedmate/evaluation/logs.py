"""Whether a diagnosis says what a log's label says, measure by measure.

Measures: ``category_strict`` (the label's own), ``category`` (one that the label accepts as well), ``evidence`` (the
first quoted line is one of the label's), ``rank``, ``node``, ``retryable``, ``action``. A label judges those that
it speaks of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analyzers.types import Diagnosis
from schedmate.evaluation.jobs import State

MEASURES = ("category", "category_strict", "evidence", "rank", "node", "retryable", "action")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: A part of a line counts as the line from this length on, and when no more than this is missing.
_SHORTEST_PART_CHARS, _LONGEST_REST_CHARS = 20, 160


@dataclass(frozen=True, slots=True)
class Judged:
    """By measure (whether the label wants something said, what became of it); ``blamed``: ranks or nodes were named
    that the label says had nothing to do with it."""

    measures: Mapping[str, tuple[bool, State]]
    blamed: bool


def judge_log(label: Mapping[str, Any], found: Diagnosis) -> Judged:
    """What a label says of a diagnosis; see docs/language-model.md for the form of labels."""
    wanted = category_of(label)
    measures: dict[str, tuple[bool, State]] = {
        "category": (True, _category(found, {wanted, *listed(label.get("alt_categories"))})),
        "category_strict": (True, _category(found, {wanted})),
    }
    lines = [line for name in ("evidence", "evidence_line", "alt_evidence") for line in listed(label.get(name)) if line]
    if lines and wanted not in ("none", "unknown"):
        measures["evidence"] = (True, _evidence(found, lines))
    blamed = False
    if "culprit_rank" in label:
        # of one file, and of a cause that stays open, a rank is where it was seen and nobody's blame
        counts = wanted != "unknown" and len(listed(label.get("files"))) > 1
        ranks = {str(rank) for rank in found.culprit_ranks}
        measures["rank"] = _culprits(ranks, label["culprit_rank"], innocent_counts=counts)
        blamed = measures["rank"][1] == "guess"
    if "culprit_node" in label:
        nodes = set(found.culprit_nodes)
        measures["node"] = _culprits(nodes, label["culprit_node"], innocent_counts=True)
        blamed = blamed or bool(nodes - {str(node) for node in listed(label["culprit_node"])})
    if label.get("retryable") is not None:
        measures["retryable"] = (True, _same(found.retryable, {label["retryable"]}))
    if label.get("action"):
        said = None if found.action == "none" and label["action"] != "none" else found.action
        measures["action"] = (True, _same(said, {label["action"], *listed(label.get("alt_actions"))}))
    return Judged(measures, blamed)


def category_of(label: Mapping[str, Any]) -> Any:
    """The category that a label has."""
    return label.get("category") or label.get("expected_category")


def listed(value: Any) -> list[Any]:
    """A value that may be missing, alone or a list, as a list."""
    return [] if value is None else value if isinstance(value, list) else [value]


def same_line(found: str, wanted: str) -> bool:
    """Whether two texts are one line of a log: without colours, and whole or nearly so."""
    one, other = (_ESCAPES.sub("", text).strip() for text in (found, wanted))
    if not one or not other or "\n" in one or "\r" in one:
        return False
    short, long = sorted((one, other), key=len)
    part = len(short) >= _SHORTEST_PART_CHARS and short in long and len(long) - len(short) <= _LONGEST_REST_CHARS
    return one == other or part


def _category(found: Diagnosis, accepted: set[Any]) -> State:
    if found.category in accepted:
        return "right"
    return "silent" if found.category == "unknown" else "wrong"


def _evidence(found: Diagnosis, lines: list[Any]) -> State:
    if not found.evidence:
        return "silent"
    return "right" if any(same_line(found.evidence[0].text, str(line)) for line in lines) else "wrong"


def _culprits(found: set[str], wanted: Any, *, innocent_counts: bool) -> tuple[bool, State]:
    if wanted is None:
        return False, "guess" if found and innocent_counts else "silent"
    if not found:
        return True, "silent"
    return True, "right" if found == {str(each) for each in listed(wanted)} else "wrong"


def _same(found: Any, accepted: set[Any]) -> State:
    if found is None:
        return "silent"
    return "right" if found in accepted else "wrong"
