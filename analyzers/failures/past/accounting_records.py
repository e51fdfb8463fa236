"""What the scheduler's accounting says of jobs that nobody diagnosed: who ran where and whether it ended well.

Without the jobs that ended well nobody can say whether three failures on a node are many.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from analyzers.failures.accounting import JobRow
from analyzers.failures.past.record import work_of
from analyzers.types import Category, FailureRecord

#: An end that is later than this from now is a mistake of the file, and would make all others look old.
CLOCKS_DIFFER_S = 86_400.0
_STATES: dict[str, tuple[Category, str, bool | None]] = {
    "COMPLETED": ("none", "none", None),
    "FAILED": ("unknown", "not-diagnosed", None),
    "TIMEOUT": ("scheduler-or-preemption", "time-limit", False),
    "DEADLINE": ("scheduler-or-preemption", "time-limit", False),
    "PREEMPTED": ("scheduler-or-preemption", "preemption", True),
    "CANCELLED": ("scheduler-or-preemption", "user-cancel", False),
    "OUT_OF_MEMORY": ("resource-request", "host-oom", False),
    "NODE_FAIL": ("infrastructure-hardware", "node-lost", True),
    "BOOT_FAIL": ("infrastructure-hardware", "node-lost", True),
}


def records_of_rows(rows: Iterable[JobRow]) -> Iterator[FailureRecord]:
    """The records of jobs that ended and ran somewhere; others (pending, running, no nodes) are left out.

    A job of one node that the scheduler lost proves it against that node; of several, it does not say which.
    """
    latest = time.time() + CLOCKS_DIFFER_S
    for row in rows:
        known = _STATES.get(row.state)
        if known is None or row.end is None or not row.nodes or row.end.timestamp() > latest:
            continue
        category, subcategory, retryable = known
        lost = subcategory == "node-lost" and len(row.nodes) == 1
        yield FailureRecord(
            job_id=row.job_id,
            at_s=row.end.timestamp(),
            category=category,
            subcategory=subcategory,
            user=row.user,
            work=work_of(row.name),
            nodes=row.nodes,
            nodes_told=True,
            culprits=row.nodes if lost else (),
            retryable=retryable,
            node_fault=subcategory == "node-lost",
        )
