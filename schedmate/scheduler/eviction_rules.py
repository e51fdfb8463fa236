"""Who may be evicted so that a waiting job can start, and at what price.

Only a preemptible job that has run long enough, and either of two reasons: *preemption*, it is of a lower class; or
*reclaim*, its tenant has borrowed what the waiting job's tenant is guaranteed. Neither takes a tenant below what it is
guaranteed by giving to others; only its own jobs may do that. A service keeps its least number of replicas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schedmate.scheduler.cluster_types import WHOLE_MILLI
from schedmate.scheduler.evictable import Kind
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import TenantUse
from schedmate.scheduler.transaction import asked_milli, milli_of
from schedmate.scheduler.types import Job


class Candidate(NamedTuple):
    """A running job that may be evicted. ``lost_gpu_s``: GPU time that is lost by it: work since its last checkpoint
    and starting again. ``minus_borrowed``: how far its tenant is above what it is guaranteed, as a part of that.

    Candidates sort by price: least lost, lowest class, tenant that has borrowed most, latest started. That is why two
    of them are negative.
    """

    lost_gpu_s: float
    priority: int
    minus_borrowed: float
    minus_start_s: float
    slot: int
    tenant: int
    milli: int
    gpus: int

    @property
    def price(self) -> tuple[float, ...]:
        """What candidates are compared by, least first; no two are equal."""
        return self[:5]


@dataclass(slots=True)
class Toll:
    """What victims hold: by node of the tenant tree with all below it, by the very tenant, and replicas by service; and
    how many of a tenant are of no lower class than the waiting job, so that there has to be another reason; and by
    number of a `Later`, what would be held then by tenant."""

    milli: dict[int, int] = field(default_factory=dict)
    by_tenant: dict[int, int] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    reclaimed: dict[int, int] = field(default_factory=dict)
    later: dict[int, dict[int, int]] = field(default_factory=dict)


class Later(NamedTuple):
    """A time at which the job still runs and will lack quota unless victims go that would run then: ``ends_s`` of all
    that run by slot, None where nobody's going is counted."""

    use: TenantUse
    start_s: float
    ends_s: Mapping[int, float] | None


class Standing(NamedTuple):
    """Claims that stand: running jobs that are to leave for them, and what will change when they have been taken up:
    milli-GPU by (node of the tenant tree, pool), of that those that become ``less``, and replicas fewer by service."""

    victims: frozenset[int]
    milli: Mapping[tuple[int, int], int]
    less: Mapping[tuple[int, int], int]
    replicas: Mapping[str, int]


class Rules:
    """For the waiting job in ``slot`` on one pool, at ``now``."""

    def __init__(self, state: State, standing: Standing, slot: int, pool: int, now: float) -> None:
        layer = state.layer
        table = state.table
        lane, job = table.queue_lanes[slot], table.jobs[slot]
        if layer is None or lane is None or job is None:
            raise ValueError(f"slot {slot} does not wait in the queue layer")
        self._state, self._layer, self._standing, self._pool, self._now = state, layer, standing, pool, now
        self._tenant, self._priority = lane.tenant, job.priority
        self._path = frozenset(layer.tree.path(lane.tenant))
        self._guaranteed = [of_node[pool] for of_node in layer.tree.guaranteed]
        # What tenants will hold counts for who asks, what they hold meanwhile for those who give.
        self._held: list[int] | None = None
        self._kept: list[int] = []
        if layer.fair is not None:
            held, more, less = [of_node[pool] for of_node in layer.fair.held], standing.milli, standing.less
            self._held = [milli + more.get((node, pool), 0) for node, milli in enumerate(held)]
            self._kept = [milli + less.get((node, pool), 0) for node, milli in enumerate(held)]
        self.milli = asked_milli(table.demands[slot], state.cluster.spec.pools[pool])
        self._lack = 0 if layer.use is None else layer.use.lack(lane.tenant, pool, self.milli)
        # More than it asks for: others are beyond a limit already, and nobody goes to make up for that.
        self._beyond = self._lack > self.milli
        self._later: list[tuple[Later, int]] = []

    def also_then(self, later: Later) -> None:
        """The job has to have quota then as well. To be said before victims are looked for."""
        lack = later.use.lack(self._tenant, self._pool, self.milli)
        self._beyond |= lack > self.milli
        if lack:  # what goes takes none away
            self._later.append((later, lack))

    def _kinds(self) -> list[tuple[Kind, float, float]]:
        """The kinds of running jobs that there is a reason to take from, how far their tenants have borrowed, and the
        most milli-GPU that one of them may hold: a look at counters, without asking any job."""
        path, found = self._layer.tree.path, list[tuple[Kind, float, float]]()
        gpus, reclaims = self._layer.evictable.gpus[self._pool], self._may_reclaim()
        for kind in gpus:
            if kind[1] < self._priority or (reclaims and self._tenant not in path(kind[0])):
                borrowed = self._borrowed(kind[0])
                if borrowed > 0.0:
                    found.append((kind, borrowed, self._left_of(kind[0])))
        most = self._most(found)
        if not self.has_quota(most):
            return []
        return [each for each in found if each[0][1] < self._priority or self._reclaims_from(each[0][0], most)]

    def _most(self, kinds: Sequence[tuple[Kind, float, float]]) -> Toll:
        """No victims of these kinds hold more, whatever is chosen."""
        toll, gpus, path = Toll(), self._layer.evictable.gpus[self._pool], self._layer.tree.path
        left = {kind[0]: most for kind, _, most in kinds}
        for kind, _, _ in kinds:
            toll.by_tenant[kind[0]] = toll.by_tenant.get(kind[0], 0) + gpus[kind] * WHOLE_MILLI
        for tenant, milli in toll.by_tenant.items():
            toll.by_tenant[tenant] = milli = milli if milli < left[tenant] else int(left[tenant])
            for node in path(tenant):
                toll.milli[node] = toll.milli.get(node, 0) + milli
        return toll

    def _left_of(self, tenant: int) -> float:
        """The most milli-GPU that a tenant may lose to the job, by what it and those above it are guaranteed."""
        if self._held is None:
            return math.inf
        path = self._layer.tree.path(tenant)
        return min((self._kept[n] - self._guaranteed[n] for n in path if n not in self._path), default=math.inf)

    def _may_reclaim(self) -> bool:
        """Whether reclaim is possible at all: the job is within what its tenant is guaranteed, or would be without its
        tenant's jobs of lower classes."""
        held, tenant, path = self._held, self._tenant, self._layer.tree.path
        if held is None or not tenant:
            return False
        lower = sum(
            gpus
            for (other, priority), gpus in self._layer.evictable.gpus[self._pool].items()
            if priority < self._priority and tenant in path(other)
        )
        return held[tenant] + self.milli - lower * WHOLE_MILLI <= self._guaranteed[tenant]

    def candidates(self, *, whole: bool = True) -> tuple[list[Candidate], float]:
        """All that may be evicted, least price first, those too that may only shrink unless they are to leave as a
        ``whole``; and when another one has run long enough to be."""
        evictable, pool, again_s = self._layer.evictable, self._pool, math.inf
        found = list[Candidate]()
        for (tenant, priority), borrowed, most in self._kinds():
            slots, from_s = evictable.unprotected(pool, (tenant, priority), self._now)
            again_s = min(again_s, from_s)
            for slot in slots:
                if slot not in self._standing.victims:
                    candidate = self._candidate(slot, tenant, priority, borrowed)
                    if not whole or candidate.milli <= most:
                        found.append(candidate)
        found.sort()
        return found, again_s

    def _candidate(self, slot: int, tenant: int, priority: int, borrowed: float) -> Candidate:
        table = self._state.table
        milli = milli_of(table.demands[slot], table.shares[slot] or ())
        return Candidate(
            lost_gpu_s(self._state, slot, self._now), priority, -borrowed, -table.starts_s[slot], slot, tenant, milli,
            table.gpus[slot],
        )  # fmt: skip

    def _borrowed(self, tenant: int) -> float:
        """Least of what the tenant and those above it use beyond their guarantee, as a part of that; 0 for those that
        may lose nothing to this job, infinite for those from which it takes nothing that is others'."""
        least = math.inf
        if self._held is None:
            return least
        for node in self._layer.tree.path(tenant):
            if node not in self._path:
                own = self._guaranteed[node]
                least = min(least, (self._kept[node] - own) / max(own, WHOLE_MILLI))
        return least

    def allow(self, victims: Iterable[Candidate]) -> bool:
        """Whether exactly these may be evicted for the job: by all rules, and its quota when they have gone."""
        toll, chosen = Toll(), list(victims)
        for each in chosen:
            if not self.may_add(toll, each):
                return False
            self.add(toll, each)
        return self.has_quota(toll) and self.has_reason(toll)

    def toll_of(self, victims: Sequence[Candidate]) -> Toll:
        """What all of these hold: the same as adding them one by one."""
        toll, by_tenant, path = Toll(), dict[int, int](), self._layer.tree.path
        for each in victims:
            by_tenant[each.tenant] = by_tenant.get(each.tenant, 0) + each.milli
            if each.priority >= self._priority:
                toll.reclaimed[each.tenant] = toll.reclaimed.get(each.tenant, 0) + 1
        toll.by_tenant = by_tenant
        for tenant, milli in by_tenant.items():
            for node in path(tenant):
                toll.milli[node] = toll.milli.get(node, 0) + milli
        for i, (later, _) in enumerate(self._later):
            for each in victims if later.ends_s is not None else ():
                if later.ends_s is not None and later.ends_s[each.slot] > later.start_s:
                    then = toll.later.setdefault(i, {})
                    then[each.tenant] = then.get(each.tenant, 0) + each.milli
        for each in victims if self._layer.evictable.replicas else ():
            service = self._job(each).service
            if service is not None:
                toll.replicas[service] = toll.replicas.get(service, 0) + 1
        return toll

    def may_add(self, toll: Toll, victim: Candidate) -> bool:
        """Whether one more victim takes no tenant below its guarantee and no service below its minimum."""
        if self._held is not None:
            for node in self._layer.tree.path(victim.tenant):
                left = self._kept[node] - toll.milli.get(node, 0) - victim.milli
                if node not in self._path and left < self._guaranteed[node]:
                    return False
        job = self._job(victim)
        if job.service is None:
            return True
        leaving = self._standing.replicas.get(job.service, 0) + toll.replicas.get(job.service, 0)
        return self._layer.evictable.replicas.get(job.service, 0) - leaving > job.least_replicas

    def add(self, toll: Toll, victim: Candidate, sign: int = 1) -> None:
        """One more victim, or one less."""
        for node in self._layer.tree.path(victim.tenant):
            toll.milli[node] = toll.milli.get(node, 0) + sign * victim.milli
        toll.by_tenant[victim.tenant] = toll.by_tenant.get(victim.tenant, 0) + sign * victim.milli
        for i, (later, _) in enumerate(self._later):
            if later.ends_s is not None and later.ends_s[victim.slot] > later.start_s:
                then = toll.later.setdefault(i, {})
                then[victim.tenant] = then.get(victim.tenant, 0) + sign * victim.milli
        if victim.priority >= self._priority:
            toll.reclaimed[victim.tenant] = toll.reclaimed.get(victim.tenant, 0) + sign
        service = self._job(victim).service
        if service is not None:
            toll.replicas[service] = toll.replicas.get(service, 0) + sign

    def _job(self, victim: Candidate) -> Job:
        job = self._state.table.jobs[victim.slot]
        if job is None:
            raise ValueError(f"slot {victim.slot} holds no job")
        return job

    def has_reason(self, toll: Toll) -> bool:
        """Whether each victim is of a lower class, or the job is within its guarantee when they have gone."""
        return all(self._reclaims_from(tenant, toll) for tenant, count in toll.reclaimed.items() if count)

    def has_reason_for(self, victim: Candidate, toll: Toll) -> bool:
        """The same of one of them."""
        return victim.priority < self._priority or self._reclaims_from(victim.tenant, toll)

    def _reclaims_from(self, tenant: int, toll: Toll) -> bool:
        """Whether the job's tenant, and those above it as far as they are not above the other one, are within what they
        are guaranteed with the job."""
        held, theirs = self._held, self._layer.tree.path(tenant)
        own = [node for node in self._path if node not in theirs]
        return (
            held is not None
            and bool(own)
            and all(held[node] - toll.milli.get(node, 0) + self.milli <= self._guaranteed[node] for node in own)
        )

    def has_quota(self, toll: Toll) -> bool:
        """Whether the job has quota when the victims have gone, now and as long as it runs. Never where more is lacking
        than it asks for."""
        use = self._layer.use
        if use is None:
            return True
        if self._beyond:
            return False
        if self._lack and not self._allows(use, self._lack, toll.by_tenant):
            return False
        return all(self._allows(each.use, lack, toll.later.get(i, {})) for i, (each, lack) in enumerate(self._later))

    def _allows(self, use: TenantUse, lack: int, gone: Mapping[int, int]) -> bool:
        """Whether the job has the quota that it lacks if tenants use so much less."""
        if sum(gone.values()) < lack:
            return False
        use = use.copy()
        for tenant, milli in gone.items():
            use.charge(tenant, self._pool, -milli)
        return use.bound(self._tenant, self._pool, self.milli) < 0


def lost_gpu_s(state: State, slot: int, now: float) -> float:
    """GPU time that is lost if the running job in ``slot`` is told to leave at ``now``."""
    table = state.table
    job = table.jobs[slot]
    if job is None:
        return 0.0
    gone_s, phase = now + job.grace_s, table.phases.get(slot)
    if phase is not None:  # its work is counted in seconds at full size
        lost_s = phase.work_by(gone_s) - phase.saved_by(job, gone_s, told=True)
        return table.demands[slot].gpus * lost_s + table.gpus[slot] * job.restart_s
    ran_s = table.work_s(slot, gone_s)
    return table.gpus[slot] * (ran_s - job.saved_s(ran_s, told=True) + job.restart_s)
