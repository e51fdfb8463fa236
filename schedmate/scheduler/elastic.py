"""Elastic gangs: how many replicas run, and how much work gets done meanwhile.

Runtimes, estimates and saved work of an elastic gang are seconds *at its full size*. With a share f of its replicas it
runs at ``f ** Job.scaling`` of its full speed. A change of size loses no work (the replicas that stay have the state)
but costs ``Job.restart_s`` of standing still. A hard limit is wall time of the run, whatever the size; of earlier runs
it counts the work that was kept, as for every job.
"""

from __future__ import annotations

from typing import NamedTuple

from schedmate.scheduler.cluster_types import DeviceShare, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.types import Job


class Phase(NamedTuple):
    """A stretch of a run at one size: from ``since_s`` on, at ``speed`` (1 is full), after ``still_s`` of standing.

    ``work_s`` is what the run had done before, in seconds at full size. ``own`` are the replicas by role with which the
    run began: what it has grown by since is on loan.
    """

    since_s: float
    work_s: float
    still_s: float
    speed: float
    own: tuple[int, ...]

    def work_by(self, now: float) -> float:
        """What the run has done by then."""
        return self.work_s + self.speed * max(0.0, now - self.since_s - self.still_s)

    def saved_by(self, job: Job, now: float, told: bool) -> float:
        """What of it is not lost if the job has to leave then; ``told`` so its grace before."""
        return self.work_s + self.speed * job.saved_s(max(0.0, now - self.since_s - self.still_s), told)

    def done_at(self, work_s: float) -> float:
        """When the run will have done so much if its size stays."""
        return self.since_s + self.still_s + max(0.0, work_s - self.work_s) / self.speed


def counts(demand: Demand, shares: Shares) -> tuple[int, ...]:
    """Replicas by role; empty for a demand without roles."""
    found = [0] * len(demand.roles)
    if found:
        for share in shares:
            if isinstance(share, DeviceShare):
                found[share.role] += share.replicas
    return tuple(found)


def minimum(demand: Demand) -> tuple[int, ...]:
    """The replicas by role without which the gang does not run."""
    return tuple(role.least_replicas for role in demand.roles)


def full(demand: Demand) -> tuple[int, ...]:
    """The replicas by role at full size."""
    return tuple(role.replicas for role in demand.roles)


def speed(job: Job, demand: Demand, replicas: tuple[int, ...]) -> float:
    """How fast the gang runs with so many replicas by role, 1 at full size. Only roles with GPUs count, where there are
    any; without a single one of these it still crawls."""
    if not demand.roles:
        return 1.0
    working = [i for i, r in enumerate(demand.roles) if r.gpus or r.milli_gpu or r.profile] or range(len(replicas))
    whole = sum(demand.roles[i].replicas for i in working)
    part = max(1, sum(replicas[i] for i in working))
    return float((part / whole) ** job.scaling) if part < whole else 1.0


def slowest(job: Job, demand: Demand) -> float:
    """The speed at which the gang runs with its least replicas; 1 if it is not elastic."""
    return speed(job, demand, minimum(demand)) if demand.elastic else 1.0
