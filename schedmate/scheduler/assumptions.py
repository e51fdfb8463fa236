"""What is assumed of a runtime when a job comes, and of one that outlives that.

An assumption is a function ``job -> Assumed``. A correction ``(job, seconds) -> seconds`` says how long a job is
expected to run in all that has outlived those seconds: more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from schedmate.scheduler.types import Job

#: Runtime assumed of a running job about which nothing is known; doubled whenever the job outlives it.
UNKNOWN_RUNTIME_S = 3600.0

#: A job that has outlived what was expected of it is expected to run so much longer at least.
SHORTEST_EXTENSION_S = 60.0

#: No limit is taken to be shorter: a job of no length would start at the very moment that is another one's.
SHORTEST_LIMIT_S = 1e-3


class Assumed(NamedTuple):
    """Seconds of runtime. ``ends_s``: plans expect it to have ended after this. ``within_s``: it is taken to end within
    this when it asks to pass a job with an expected start. ``limit_s``: it is ended at this, whatever it does. Infinite
    where unknown (``ends_s`` never is)."""

    ends_s: float
    within_s: float
    limit_s: float

    @property
    def span_s(self) -> float:
        """How long an expected plan keeps its GPUs."""
        return self.within_s if self.within_s < math.inf else self.ends_s


Assumption = Callable[[Job], Assumed]
Correction = Callable[[Job, float], float]


def stated(job: Job) -> Assumed:
    """The estimate is taken at its word, as EASY does."""
    if job.estimate_s is None:
        return Assumed(UNKNOWN_RUNTIME_S, math.inf, math.inf)
    return Assumed(job.estimate_s, job.estimate_s, math.inf)


def predicted(job: Job) -> Assumed:
    """What the hint expects, else the estimate, taken at its word up to the hard limit; else the limit."""
    limit_s = math.inf if job.limit_s is None else max(SHORTEST_LIMIT_S, job.limit_s)
    told_s = job.estimate_s if job.hints is None or job.hints.expected_s is None else job.hints.expected_s
    if told_s is not None:
        return Assumed(min(told_s, limit_s), min(told_s, limit_s), limit_s)
    return Assumed(unhinted_s(job), limit_s, limit_s)


def expected(job: Job) -> Assumed:
    """Hints for what is expected, hard limits for what is guaranteed; a hint never exceeds the limit."""
    limit_s = math.inf if job.limit_s is None else max(SHORTEST_LIMIT_S, job.limit_s)
    hints = job.hints
    if hints is not None and hints.expected_s is not None and hints.high_s is not None:
        return Assumed(min(hints.expected_s, limit_s), min(hints.high_s, limit_s), limit_s)
    return Assumed(unhinted_s(job), limit_s, limit_s)


def unhinted_s(job: Job) -> float:
    """Seconds after which a job is `expected` to have ended whose hints are not looked at."""
    return UNKNOWN_RUNTIME_S if job.limit_s is None else max(SHORTEST_LIMIT_S, job.limit_s)


def doubled(job: Job, too_short_s: float) -> float:
    """Twice as long in all, or a minute longer at least."""
    return too_short_s + max(too_short_s, SHORTEST_EXTENSION_S)


def by_bounds(job: Job, too_short_s: float) -> float:
    """First what the hint holds for the upper bound, then the hard limit; `doubled` where there is neither. A job that
    is not what it was taken for may be anything: small steps plan for it again and again as if it were about to end."""
    high_s = 0.0 if job.hints is None else job.hints.high_s or 0.0
    limit_s = job.limit_s or 0.0
    if too_short_s < high_s < limit_s or (too_short_s < high_s and not limit_s):
        return high_s
    return limit_s if too_short_s < limit_s else doubled(job, too_short_s)
