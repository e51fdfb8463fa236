"""How much of what a job's source says is read, and how much of what is read is right.

LABELS is a JSON-lines file of labelled jobs (`benchmarks/data/jobs` has three: two that the reader has been improved
on since, and one that is held back: look at its totals only). TREES holds each repository's tree, at the commit that
the label names, in a folder ``owner+name``; they are not part of this repository.

What counts as said, right and a guess is in `schedmate.evaluation.jobs`.

Example: python -m benchmarks.source_facts benchmarks/data/jobs/opened_1.jsonl /data/trees --misses
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from analyzers.source import analyze
from analyzers.types import Submission
from schedmate.evaluation.jobs import Score, judge, said_in


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
        judge(score, label, said_in(analyze(Submission(label["launch"], folder))))
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
