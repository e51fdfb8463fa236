"""What the files of a job are read by, and what they have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from analyzers.failures.events import Scan
from analyzers.failures.marks import Mark
from analyzers.failures.matcher import Matcher
from analyzers.failures.sampling import Share
from analyzers.failures.signatures import Signature
from analyzers.failures.topology import Topology
from analyzers.logs.intake import Warn


@dataclass(frozen=True, slots=True)
class Rules:
    """What lines are read by. Indexes of patterns: the signatures', one for Xids, then the marks' (``marks``)."""

    signatures: tuple[Signature, ...]
    matcher: Matcher
    first_mark: int
    marks: dict[Mark, int]

    def __deepcopy__(self, _: dict[int, object]) -> Rules:
        return self

    def confirmed(self, numbers: Iterable[int], text: str) -> list[int]:
        """Those of the patterns that fit this line."""
        return [number for number in numbers if self.matcher.fits(number, text)]


@dataclass(frozen=True, slots=True)
class Job:
    """What the files of one job have in common: where findings go, the hosts that other files name, and how closely
    each of them is read."""

    scan: Scan
    topology: Topology
    warn: Warn
    known: frozenset[str]
    share: Share


def is_table(lines: list[str]) -> bool:
    """Whether a scheduler's file is accounting (a table or JSON of jobs) and not a daemon's log."""
    head = [line for line in lines[:40] if line.strip()][:3]
    return any("JobState=" in line for line in lines[:40]) or (
        bool(head)
        and (
            (head[0].lstrip().startswith(("{", "[")) and ('"' in head[0] or head[0].strip() in ("{", "[")))
            or any(re.search(r"\bJobID(?:Raw)?\b", line) and "State" in line for line in head)
        )
    )
