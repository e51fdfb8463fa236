"""The scheduler: jobs come and end, a cycle decides what starts now. Time comes from outside."""

from __future__ import annotations

import math

from schedmate.scheduler.actions import Action
from schedmate.scheduler.actions.allocate import allocate
from schedmate.scheduler.actions.backfill import backfill
from schedmate.scheduler.actions.reserve import reserve
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.pending import Lane, PendingQueue
from schedmate.scheduler.placement import why_not
from schedmate.scheduler.policies import Policy
from schedmate.scheduler.state import JobTable, State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Decision, Job, Placement, Reservation


class Unschedulable(ValueError):  # noqa: N818
    """No pool could ever hold the job; the text says why."""


class Scheduler:
    """One cluster under one policy.

    Call `submit` and `end` as things happen, then `cycle`; ends that happen at the same time as submissions come
    first. Jobs are known by the slot that `submit` returns; a slot is used again after its job has ended.
    """

    def __init__(self, spec: ClusterSpec, policy: Policy) -> None:
        table = JobTable()
        plans = policy.reserve_from is not None
        self.state = State(
            policy,
            Cluster(spec),
            table,
            PendingQueue(table.live, sized=plans),
            ends=ExpectedEnds() if plans else None,
            limits=ExpectedEnds() if policy.guarantees else None,
        )
        self.transaction = Transaction(self.state)
        self._actions: tuple[Action, ...] = (allocate, reserve, backfill) if plans else (allocate,)
        self._lanes: dict[tuple[int, str | None], tuple[Lane, Demand]] = {}
        self._sequence = 0
        self._last_s = -math.inf

    def submit(self, job: Job) -> int:
        """Queue a job and return its slot. Raises `Unschedulable` when even an empty cluster could not hold it."""
        state = self.state
        lane, demand = self._lanes.get((job.gpus, job.gpu_type)) or self._lane_for(job)
        table, policy = state.table, state.policy
        slot = table.slot()
        entry = (policy.order(job, state.cluster.spec.gpus), self._sequence, slot)
        self._sequence += 1
        table.jobs[slot] = job
        table.demands[slot] = demand
        table.gpus[slot] = job.gpus
        table.lanes[slot] = lane
        table.assumed[slot] = policy.assume(job)
        table.pools[slot] = -1
        state.enqueue(slot, entry)
        state.fresh.append(slot)
        return slot

    def end(self, slot: int, now: float) -> None:
        """The job in ``slot`` has ended, for whatever reason."""
        transaction = self.transaction
        transaction.begin()
        transaction.stop(slot, now)
        transaction.commit()

    def cycle(self, now: float) -> list[int]:
        """Decide what starts at ``now``; returns the slots started, in the order of the decisions."""
        self._last_s = now
        transaction = self.transaction
        transaction.begin()
        for action in self._actions:
            action(self.state, transaction, now)
        return transaction.commit()

    @property
    def wake_s(self) -> float:
        """When the next cycle is due even if nothing is submitted or ends: a plan then meets a job that has outlived
        what was assumed of it. Always after the last cycle; infinite when no plan waits."""
        state = self.state
        if state.ends is None or not state.reservations:
            return math.inf
        return next((end_s for end_s, _ in state.ends.order if end_s > self._last_s), math.inf)

    def decision(self, slot: int, now: float) -> Decision:
        """What was decided about the job in ``slot``, and why, in words."""
        state, table = self.state, self.state.table
        job = table.jobs[slot]
        if job is None:
            raise ValueError(f"slot {slot} holds no job")
        shares = table.shares[slot]
        if shares is not None:
            pool = state.cluster.spec.pools[table.pools[slot]].name
            return Decision(job.job_id, "started", table.starts_s[slot], table.reasons[slot], Placement(pool, shares))
        plans = next((plans for plans in state.reservations.values() if plans[0].slot == slot), ())
        if plans:
            return self._reserved(job, plans, now)
        return Decision(job.job_id, "waiting", now, self._why_waiting(slot, job))

    def _reserved(self, job: Job, plans: tuple[Reservation, ...], now: float) -> Decision:
        cluster, first = self.state.cluster, plans[0]
        pool = cluster.spec.pools[first.pool]
        words = [why_not(pool, cluster.pools[first.pool], self.state.table.demands[first.slot])]
        words += [f"start {'guaranteed' if p.guaranteed else 'expected'} by {p.start_s:.0f} s" for p in plans]
        starts = {plan.guaranteed: plan.start_s for plan in plans}
        where = Placement(pool.name, first.shares)
        return Decision(job.job_id, "reserved", now, "; ".join(words), where, starts.get(False), starts.get(True))

    def _why_waiting(self, slot: int, job: Job) -> str:
        state = self.state
        cluster, lane, demand = state.cluster, state.table.lanes[slot], state.table.demands[slot]
        reasons = []
        for pool in lane.pools if lane is not None else ():
            if state.place(cluster.pools[pool], demand) is None:
                reasons.append(why_not(cluster.spec.pools[pool], cluster.pools[pool], demand))
        head = state.table.jobs[state.blocked[0]] if state.blocked and state.blocked[0] != slot else None
        if head is not None and lane is not None and len(reasons) < len(lane.pools):
            behind = "would delay the reserved start of" if state.reservations else "stands behind"
            reasons.append(f"{behind} job {head.job_id}")
        return "; ".join(reasons) or "no cycle has run since it was submitted"

    def _lane_for(self, job: Job) -> tuple[Lane, Demand]:
        cluster, demand = self.state.cluster, Demand.plain(job.gpus)
        pools = cluster.pools_for(demand, job.gpu_type)
        if not pools:
            if job.gpu_type is not None and job.gpu_type not in cluster.by_name:
                raise Unschedulable(f"job {job.job_id} asks for GPUs of type {job.gpu_type}, which no pool has")
            largest = max(p.gpus for p in cluster.spec.pools if job.gpu_type in (None, p.name))
            raise Unschedulable(f"job {job.job_id} asks for {job.gpus} GPUs, the largest pool has {largest}")
        found = self._lanes[job.gpus, job.gpu_type] = self.state.queue.lane(pools), demand
        return found
