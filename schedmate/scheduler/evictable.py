"""The running jobs that may be evicted, by pool, tenant and priority, with the GPUs they hold: kept as jobs start and
leave, so that whether there is anything to be taken at all is a look at a few numbers."""

from __future__ import annotations

from collections.abc import Iterator

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.types import Job

#: Number of a tenant, and priority.
Kind = tuple[int, int]


class Evictable:
    """``gpus[pool]`` are the GPUs held by kind, a part of one as a whole; ``clock[pool]`` counts what could change who
    may be evicted there; ``replicas`` are the running ones of each service."""

    __slots__ = ("_slots", "clock", "gpus", "replicas")

    def __init__(self, pools: int) -> None:
        self._slots: list[dict[Kind, dict[int, int]]] = [{} for _ in range(pools)]
        self.gpus: list[dict[Kind, int]] = [{} for _ in range(pools)]
        self.clock = [0] * pools
        self.replicas: dict[str, int] = {}

    def enter(self, pool: int, slot: int, tenant: int, job: Job, shares: Shares) -> None:
        """A job runs."""
        gpus = sum(share[1] or (len(share) > 3 and share[3] > 0) for share in shares)
        self.clock[pool] += 1
        if job.service is not None:
            self.replicas[job.service] = self.replicas.get(job.service, 0) + 1
        if job.preemptible:
            kind = tenant, job.priority
            self._slots[pool].setdefault(kind, {})[slot] = gpus
            self.gpus[pool][kind] = self.gpus[pool].get(kind, 0) + gpus

    def leave(self, pool: int, slot: int, tenant: int, job: Job) -> None:
        """It does not any more."""
        self.clock[pool] += 1
        if job.service is not None:
            self.replicas[job.service] -= 1
            if not self.replicas[job.service]:
                del self.replicas[job.service]
        if job.preemptible:
            kind = tenant, job.priority
            slots = self._slots[pool][kind]
            self.gpus[pool][kind] -= slots.pop(slot)
            if not slots:
                del self._slots[pool][kind], self.gpus[pool][kind]

    def slots(self, pool: int, kind: Kind) -> Iterator[int]:
        """Slots of one kind, in no order."""
        return iter(self._slots[pool].get(kind, ()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Evictable) and self._slots == other._slots and self.replicas == other.replicas

    __hash__ = None  # type: ignore[assignment]
