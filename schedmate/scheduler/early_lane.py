"""The early-failure lane: jobs that may well fail within minutes are tried first, and give way again if they do not.

A *probe* is the first run of such a job. It waits where a job would that is known to take what finding one failure so
costs: the seconds of a probe over the chance that it fails. If it is still there when its time is over, it goes on,
unless somebody who stands before its ordinary place can start by what it leaves: then it is put back there, and starts
anew (`actions.put_back`). So only jobs that may be evicted are tried, each once.

What is said of the jobs of an owner (account, else tenant) has to come true, half of it at least. The owner pays half
the chance that is claimed for each probe from its *credit*, and gets 1 for each that was over in time, for whatever
reason. Whose jobs do not fail early, whatever is said of them, soon has none tried any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from schedmate.scheduler.assumptions import expected
from schedmate.scheduler.types import Hints, Job


@dataclass(frozen=True, slots=True)
class Early:
    """The rules of the lane.

    Parameters
    ----------
    least : jobs that fail early with this chance are tried. At 0.2 four of five probes may be in vain, if that is so.
    credit : what an owner has to begin with: so many failures need not come.
    most : so much credit can be saved up.
    earned : credit for every job of an owner that ends, so that whoever has lost it all is heard again.
    """

    least: float = 0.2
    credit: float = 2.0
    most: float = 8.0
    earned: float = 0.005

    def __post_init__(self) -> None:
        if not 0 < self.least <= 1:
            raise ValueError(f"jobs are tried from a chance of {self.least} on, which is not from 0 to 1")
        if not (0 <= self.credit <= self.most < math.inf and 0 <= self.earned <= 1):
            raise ValueError("an owner begins with 0 to `most` credit, and earns 0 to 1 for every job")


#: So much of what is claimed has to come true.
COMES_TRUE = 0.5


class EarlyLane:
    """Who is in the lane, and what credit is left. Nothing here is changed within a transaction.

    ``min_run_s``: nobody is put back before.
    """

    __slots__ = ("_credit", "_entered", "_min_run_s", "_rules")

    def __init__(self, rules: Early, min_run_s: float = 0.0) -> None:
        self._rules, self._min_run_s = rules, min_run_s
        self._credit: dict[str, float] = {}
        #: By slot the owner and what was paid, of jobs that wait to be tried or are.
        self._entered: dict[int, tuple[str, float]] = {}

    def __contains__(self, slot: object) -> bool:
        return slot in self._entered

    @property
    def credit(self) -> Mapping[str, float]:
        """What is left to each owner that has had a job in the lane."""
        return self._credit

    def probe_s(self, job: Job) -> float:
        """How long the probe of a job lasts, in seconds."""
        within_s = 0.0 if job.hints is None else job.hints.early_s
        return max(within_s, job.min_run_s, self._min_run_s)

    def as_tried(self, job: Job) -> Job | None:
        """The job as it is to be ordered if it is tried; None where it is not to be: the chance is too small, it may
        not be put back (nor a replica of a service, which is to keep so many), or it stands no further back without."""
        hints = job.hints
        if hints is None or hints.fails_early is None or hints.fails_early < self._rules.least:
            return None
        is_rigid = job.demand is None or not job.demand.elastic
        if not (job.preemptible and job.kind == "training" and job.service is None and is_rigid):
            return None
        costs_s = self.probe_s(job) / hints.fails_early
        if costs_s >= expected(job).ends_s:
            return None
        return replace(job, hints=Hints(costs_s, costs_s, hints.source))

    def enter(self, slot: int, job: Job) -> Job:
        """A job comes that has not run yet; how it is to be ordered. It is in the lane if its owner has the credit."""
        tried = self.as_tried(job)
        chance = 0.0 if job.hints is None else job.hints.fails_early or 0.0
        owner, price = job.account or job.tenant or "", COMES_TRUE * chance
        if tried is None or self._credit.get(owner, self._rules.credit) < price:
            return job
        self._pay(owner, -price)
        self._entered[slot] = owner, price
        return tried

    def again(self, slot: int, job: Job) -> Job:
        """Something else is said of a job that has not run yet; how it is to be ordered now."""
        self.leave(slot)
        return self.enter(slot, job)

    def leave(self, slot: int) -> None:
        """The job in ``slot`` was not tried to an end, or nobody wanted its place: what was paid is returned."""
        if slot in self._entered:
            self._pay(*self._entered.pop(slot))

    def over(self, slot: int) -> None:
        """The job in ``slot`` was over in time."""
        if slot in self._entered:
            self._pay(self._entered.pop(slot)[0], 1.0)

    def in_vain(self, slot: int) -> None:
        """The job in ``slot`` was put back."""
        self._entered.pop(slot, None)

    def ended(self, job: Job) -> None:
        """A job of whomever has ended."""
        owner = job.account or job.tenant or ""
        if owner in self._credit:
            self._pay(owner, self._rules.earned)

    def _pay(self, owner: str, amount: float) -> None:
        rules = self._rules
        self._credit[owner] = min(rules.most, self._credit.get(owner, rules.credit) + amount)
