"""On which pools a job may ever run: by what it asks for, and by the quota of its tenant."""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.tenants import TenantUse
from schedmate.scheduler.transaction import asked_milli
from schedmate.scheduler.types import Job


def acceptable(cluster: Cluster, job: Job, demand: Demand) -> list[int]:
    """The pools that could hold a job if they were empty, in its order of preference."""
    memory_mib = job.hints.gpu_memory_mib if job.hints is not None else None
    found = [
        pool for of_type in job.gpu_types or (job.gpu_type,) for pool in cluster.pools_for(demand, of_type, memory_mib)
    ]
    return list(dict.fromkeys(found))


def within_quota(cluster: Cluster, empty: TenantUse, tenant: int, demand: Demand, pools: Sequence[int]) -> list[int]:
    """Those of some pools on which quota allows so much if nothing is in use; ``empty`` is the use then."""
    return [pool for pool in pools if empty.bound(tenant, pool, asked_milli(demand, cluster.spec.pools[pool])) < 0]
