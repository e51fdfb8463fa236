"""Where a job waits: jobs that ask for the same and belong to the same class stand in one lane."""

from __future__ import annotations

from schedmate.scheduler.classes import QueueLane
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.eligible import acceptable, within_quota
from schedmate.scheduler.pending import Lane
from schedmate.scheduler.queue_layer import QueueLayer, class_of
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import TenantUse
from schedmate.scheduler.transaction import asked_milli
from schedmate.scheduler.types import Job


class Unschedulable(ValueError):  # noqa: N818
    """No pool could ever hold the job; the text says why."""


class OverQuota(Unschedulable):
    """The quota of its tenant could never hold the job."""


class Lanes:
    """Finds lanes, and remembers them by what was asked for."""

    __slots__ = ("_layered", "_plain", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._plain: dict[tuple[int, str | None], tuple[Lane, Demand]] = {}
        self._layered: dict[tuple[object, ...], tuple[QueueLane, Demand]] = {}

    def forget(self) -> None:
        """The tenants are others."""
        self._layered.clear()

    def of(self, job: Job) -> tuple[Lane | None, QueueLane | None, Demand]:
        """Where a job would wait, without the full queue layer or with it, and what it asks for. `Unschedulable` as for
        `Scheduler.submit`."""
        if self._state.layer is None:
            lane, demand = self.plain(job)
            return lane, None, demand
        queue_lane, demand = self.layered(self._state.layer, job)
        return None, queue_lane, demand

    def plain(self, job: Job) -> tuple[Lane, Demand]:
        """The lane of a job without the full queue layer."""
        if job.demand is not None or job.priority or job.tenant is not None or job.gpu_types:
            self._refuse_what_is_ignored(job)
        return self._plain.get((job.gpus, job.gpu_type)) or self._plain_for(job)

    def layered(self, layer: QueueLayer, job: Job) -> tuple[QueueLane, Demand]:
        """The lane of a job in the full queue layer."""
        memory_mib = job.hints.gpu_memory_mib if job.hints is not None else None
        key = (job.gpus, job.gpu_type, job.gpu_types, job.demand, job.tenant, job.priority, memory_mib)
        return self._layered.get(key) or self._layered_for(layer, job, key)

    def _refuse_what_is_ignored(self, job: Job) -> None:
        """A job of the plain queue has a size, a GPU type, and times; it must not believe that more is looked at."""
        more = {
            "a demand with conditions or roles": job.demand is not None and not job.demand.is_plain,
            "a priority class": job.priority and not (self._state.policy.factors and self._state.policy.factors.qos),
            "a tenant": job.tenant is not None,
            "several GPU types": job.gpu_types,
        }
        asked = [words for words, given in more.items() if given]
        if asked:
            raise Unschedulable(
                f"job {job.job_id} has {' and '.join(asked)}, which policy {self._state.policy.name} does not look at: "
                "take core, or Policy.with_queue_layer()"
            )

    def _plain_for(self, job: Job) -> tuple[Lane, Demand]:
        cluster, demand = self._state.cluster, Demand.plain(job.gpus)
        pools = cluster.pools_for(demand, job.gpu_type)
        if not pools:
            if job.gpu_type is not None and job.gpu_type not in cluster.by_name:
                raise Unschedulable(f"job {job.job_id} asks for GPUs of type {job.gpu_type}, which no pool has")
            largest = max(p.gpus for p in cluster.spec.pools if job.gpu_type in (None, p.name))
            raise Unschedulable(f"job {job.job_id} asks for {job.gpus} GPUs, the largest pool has {largest}")
        found = self._plain[job.gpus, job.gpu_type] = self._state.queue.lane(pools), demand
        return found

    def _layered_for(self, layer: QueueLayer, job: Job, key: tuple[object, ...]) -> tuple[QueueLane, Demand]:
        cluster, demand, tree = self._state.cluster, job.demand or Demand.plain(job.gpus), layer.tree
        tenant = tree.numbers.get(job.tenant or "")
        if tenant is None:
            raise Unschedulable(f"job {job.job_id} belongs to tenant {job.tenant}, which is not known")
        found = acceptable(cluster, job, demand)
        if not found:
            raise Unschedulable(f"job {job.job_id} {self._why_never(demand, job.gpu_types or (job.gpu_type,))}")
        empty = TenantUse(tree)
        allowed = found if layer.use is None else within_quota(cluster, empty, tenant, demand, found)
        if not allowed:
            milli = asked_milli(demand, cluster.spec.pools[found[0]])
            raise OverQuota(f"job {job.job_id}: {empty.why_not(tenant, found[0], milli)}, it can never start")
        lane = layer.queue.lane(tenant, *class_of(self._state.policy, job), tuple(allowed))
        self._layered[key] = lane, demand
        return lane, demand

    def _why_never(self, demand: Demand, types: tuple[str | None, ...]) -> str:
        cluster = self._state.cluster
        wanted = [i for i, pool in enumerate(cluster.spec.pools) if None in types or pool.name in types]
        if not wanted:
            return f"asks for GPUs of type {' or '.join(map(str, types))}, which no pool has"
        return "; ".join(dict.fromkeys(cluster.why_never(demand, pool) for pool in wanted))
