"""Policies as data: an order of the queue, what is assumed about runtimes, how many heads get a reservation.

An order has one signature, ``(job, cluster_gpus) -> key``, computed once at submission; smaller goes first, ties go by
submission. An assumption has one signature, ``job -> (seconds, firm)``; seconds are infinite when nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schedmate.scheduler.types import Job

Order = Callable[[Job, int], float]
Assumption = Callable[[Job], tuple[float, bool]]


@dataclass(frozen=True, slots=True)
class Policy:
    """``reservations`` blocked heads per pool get one, and later jobs are backfilled beside them; 0 is a strict head.

    ``needs_estimates``: the policy has no meaning for jobs without ``estimate_s``.
    """

    name: str
    title: str
    order: Order
    assume: Assumption
    reservations: int = 0
    needs_estimates: bool = False


def by_submission(job: Job, cluster_gpus: int) -> float:
    """First in, first out."""
    return 0.0


def by_estimate(job: Job, cluster_gpus: int) -> float:
    """Shortest estimate first; jobs without one last."""
    return math.inf if job.estimate_s is None else job.estimate_s


def stated(job: Job) -> tuple[float, bool]:
    """The estimate is taken at its word, as EASY does."""
    return (math.inf if job.estimate_s is None else job.estimate_s), False


POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("fifo", "first in, first out; a blocked head blocks all behind it", by_submission, stated),
        Policy(
            "sjf", "shortest job first; a blocked head blocks all behind it", by_estimate, stated, needs_estimates=True
        ),
        Policy(
            "easy",
            "first in, first out; the blocked head gets a reservation, later jobs are backfilled",
            by_submission,
            stated,
            reservations=1,
            needs_estimates=True,
        ),
    )
}
