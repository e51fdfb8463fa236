"""Whether a diagnosis is as sure as it may be: share of right categories by confidence, over labelled sets.

Each SET is ``LABELS.jsonl:FOLDER``. A label has ``id``, ``category`` or ``expected_category``, optionally
``alt_categories``, and the log itself (``log``), or ``log_path`` or ``files`` below FOLDER (a case of several files is
the folder named like its id). ``--map FILE`` gives category and alternatives by a label's ``mode``.

Example: python -m benchmarks.diagnosis rca/confusing.jsonl:rca rca_multi/labels.jsonl:rca_multi
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analyzers.failures import diagnose

#: Lower edges of the bins.
BINS = (0.0, 0.4, 0.6, 0.75, 0.9)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case: how sure the category was, whether it was right, and what was expected."""

    set: str
    id: str
    expected: str
    got: str
    confidence: float
    right: bool


def judge(labels: Path, folder: Path, modes: Mapping[str, Any]) -> Iterator[Verdict]:
    """Diagnose every case of a labelled set."""
    with tempfile.TemporaryDirectory() as scratch:
        for row in map(json.loads, filter(str.strip, labels.read_text("utf-8").splitlines())):
            case = {**modes.get(row.get("mode", ""), {}), **row}
            expected = str(case.get("category") or case.get("expected_category"))
            found = diagnose(_place(case, folder, Path(scratch)))
            allowed = {expected, *(case.get("alt_categories") or ())}
            yield Verdict(
                labels.name, str(case["id"]), expected, found.category, found.confidence, found.category in allowed
            )


def _place(case: Mapping[str, Any], folder: Path, scratch: Path) -> Path:
    if "log" in case:
        path = scratch / f"{case['id']}.log"
        path.write_text(case["log"], encoding="utf-8")
        return path
    if "log_path" in case:
        path = folder / case["log_path"]
        return path if path.exists() else folder / Path(*Path(case["log_path"]).parts[1:])
    return folder / str(case["id"])


def table(verdicts: Sequence[Verdict]) -> Iterable[str]:
    """Lines of the reliability table, then what became of the cases that decide nothing or are healthy."""
    yield f"{'confidence':>12} {'cases':>6} {'stated':>7} {'right':>7}"
    for low, high in zip(BINS, (*BINS[1:], 1.01), strict=True):
        here = [verdict for verdict in verdicts if low <= verdict.confidence < high]
        if here:
            stated = sum(verdict.confidence for verdict in here) / len(here)
            yield f"{low:.2f}-{min(high, 1):.2f}".rjust(12) + f" {len(here):>6} {stated:>7.2f} {_share(here):>7}"
    yield f"{'all':>12} {len(verdicts):>6} {'':>7} {_share(verdicts):>7}"
    for category in ("unknown", "none"):
        here = [verdict for verdict in verdicts if verdict.expected == category]
        if here:
            yield f"expected {category}: {sum(verdict.right for verdict in here)} of {len(here)} right"


def _share(verdicts: Sequence[Verdict]) -> str:
    return f"{sum(verdict.right for verdict in verdicts) / len(verdicts):.3f}" if verdicts else "-"


def main(words: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--map", type=Path, help="JSON: what a label's mode means")
    parser.add_argument("--misses", action="store_true", help="name the cases that were wrong")
    asked = parser.parse_args(words)
    modes = json.loads(asked.map.read_text("utf-8")) if asked.map else {}
    verdicts: list[Verdict] = []
    for each in asked.sets:
        labels, _, folder = each.partition(":")
        verdicts.extend(judge(Path(labels), Path(folder or Path(labels).parent), modes))
    print("\n".join(table(verdicts)))
    for verdict in verdicts if asked.misses else ():
        if not verdict.right:
            print(f"{verdict.set} {verdict.id}: {verdict.expected}, got {verdict.got} ({verdict.confidence:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
