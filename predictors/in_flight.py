"""Jobs that have started and not ended, as far as anyone has told: all that is known is that they last so long."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from analyzers.types import JobRecord

#: So many starts are remembered; of more the first told go, which are most likely those whose end nobody told.
MOST_STARTS = 10_000
#: So many of the jobs in flight are looked at, the longest running: the others say least.
LOOKED_AT = 48
#: A job is given up as lost so far past its limit, and one without any after so long.
_PAST_LIMIT, _PAST_LIMIT_S = 1.1, 600.0
_LONGEST_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Started:
    """A job as it was submitted, when it first started, and its last run: from ``start_s``, and known to have gone on
    until ``until_s`` (infinite: until someone says otherwise). ``longest_s``: the longest of the runs before."""

    record: JobRecord
    first_s: float
    start_s: float
    until_s: float = math.inf
    longest_s: float = 0.0

    def age_s(self, moment_s: float) -> float:
        """How long it lasts at least, as known at that moment: its longest run so far, of its limit no more than that.

        Runs are not added up: what one had done may have been lost when it was stopped.
        """
        age_s = max(self.longest_s, min(moment_s, self.until_s) - self.start_s)
        return min(age_s, moment_s - self.first_s, self.record.requested_s or math.inf)

    def lost(self, moment_s: float) -> bool:
        """Whether it must have ended without anyone telling."""
        limit_s = self.record.requested_s
        if not limit_s or self.until_s < math.inf:
            return moment_s - self.first_s > _LONGEST_S
        return moment_s - self.start_s > _PAST_LIMIT * limit_s + _PAST_LIMIT_S


class InFlight:
    """What is told of starts, stops and ends, in order of time; ``at(moment_s)``: what was in flight then.

    Held in memory alone: who starts anew knows of no job until it is told again.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Started] = {}
        self._ends_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._jobs

    def started(self, record: JobRecord, start_s: float, until_s: float = math.inf) -> None:
        """A job has started at ``start_s``, or again after it was stopped; told twice of one run, the first stands.

        Of ``record`` nothing is read that only its run tells. ``until_s``: it is only known to have run until then.
        A start that is no finite number is passed over.
        """
        if not math.isfinite(start_s):
            return
        if self._ends_s.get(record.job_id, math.inf) <= start_s:
            self.dropped(record.job_id)  # another run under the same name
        known = self._jobs.get(record.job_id)
        if known is None:
            if len(self._jobs) >= MOST_STARTS:
                self.dropped(next(iter(self._jobs)))
            self._jobs[record.job_id] = Started(record, start_s, start_s, until_s)
        elif known.until_s < math.inf:
            self._jobs[record.job_id] = replace(known, start_s=max(start_s, known.until_s), until_s=until_s)

    def stopped(self, job_id: str, at_s: float) -> None:
        """A job had to leave and waits again; it still lasts as long as it has run. One not known is passed
        over."""
        known = self._jobs.get(job_id)
        if known is not None and known.until_s == math.inf:
            longest_s = max(known.longest_s, at_s - known.start_s)
            self._jobs[job_id] = replace(known, until_s=at_s, longest_s=longest_s)

    def ended(self, job_id: str, at_s: float) -> None:
        """A job has ended at ``at_s``: at any moment before it was still in flight. One not known is passed over."""
        if job_id in self._jobs:
            self._ends_s[job_id] = at_s

    def dropped(self, job_id: str) -> None:
        """A job was taken back or lost: nothing more is known of it. One not known is passed over."""
        self._jobs.pop(job_id, None)
        self._ends_s.pop(job_id, None)

    def learned(self, job_ids: Iterable[str]) -> None:
        """These have ended and were learned from."""
        for job_id in job_ids:
            self.dropped(job_id)

    def forget_ended(self) -> None:
        """All that have ended are dropped."""
        self.learned(list(self._ends_s))

    def told(self) -> list[Started]:
        """All that have started and are remembered, whether or not they have ended."""
        return list(self._jobs.values())

    def at(self, moment_s: float) -> list[Started]:
        """The `LOOKED_AT` that had started first of those in flight at that moment, the first first."""
        running = (
            each
            for job_id, each in list(self._jobs.items())  # other threads may tell of more meanwhile
            if each.first_s < moment_s < self._ends_s.get(job_id, math.inf) and not each.lost(moment_s)
        )
        return longest(running)


def longest(running: Iterable[Started]) -> list[Started]:
    """The `LOOKED_AT` that started first, the first first."""
    return heapq.nsmallest(LOOKED_AT, running, key=lambda each: (each.first_s, each.record.job_id))
