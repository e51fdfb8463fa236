"""A program that lives through one run with a journal, and goes on with it where it was killed: ``JOURNAL EVENTS``."""

from __future__ import annotations

import sys
from pathlib import Path

from schedmate.scheduler import POLICIES, ClusterSpec, Job, Quota, Scheduler, Tenant
from schedmate.scheduler.cluster_types import Health, NodeShape, PoolSpec
from schedmate.scheduler.events import CycleRan, Ended, Event, NodeChanged, Submitted
from schedmate.scheduler.journal import Header, Journal, Journaled

HEADER = Header(
    ClusterSpec((PoolSpec.detailed("p", ((4, NodeShape(8)),)),)),
    POLICIES["core"],
    (Tenant("a", {"p": Quota(16)}), Tenant("b", {"p": Quota(16)})),
)


def event(number: int, scheduler: Scheduler) -> Event:
    """What happens next; it depends on nothing else."""
    now, table = float(number), scheduler.state.table
    running = [job.job_id for slot in table.running() if (job := table.jobs[slot]) is not None]
    if number % 4 == 3:
        return CycleRan(now)
    if number % 4 == 2 and len(running) > 4:
        return Ended(now, running[number % len(running)])
    if number % 97 == 0:
        return NodeChanged(now, "p", number % 4, Health.DOWN if number % 2 else Health.HEALTHY)
    tenant, priority = "ab"[number % 2], number % 3
    return Submitted(
        now,
        Job(f"j{number}", 1 + number % 16, now, limit_s=50.0, tenant=tenant, priority=priority, preemptible=True),
    )


def live(path: Path, events: int) -> Journaled:
    """Until there are so many events in the journal."""
    journaled = Journaled(Journal(path, HEADER))
    for number in range(len(journaled.journal.events), events):
        journaled.apply(event(number, journaled.scheduler))
    return journaled


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]))
