"""How much of what a job's source says is read, and how much of what is read is right.

LABELS is a JSON-lines file of labelled jobs (`benchmarks/data/jobs` has three: two that the reader has been improved
on since, and one that is held back: look at its totals only). TREES holds each repository's tree, at the commit that
the label names, in a folder ``owner+name``; they are not part of this repository.

A fact counts as said with a confidence of 0.5 or more. *Precision* is the share of said facts that are right, of those
that a label can judge; *recall* the share of labelled facts that are said and right; a *guess* is a fact said that
nobody could know.

Example: python -m benchmarks.source_facts benchmarks/data/jobs/opened_1.jsonl /data/trees --misses
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analyzers.source import analyze
from analyzers.types import Submission

_SAID = 0.5
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


def judge(score: Score, label: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Count one job; ``facts`` are the values that were said."""
    score.jobs += 1
    for name, wanted in label["expected"].items():
        accepted = [each for each in (wanted, *label.get("accept", {}).get(name, ())) if each is not None]
        if wanted is not None:
            score.labelled[name] += 1
        found = facts.get(name)
        if found is None:
            continue
        if not accepted:
            if name in label.get("must_not_guess", ()):
                score.said[name] += 1
                score.guessed[name] += 1
            continue
        score.said[name] += 1
        wrong = _listed(label.get("wrong_values", {}).get(name, []))
        if any(agrees(name, found, each) for each in accepted) and found not in wrong:
            score.right[name] += 1
        else:
            score.misses.append(f"{label['id']} {name}: wanted {wanted!r}, found {found!r}")


def score_of(labels: Path, trees: Path) -> Score:
    """Read every job whose tree is there."""
    score = Score()
    for line in labels.read_text(encoding="utf-8").splitlines():
        label = json.loads(line) if line.strip() else None
        if label is None:
            continue
        folder = trees / label["repo"].replace("/", "+") / (label.get("workdir") or ".")
        if not folder.is_dir():
            score.missing_trees += 1
            continue
        facts = analyze(Submission(label["launch"], folder)).facts
        judge(score, label, {name: fact.value for name, fact in facts.items() if fact.confidence >= _SAID})
    return score


def table(score: Score) -> str:
    """By fact and in all."""
    lines = [f"{'fact':26}{'right':>7}{'said':>7}{'labelled':>10}{'guesses':>9}"]
    for name in score.labelled | score.said:
        counts = (score.right[name], score.said[name], score.labelled[name], score.guessed[name])
        lines.append(f"{name:26}{counts[0]:7}{counts[1]:7}{counts[2]:10}{counts[3]:9}")
    right, said, labelled = score.right.total(), score.said.total(), score.labelled.total()
    lines.append(
        f"{score.jobs} jobs ({score.missing_trees} without a tree): precision {right / max(1, said):.3f}, recall "
        f"{right / max(1, labelled):.3f}, {score.guessed.total()} guesses at what nobody could know"
    )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; exit code 1 where no tree is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--misses", action="store_true", help="list what was said wrongly")
    asked = parser.parse_args(words)
    score = score_of(asked.labels, asked.trees)
    if asked.misses:
        print("\n".join(score.misses))
    print(table(score))
    return 0 if score.jobs else 1


if __name__ == "__main__":
    sys.exit(main())
