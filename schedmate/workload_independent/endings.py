"""How jobs end: shares as published over all jobs, causes by their odds, and when each strikes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analyzers.types import Outcome
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.tables import tables

#: How strongly the running shares are held to the published ones, and how many jobs until they are.
_PULL = 25.0
_WARM_UP_JOBS = 60
_MOST = 0.9


@dataclass(frozen=True, slots=True)
class Intent:
    """What will happen to a job unless its limit comes first; ``cause`` and ``at`` of one that fails."""

    outcome: Outcome
    cause: str | None = None
    at: str | None = None


class Ends:
    """Decides how jobs end, in order, so that the shares over all of them come out as published.

    Which jobs fail follows from why they were submitted and by whom; only the level is held to the papers, by looking
    at what has happened so far. A timeout counts as a failure there, as in the papers.
    """

    def __init__(self, profile: str) -> None:
        self._shares = tables().ends(profile)
        numbers = tables().numbers
        self._odds: Mapping[str, Mapping[str, float]] = numbers["odds"]
        self._causes: Mapping[str, Mapping[str, object]] = numbers["failing"]
        self._jobs = 0
        self._seen = {"failed": 0.0, "cancelled": 0.0}

    def intend(self, draw: Draw, why: str, carelessness: float, excluded: frozenset[str]) -> Intent:
        """How this job will end; ``excluded`` are causes that can not be here."""
        lot = draw.between(0, 1)
        fails = self._chance("failed", self._odds[why]["failed"] * carelessness)
        if lot < fails:
            odds = {cause: float(str(row["odds"])) for cause, row in self._causes.items() if cause not in excluded}
            cause = draw.weighted(odds)
            return Intent("failed", cause, str(self._causes[cause]["at"]))
        if lot < fails + self._chance("cancelled", self._odds[why]["cancelled"]):
            return Intent("cancelled")
        return Intent("completed")

    def _chance(self, end: str, odds: float) -> float:
        target, jobs = self._shares[end], self._jobs
        behind = (target - self._seen[end] / jobs) / target if jobs else 0.0
        level = 1.0 + _PULL * behind * jobs / (jobs + _WARM_UP_JOBS)
        return min(_MOST, target * odds * min(4.0, max(0.15, level)))

    def happened(self, outcome: Outcome) -> None:
        """Count how a job did end."""
        self._jobs += 1
        if outcome != "completed":
            self._seen["failed" if outcome == "timeout" else outcome] += 1
