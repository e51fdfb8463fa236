"""Whether what is said of a job's source is what its label says, and how often.

A fact counts as said with a confidence of 0.5 or more. *Precision* is the share of said facts that are right, of those
that a label can judge; *recall* the share of labelled facts that are said and right; a *guess* is a fact said that
nobody could know.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from analyzers.types import SourceFacts

SAID = 0.5
#: What became of one fact or measure: said and right, said and wrong, said though nobody could know it, not said, said
#: where the label does not tell.
State = Literal["right", "wrong", "guess", "silent", "unjudged"]
#: Relative error with which a rate, and a number of parameters, count as right.
_RATE_ERROR, _SIZE_ERROR = 0.01, 0.25
_TEXTS = ("model", "dataset", "task")


@dataclass(slots=True)
class Score:
    """Counts by fact."""

    jobs: int = 0
    missing_trees: int = 0
    right: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    labelled: Counter[str] = field(default_factory=Counter)
    guessed: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)


def said_in(facts: SourceFacts) -> dict[str, Any]:
    """The values that are sure enough to count as said."""
    return {name: fact.value for name, fact in facts.facts.items() if fact.confidence >= SAID}


def state_of(label: Mapping[str, Any], name: str, found: Any) -> State:
    """What a label says of the value that was found, None where nothing was said."""
    if found is None:
        return "silent"
    wanted = label["expected"].get(name)
    accepted = [each for each in (wanted, *label.get("accept", {}).get(name, ())) if each is not None]
    if not accepted:
        return "guess" if name in label.get("must_not_guess", ()) else "unjudged"
    wrong = _listed(label.get("wrong_values", {}).get(name, []))
    right = any(agrees(name, found, each) for each in accepted) and found not in wrong
    return "right" if right else "wrong"


def judge(score: Score, label: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Count one job; ``facts`` are the values that were said."""
    score.jobs += 1
    for name, wanted in label["expected"].items():
        if wanted is not None:
            score.labelled[name] += 1
        state = state_of(label, name, facts.get(name))
        if state in ("silent", "unjudged"):
            continue
        score.said[name] += 1
        if state == "guess":
            score.guessed[name] += 1
        elif state == "right":
            score.right[name] += 1
        else:
            score.misses.append(f"{label['id']} {name}: wanted {wanted!r}, found {facts.get(name)!r}")


def agrees(name: str, found: Any, wanted: Any) -> bool:
    """Whether a value says what the label does: numbers exactly, rates and sizes nearly, texts by shared words."""
    if isinstance(wanted, list) or isinstance(found, list):
        return {str(v).lower() for v in _listed(found)} == {str(v).lower() for v in _listed(wanted)}
    if isinstance(wanted, bool) or isinstance(found, bool):
        return found is wanted
    if isinstance(wanted, int | float):
        error = {"learning_rate": _RATE_ERROR, "model_params_approx": _SIZE_ERROR}.get(name, 1e-9)
        return isinstance(found, int | float) and abs(found - wanted) <= error * abs(wanted) + 1e-12
    if name in _TEXTS:
        one, other = _words(found), _words(wanted)
        joined, wanted_joined = "".join(sorted(one)), _squeezed(wanted)
        return bool(one and other) and (
            2 * len(one & other) >= min(len(one), len(other))
            or (len(joined) >= 4 and (_squeezed(found) in wanted_joined or wanted_joined in _squeezed(found)))
        )
    return _words(found) - {"torch", "optim", "fused"} == _words(wanted) - {"torch", "optim", "fused"}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _words(value: Any) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", str(value).lower()))


def _squeezed(value: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", str(value).lower())
