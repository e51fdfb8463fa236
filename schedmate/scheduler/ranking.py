"""A rank that changes while a job runs, for policies that evict whoever ranks worse.

A rank is a function ``(job, done_s, served_s) -> float``, smaller goes first. ``done_s`` is the work that is not lost,
``served_s`` all that was ever worked, what was lost by evictions too; both in seconds of its gang.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from schedmate.scheduler.types import Job

Rank = Callable[[Job, float, float], float]

#: Service is added up run by run; so many seconds of a level are reached in spite of rounding.
_ROUNDING_S = 1e-6


@dataclass(frozen=True, slots=True)
class Ranking:
    """How running and waiting jobs are ranked together, see `actions.rerank`. A waiting job's rank stays as it is; that
    of a running one may only fall below others while it runs if there are ``levels``.

    Parameters
    ----------
    of : the rank; with ``levels`` the attained service in GPU seconds.
    levels : the rank is how many of these the service has reached. Ascending, in GPU seconds.
    margin : a job is evicted only for one whose rank, times this, is still less than its own.
    """

    of: Rank
    levels: tuple[float, ...] = ()
    margin: float = 1.0

    def __post_init__(self) -> None:
        if not all(0 < level < math.inf for level in self.levels) or list(self.levels) != sorted(set(self.levels)):
            raise ValueError(f"levels {self.levels} of a ranking are not positive, finite and ascending")
        if not 1.0 <= self.margin < math.inf:
            raise ValueError(f"a ranking has a margin of {self.margin}, which is not from 1 up")

    def waiting(self, job: Job, done_s: float, served_s: float) -> float:
        """The rank of a job that waits."""
        if not self.levels:
            return self.of(job, done_s, served_s)
        return float(bisect_right(self.levels, self.of(job, done_s, served_s + _ROUNDING_S)))

    def running(self, job: Job, done_s: float, served_s: float, began_s: float, now: float) -> tuple[float, float]:
        """The rank of a job that works since ``began_s``, of which the two amounts are those of earlier runs; and when
        it gets worse, infinite if it does not."""
        if not self.levels:
            ran_s = max(0.0, now - began_s)
            return self.of(job, done_s + ran_s, served_s + ran_s), math.inf
        for number, level in enumerate(self.levels):
            left_s = level / job.gpus - served_s
            if left_s > _ROUNDING_S and began_s + left_s > now:
                return float(number), began_s + left_s
        return float(len(self.levels)), math.inf


def remaining(job: Job, done_s: float, served_s: float) -> float:
    """Seconds to go, by the estimate; jobs without one last."""
    return math.inf if job.estimate_s is None else max(0.0, job.estimate_s - done_s)


def remaining_area(job: Job, done_s: float, served_s: float) -> float:
    """GPU seconds to go, by the estimate; jobs without one last."""
    return remaining(job, done_s, served_s) * job.gpus


def attained(job: Job, done_s: float, served_s: float) -> float:
    """GPU seconds of service so far. Knows nothing of how long the job will take."""
    return served_s * job.gpus
