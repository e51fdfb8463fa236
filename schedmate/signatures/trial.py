"""What signatures do to a stored corpus of logs: where they decide the verdict, and whether that is right.

The truth of a log is its label; without one it is what the rules in force are sure of, and where they are not it is
open. A healthy log that is called failed is the worst that a signature can do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from analyzers.failures import Diagnoser, Signature
from analyzers.failures.events import Scan
from analyzers.types import Diagnosis, LogEvidence
from prompts.errors import UserError
from schedmate.batch.cases import find_cases
from schedmate.evaluation.cases import Case, log_cases
from schedmate.evaluation.logs import category_of, listed

SURE = 0.75
#: What measured precision must reach, on at least so many logs with a known truth.
PRECISION, LEAST_LOGS = 0.95, 5
_MOST_SHOWN = 10


@dataclass(slots=True)
class Measured:
    """Of one signature: logs with a line of it, and of those whose verdict it decided, how many are ``right``,
    ``wrong``, ``healthy`` (called failed though they are not) and ``open``. ``lines`` shows some of what it fits."""

    logs: int = 0
    right: int = 0
    wrong: int = 0
    healthy: int = 0
    open: int = 0
    lines: list[LogEvidence] = field(default_factory=list)

    @property
    def precision(self) -> float | None:
        """Of the logs with a known truth that it decided; None where there is none."""
        known = self.right + self.wrong + self.healthy
        return self.right / known if known else None

    def why_not(self) -> str:
        """Why this does not prove the signature; empty where it does."""
        known = self.right + self.wrong + self.healthy
        if self.healthy:
            return f"it calls {self.healthy} healthy log{'s' * (self.healthy > 1)} failed"
        if known < LEAST_LOGS:
            return f"it decides {known} logs whose cause is known; at least {LEAST_LOGS} are needed"
        if self.precision is not None and self.precision < PRECISION:
            return f"it is right in {self.precision:.0%} of {known} logs; at least {PRECISION:.0%} are needed"
        return ""


@dataclass(slots=True)
class Trial:
    """A corpus gone through once. ``by_id`` has the signatures that were asked about."""

    logs: int = 0
    unreadable: int = 0
    by_id: dict[str, Measured] = field(default_factory=dict)


def try_signatures(
    active: tuple[Signature, ...],
    tried: Iterable[Signature],
    corpus: Path,
    labels: Path | None,
    advance: Callable[[int], None],
) -> Trial:
    """Go through the logs below ``corpus`` with the ``tried`` signatures added to the ``active`` ones (they may be
    among them). ``labels`` is a file of labelled logs (docs/language-model.md). Raises `UserError`."""
    chosen = tuple(tried)
    known = {each.id for each in active}
    new = tuple(each for each in chosen if each.id not in known)
    before = Diagnoser(active) if labels is None else None
    after = Diagnoser((*active, *new))
    trial = Trial(by_id={each.id: Measured() for each in chosen})
    with tempfile.TemporaryDirectory(prefix="schedmate-signatures-") as scratch:
        for path, truths in _logs(corpus, labels, Path(scratch)):
            trial.logs += 1
            advance(1)
            try:
                found, scan, _ = after.examine(path)
                if before is not None:
                    truths = _sure(before.examine(path)[0]) if new else None
            except UserError:
                trial.unreadable += 1
                continue
            _count(trial.by_id, found, scan, truths)
    return trial


def _logs(corpus: Path, labels: Path | None, scratch: Path) -> Iterable[tuple[Path, set[str] | None]]:
    if labels is None:
        yield from ((case.path, None) for case in find_cases(corpus).cases)
        return
    for case in log_cases(labels, corpus).cases:
        yield (
            _file_of(case, scratch),
            {str(category_of(case.label)), *map(str, listed(case.label.get("alt_categories")))},
        )


def _file_of(case: Case, scratch: Path) -> Path:
    if case.path is not None:
        return case.path
    file = scratch / "job.log"
    file.write_text(case.text, encoding="utf-8", errors="replace")
    return file


def _sure(found: Diagnosis) -> set[str] | None:
    """The verdict of the rules in force, where they are sure of it."""
    return {found.category} if found.category != "unknown" and found.confidence >= SURE else None


def _count(by_id: dict[str, Measured], found: Diagnosis, scan: Scan, truths: set[str] | None) -> None:
    seen: set[str] = set()
    first = found.evidence[0] if found.evidence and found.category not in ("none", "unknown") else None
    deciding = ""
    for event in scan.events:
        measured = by_id.get(event.signature.id)
        if measured is None:
            continue
        if event.signature.id not in seen:
            measured.logs += 1
        seen.add(event.signature.id)
        if len(measured.lines) < _MOST_SHOWN:
            measured.lines.append(event.evidence)
        if first is not None and (event.file, event.line) == (first.file, first.line):
            deciding = event.signature.id
    if deciding:
        measured = by_id[deciding]
        if truths is None or truths == {"unknown"}:
            measured.open += 1
        elif found.category in truths:
            measured.right += 1
        elif truths == {"none"}:
            measured.healthy += 1
        else:
            measured.wrong += 1
