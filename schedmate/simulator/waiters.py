"""Who waits: waiting times by user, or by tenant where the trace names no users, the most waiting first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord

#: So many are kept, more than are shown, so that who waits most under one policy is found under another one too.
MOST_WAITERS = 50
NOBODY = "(nobody)"


def who_of(jobs: Sequence[JobRecord]) -> tuple[str, list[str]] | None:
    """("user" or "tenant", whose each job is); None for jobs of which nobody says whose they are."""
    for field in ("user", "tenant"):
        names = [getattr(job, field) for job in jobs]
        if any(names):
            return field, [name or NOBODY for name in names]
    return None


def waiters(jobs: Sequence[JobRecord], waiting_s: NDArray[np.float64]) -> dict[str, Any] | None:
    """Waits in seconds of the jobs of each user or tenant, those with the largest sum first (at most `MOST_WAITERS`).

    ``waiting_s`` is one value a job. None where nobody's name is known, or there are no jobs.
    """
    found = who_of(jobs)
    if found is None:
        return None
    by, names = found
    kinds, owner = np.unique(np.array(names), return_inverse=True)
    count, total_s = np.bincount(owner), np.bincount(owner, waiting_s)
    longest_s = np.zeros(kinds.size)
    np.maximum.at(longest_s, owner, waiting_s)
    order = np.argsort(-total_s, kind="stable")[:MOST_WAITERS]
    return {
        "by": by,
        "count": int(kinds.size),
        "rows": [
            {
                "name": str(kinds[i]),
                "jobs": int(count[i]),
                "queueing_total_s": float(total_s[i]),
                "queueing_mean_s": float(total_s[i] / count[i]),
                "queueing_max_s": float(longest_s[i]),
            }
            for i in order.tolist()
        ],
    }
