"""The running jobs that may be evicted, by pool, tenant and priority, with the GPUs they hold: kept as jobs start and
leave, so that whether there is anything to be taken at all is a look at a few numbers."""

from __future__ import annotations

import math
from bisect import bisect_right

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.types import Job

#: Number of a tenant, and priority.
Kind = tuple[int, int]


class Evictable:
    """``gpus[pool]`` are the GPUs held by kind, a part of one as a whole; ``clock[pool]`` counts what could change who
    may be evicted there; ``replicas`` are the running ones of each service."""

    __slots__ = ("_protected", "_slots", "clock", "gpus", "replicas")

    def __init__(self, pools: int) -> None:
        self._slots: list[dict[Kind, dict[int, int]]] = [{} for _ in range(pools)]
        self._protected: list[dict[Kind, ExpectedEnds]] = [{} for _ in range(pools)]
        self.gpus: list[dict[Kind, int]] = [{} for _ in range(pools)]
        self.clock = [0] * pools
        self.replicas: dict[str, int] = {}

    def enter(self, pool: int, slot: int, tenant: int, job: Job, shares: Shares, protected_s: float) -> None:
        """A job runs; it may be told to leave from ``protected_s`` on."""
        gpus = sum(share[1] or (len(share) > 3 and share[3] > 0) for share in shares)
        self.clock[pool] += 1
        if job.service is not None:
            self._count_everywhere()
            self.replicas[job.service] = self.replicas.get(job.service, 0) + 1
        if job.preemptible:
            kind = tenant, job.priority
            self._slots[pool].setdefault(kind, {})[slot] = gpus
            self._protected[pool].setdefault(kind, ExpectedEnds()).add(slot, protected_s)
            self.gpus[pool][kind] = self.gpus[pool].get(kind, 0) + gpus

    def leave(self, pool: int, slot: int, tenant: int, job: Job) -> None:
        """It does not any more."""
        self.clock[pool] += 1
        if job.service is not None:
            self._count_everywhere()
            self.replicas[job.service] -= 1
            if not self.replicas[job.service]:
                del self.replicas[job.service]
        if job.preemptible:
            kind = tenant, job.priority
            slots = self._slots[pool][kind]
            self.gpus[pool][kind] -= slots.pop(slot)
            self._protected[pool][kind].remove(slot)
            if not slots:
                del self._slots[pool][kind], self._protected[pool][kind], self.gpus[pool][kind]

    def _count_everywhere(self) -> None:
        """Replicas of one service on one pool may spare, or not, those on another."""
        self.clock = [clock + 1 for clock in self.clock]

    def unprotected(self, pool: int, kind: Kind, now: float) -> tuple[list[int], float]:
        """Slots of one kind that may be told to leave, and when the next one may be; infinite if there is none."""
        protected = self._protected[pool].get(kind)
        if protected is None:
            return [], math.inf
        order = protected.order
        at = bisect_right(order, (now, math.inf))
        return [slot for _, slot in order[:at]], order[at][0] if at < len(order) else math.inf

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Evictable) or self._slots != other._slots or self.replicas != other.replicas:
            return False
        return self._all_protected() == other._all_protected()

    def _all_protected(self) -> list[dict[Kind, list[tuple[float, int]]]]:
        return [{kind: each.order for kind, each in of_pool.items()} for of_pool in self._protected]

    __hash__ = None  # type: ignore[assignment]
