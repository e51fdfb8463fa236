"""The scheduler: jobs come and end, a cycle decides what starts now. Time comes from outside."""

from __future__ import annotations

import gc
import math
from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush

from schedmate.scheduler.actions import Action
from schedmate.scheduler.actions.admit import admit, settle
from schedmate.scheduler.actions.age import age
from schedmate.scheduler.actions.allocate import allocate
from schedmate.scheduler.actions.backfill import backfill
from schedmate.scheduler.actions.defragment import defragment
from schedmate.scheduler.actions.evict import evict
from schedmate.scheduler.actions.fill import fill
from schedmate.scheduler.actions.give_back import give_back
from schedmate.scheduler.actions.grow import grow
from schedmate.scheduler.actions.pass_by import pass_by
from schedmate.scheduler.actions.plan import plan
from schedmate.scheduler.actions.preempt import preempt
from schedmate.scheduler.actions.prioritise import prioritise
from schedmate.scheduler.actions.put_back import put_back
from schedmate.scheduler.actions.rerank import rerank
from schedmate.scheduler.actions.reserve import reserve
from schedmate.scheduler.actions.stand_by import stand_by
from schedmate.scheduler.applying import Book, apply
from schedmate.scheduler.changes import change_hints, change_tenants
from schedmate.scheduler.claims import SHORTEST_SPAN_S
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec, Health
from schedmate.scheduler.early_lane import EarlyLane
from schedmate.scheduler.elastic import slowest
from schedmate.scheduler.events import Effect, Event
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.explain import Explanation, explain
from schedmate.scheduler.factors import Accounts
from schedmate.scheduler.faults import MOST_FAULTS, mend, repair_or_release, struck
from schedmate.scheduler.gate import Gate
from schedmate.scheduler.hearing import Hearing
from schedmate.scheduler.lanes import Lanes
from schedmate.scheduler.outlook import Outlook
from schedmate.scheduler.pending import PendingQueue
from schedmate.scheduler.placement import why_not
from schedmate.scheduler.placement.choices import rule_named
from schedmate.scheduler.policies import Policy
from schedmate.scheduler.promises import is_told
from schedmate.scheduler.queue_layer import QueueLayer, assumed_again, queue_layer
from schedmate.scheduler.reasons import why_waiting
from schedmate.scheduler.state import JobTable, State
from schedmate.scheduler.tenants import Tenant
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Decision, Hints, Job, Placement, Preemption, Reservation


class Scheduler:
    """One cluster under one policy.

    Call `submit` and `end` as things happen, then `cycle`; ends that happen at the same time as submissions come
    first. Jobs are known by the slot that `submit` returns; a slot is used again after its job has ended.
    """

    def __init__(self, spec: ClusterSpec, policy: Policy, tenants: Sequence[Tenant] = ()) -> None:
        """``tenants`` are the top of the tenant tree; with them, or with moves of running jobs, any policy has the full
        queue layer. ``ValueError`` for tenants that do not fit the cluster."""
        if tenants or policy.defragment is not None:
            policy = policy.with_queue_layer()
        table, cluster = JobTable(), Cluster(spec)
        table.passing = table.live if policy.backfill_by is None else []
        layered = policy.reservations is not None
        plans = (policy.reserve_from is not None or policy.patience is not None) and not layered
        self.state = State(
            policy,
            cluster,
            table,
            PendingQueue(table.live, plans or policy.ranking is not None, policy.patience is not None, table.passing),
            place=rule_named(policy.placement),
            ends=ExpectedEnds() if plans else None,
            limits=ExpectedEnds() if policy.guarantees and not layered else None,
            accounts=Accounts(policy.factors.half_life_s) if policy.factors is not None else None,
            layer=queue_layer(policy, cluster, table.live, table.shares, tuple(tenants)) if layered else None,
            early=EarlyLane(policy.early, policy.min_run_s) if policy.early is not None else None,
        )
        self.transaction = Transaction(self.state)
        if layered:
            takes: tuple[Action, ...] = (preempt,) if policy.preempts else ()
            moves = () if policy.defragment is None else (defragment,)
            tries = () if policy.early is None else (put_back,)
            waits = () if policy.patience is None else (stand_by,)
            self.actions: tuple[Action, ...] = (
                age, evict, mend, plan, admit, give_back, *takes, plan, fill, *tries, *moves, *waits, settle, grow,
            )  # fmt: skip
        elif policy.patience is not None:
            self.actions = (pass_by,)
        elif policy.ranking is not None:
            self.actions = (rerank,)
        else:
            first = () if policy.factors is None else (prioritise,)
            self.actions = (*first, allocate, reserve, backfill) if plans else (allocate,)
        self.lanes = Lanes(self.state)
        self.hearing = Hearing(self.state) if policy.gated else None
        self._sequence = 0
        self._last_s = self._idle_until_s = -math.inf
        self._book: Book | None = None
        #: Gangs that went on with other GPUs after the last call about health.
        self.repaired: tuple[int, ...] = ()

    def submit(self, job: Job) -> int:
        """Queue a job and return its slot. Raises `Unschedulable` when even an empty cluster could not hold it, or when
        it asks for what only policies with the full queue layer know."""
        if self.hearing is None:
            return self._submit(job)
        slot = self._submit(self.hearing.believed(job))
        self.hearing.enter(slot, job)
        return slot

    def _submit(self, job: Job) -> int:
        state = self.state
        if state.layer is not None:
            return self._submit_layered(state.layer, job)
        lane, demand = self.lanes.plain(job)
        table, policy, factors = state.table, state.policy, state.policy.factors
        slot = table.slot()
        if factors is None:
            key = policy.order(job, state.cluster.spec.gpus)
        else:
            if state.accounts is not None:
                state.accounts.enter(job.account or "", job.submit_s)
            key = -factors.priority(job, state.standing, state.cluster.spec.gpus, job.submit_s)
        entry = (key, self._sequence, slot)
        self._sequence += 1
        table.jobs[slot] = job
        table.demands[slot] = demand
        table.gpus[slot] = job.gpus
        table.lanes[slot] = lane
        table.assumed[slot] = policy.assume(job)
        table.pools[slot] = -1
        if table.evictions[slot]:
            table.evictions[slot], table.done_s[slot], table.served_s[slot] = 0, 0.0, 0.0
        state.enqueue(slot, entry)
        state.fresh.append(slot)
        return slot

    def _submit_layered(self, layer: QueueLayer, job: Job) -> int:
        state, policy = self.state, self.state.policy
        lane, demand = self.lanes.layered(layer, job)
        if state.cluster.outlook is not None:
            state.cluster.outlook.observe(demand)
        table = state.table
        slot = table.slot()
        in_order = job if state.early is None else state.early.enter(slot, job)
        entry = (policy.order(in_order, state.cluster.spec.gpus), self._sequence, slot)
        self._sequence += 1
        table.jobs[slot] = job
        table.demands[slot] = demand
        table.gpus[slot] = demand.gpus
        table.queue_lanes[slot] = lane
        table.assumed[slot] = policy.assume(job)
        if demand.elastic:
            table.assumed[slot] = assumed_again(table.assumed[slot], 0.0, 0.0, slowest(job, demand))
        table.pools[slot] = -1
        table.done_s[slot] = table.served_s[slot] = 0.0
        table.evictions[slot] = table.preemptions[slot] = 0
        table.since[slot] = state.cycles
        state.enqueue(slot, entry)
        state.fresh.append(slot)
        if policy.starvation_bound_s < math.inf:
            heappush(layer.waits, (job.submit_s + policy.starvation_bound_s, entry[1], slot))
        return slot

    @property
    def outlook(self) -> Outlook | None:
        """What was learned of the jobs to come from those submitted; None where all pools are known by counts only."""
        return self.state.cluster.outlook

    def recall(self, outlook: Outlook) -> None:
        """Go on with what an earlier scheduler of this cluster had learned, in place of what was learned from the jobs
        submitted so far. It is the one part of the state that what runs and waits does not tell: call this when they
        have been submitted again after a restart. ``ValueError`` where all pools are known by counts only."""
        if self.state.cluster.outlook is None:
            raise ValueError("pools that are known by counts only learn nothing of the jobs to come")
        self.state.cluster.outlook.recall(outlook)

    def told(self, slot: int) -> Job:
        """The job in ``slot`` as it was submitted, with the hints that were last given, believed or not. ``ValueError``
        if the slot holds no job."""
        job = self.state.table.present(slot)
        return job if self.hearing is None else self.hearing.told(slot, job)

    @property
    def gate(self) -> Gate | None:
        """How the hints of each source about each owner have turned out; None under policies that are not gated."""
        return None if self.hearing is None else self.hearing.gate

    def recall_gate(self, gate: Gate) -> None:
        """Go on with what an earlier scheduler had found out about hints: call this after a restart, before the jobs
        are submitted again. ``ValueError`` under policies that are not gated."""
        if self.hearing is None:
            raise ValueError(f"policy {self.state.policy.name} is not gated: nothing is found out about hints")
        self.hearing.gate.recall(gate)

    def explain(self, slot: int, now: float | None = None) -> Explanation:
        """Why the job in ``slot`` waits, when it starts, what would start it sooner; ``now`` None is the time of the
        last cycle. ``ValueError`` if the slot holds no job."""
        return explain(self, slot, self._last_s if now is None else now)

    def withdraw(self, slot: int) -> None:
        """The waiting job in ``slot`` was taken back by its user. ``ValueError`` if it does not wait."""
        live = self.state.table.live
        if not 0 <= slot < len(live) or live[slot] is None:
            raise ValueError(f"slot {slot} does not wait")
        transaction = self.transaction
        transaction.begin()
        transaction.withdraw(slot)
        transaction.commit()
        if self.state.early is not None:
            self.state.early.leave(slot)
        if self.hearing is not None:
            self.hearing.leave(slot)

    def evict(self, slot: int, now: float) -> None:
        """Take a running job off its GPUs and let it wait again at the head of its class, with the work that it has
        saved; it was told to leave its grace ago. ``ValueError`` if it does not run."""
        transaction, table = self.transaction, self.state.table
        self._check_runs(slot)
        transaction.begin()
        table.since[slot] = self.state.cycles
        transaction.evict(slot, now, table.saved_s(slot, now, told=True))
        transaction.commit()

    def apply(self, event: Event) -> Effect:
        """Let an event of `events` happen; what it led to. ``ValueError`` for one that can not be (a job that is not
        there, a node that there is not, `Unschedulable`): then nothing has changed."""
        if self._book is None:
            self._book = Book(self)
        return apply(self, self._book, event)

    def update_hints(self, slot: int, hints: Hints | None, now: float) -> None:
        """What is predicted of the waiting or running job in ``slot`` has changed."""
        if self.hearing is not None:
            hints = self.hearing.changed(slot, hints)
        change_hints(self.state, slot, hints, now)

    def set_tenants(self, tenants: Sequence[Tenant], now: float) -> None:
        """Another tenant tree, see `changes.change_tenants`."""
        change_tenants(self.state, tenants, now)
        self.lanes.forget()

    def set_node_health(self, pool: str, node: int, health: Health, now: float) -> list[int]:
        """A node is cordoned, drained, lost or comes back; returns the slots of the jobs that have lost their GPUs and
        wait again at the head of their class; `repaired` are those that go on with others. ``ValueError`` for nodes
        that there are not and pools known by counts only."""
        cluster = self.state.cluster
        number = cluster.number_of(pool, node)
        cluster.set_health(number, node, health)
        return self._strike(number, node, -1 if health is Health.DOWN else 0, now)

    def set_device_health(self, pool: str, node: int, device: int, healthy: bool, now: float) -> list[int]:
        """A single GPU breaks or is repaired; otherwise as `set_node_health`."""
        cluster = self.state.cluster
        number = cluster.number_of(pool, node, device)
        cluster.set_bad(number, node, device, not healthy)
        return self._strike(number, node, 0 if healthy else 1 << device, now)

    def suspect(self, pool: str, node: int, now: float, weight: float = 1.0) -> None:
        """Something points at a node, so it counts as ``weight`` faults; see `faults`. ``ValueError`` for a node that
        there is not, and a weight that is negative or beyond `MOST_FAULTS`."""
        if not 0 <= weight <= MOST_FAULTS:
            raise ValueError(f"a node is suspected by {weight} faults; give a number from 0 to {MOST_FAULTS:g}")
        number = self.state.cluster.number_of(pool, node)
        self.state.cluster.note_fault(number, node, weight, now, self.state.policy.suspect_half_life_s)

    def _strike(self, pool: int, node: int, devices: int, now: float) -> list[int]:
        """The condition of a node has changed, and ``devices`` (-1: all that it has) are lost by it."""
        state, lost, repaired = self.state, list[int](), list[int]()
        if devices:
            state.cluster.note_fault(pool, node, 1.0, now, state.policy.suspect_half_life_s)
            self.transaction.begin()
            slots = struck(state, pool, node, devices)
            lost, repaired = repair_or_release(state, self.transaction, slots, node, devices, now)
            self.transaction.commit()
        self.repaired = tuple(repaired)
        self._changed(pool)
        return lost

    def _changed(self, pool: int) -> None:
        """What a pool offers has changed: nothing that was found out about it holds."""
        state, layer = self.state, self.state.layer
        state.stale = state.gained = True
        if layer is not None:
            layer.broken |= 1 << pool
            layer.gained |= 1 << pool
            layer.verdicts[pool].freed_somewhere()

    @property
    def evicted(self) -> tuple[int, ...]:
        """The slots evicted since the last cycle began, in order; they wait again."""
        return self.state.layer.evicted if self.state.layer is not None else self.state.evicted

    @property
    def preemptions(self) -> tuple[Preemption, ...]:
        """What was decided in the last cycle about jobs that make room for others. Those without grace are among the
        evicted; the others are told in time and evicted when the other job starts, unless that gives up."""
        return self.state.layer.preemptions if self.state.layer is not None else ()

    @property
    def migrated(self) -> tuple[int, ...]:
        """The slots that the last cycle moved: they are both in `evicted` and among those started, and run on their
        new place from their last checkpoint."""
        return self.state.layer.migrated if self.state.layer is not None else ()

    @property
    def put_back(self) -> tuple[int, ...]:
        """The slots, among those in `evicted`, of jobs that the last cycle put back because they were tried early and
        have not failed; see `early_lane`."""
        return self.state.layer.gave_way if self.state.layer is not None else ()

    @property
    def resized(self) -> tuple[int, ...]:
        """The slots of elastic gangs whose size has changed since the last cycle began; `decision` says to what."""
        return self.state.layer.resized if self.state.layer is not None else ()

    def told_to_leave(self, now: float) -> list[tuple[int, float]]:
        """Running jobs that are to save their state now, and when they will be evicted: its grace before that."""
        layer, jobs = self.state.layer, self.state.table.jobs
        if layer is None:
            return []
        return [(s, by_s) for by_s, s in layer.leaving.order if (job := jobs[s]) and by_s - job.grace_s <= now]

    def end(self, slot: int, now: float) -> None:
        """The job in ``slot`` has ended, for whatever reason. ``ValueError`` if it does not run."""
        self._check_runs(slot)
        if self.hearing is not None:
            self.hearing.end(slot, now)
        if self.state.early is not None:
            self._end_early(self.state.early, slot)
        transaction = self.transaction
        transaction.begin()
        transaction.stop(slot, now)
        transaction.commit()
        if self.state.layer is not None:
            self.state.layer.ended = self.state.cycles

    def _end_early(self, early: EarlyLane, slot: int) -> None:
        layer = self.state.layer
        if layer is not None and slot in layer.trying.ends_s:
            early.over(slot)
        early.leave(slot)
        early.ended(self.state.table.present(slot))

    def _check_runs(self, slot: int) -> None:
        shares = self.state.table.shares
        if not 0 <= slot < len(shares) or shares[slot] is None:
            raise ValueError(f"slot {slot} is not running")

    def cycle(self, now: float) -> list[int]:
        """Decide what starts at ``now``; returns the slots started, in the order of the decisions. ``ValueError`` for a
        time that is not finite.

        The garbage collector, where it is on, is kept out of it: a full pass would make a decision take several times
        as long. It makes up for that between two cycles, as soon as the caller makes something new.
        """
        if not -math.inf < now < math.inf:
            raise ValueError(f"a cycle at {now} s")
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._cycle(now)
        finally:
            if collects:
                gc.enable()

    def _cycle(self, now: float) -> list[int]:
        layer = self.state.layer
        if self.hearing is not None:
            self.hearing.settle(now)
        if layer is not None and now < self._idle_until_s and layer.is_idle and not self.state.fresh:
            self._last_s, layer.evicted, layer.resized = now, (), ()
            layer.migrated = layer.gave_way = layer.went_on = ()
            layer.preemptions = ()
            return []
        self._last_s = now
        transaction = self.transaction
        transaction.begin()
        for action in self.actions:
            action(self.state, transaction, now)
        started = transaction.commit()
        self.state.cycles += 1
        if layer is not None and self.state.early is not None:
            for slot in layer.gave_way:
                self.state.early.in_vain(slot)
            for slot in layer.went_on:
                self.state.early.leave(slot)
        if layer is not None:
            # Who was evicted waits at the head of its class, and no head was looked at after that.
            self._idle_until_s = now if layer.evicted else min(layer.due_s, self._layered_wake_s(layer))
        return started

    @property
    def wake_s(self) -> float:
        """When the next cycle is due even if nothing is submitted or ends: a plan then meets a job that has outlived
        what was assumed of it. Always after the last cycle; infinite when no plan waits."""
        state = self.state
        if state.layer is not None:
            return self._layered_wake_s(state.layer)
        if state.ends is None or not state.reservations:
            return state.rank_s
        return min(state.rank_s, next((end_s for end_s, _ in state.ends.order if end_s > self._last_s), math.inf))

    def _layered_wake_s(self, layer: QueueLayer) -> float:
        last_s, table, planned = self._last_s, self.state.table, self.state.reservations
        while layer.waits and table.live[layer.waits[0][2]] is None:
            heappop(layer.waits)
        times = [layer.spared_s, layer.grow_s, layer.look_s, layer.turn_s]
        times += [by_s for by_s, _ in (*layer.leaving.order[:1], *layer.trying.order[:1])]
        times += [at_s for at_s, _, _ in layer.waits[:1]]
        for pool, plans in planned.items():  # a job with a guaranteed plan starts by that one
            order = layer.ends[pool].order
            following = bisect_right(order, (last_s, math.inf))
            times += [end_s for end_s, _ in order[following : following + 1]]
            if following:  # of no length, and started just now
                times.append(last_s + SHORTEST_SPAN_S)
            sure = {each.slot for each in plans if each.guaranteed}
            times += [each.start_s for each in plans if each.guaranteed or each.slot not in sure]
        return min([at_s for at_s in times if at_s > last_s], default=math.inf)

    def decision(self, slot: int, now: float | None = None) -> Decision:
        """What was decided about the job in ``slot``, and why, in words; ``now`` None is the time of the last cycle."""
        state, table = self.state, self.state.table
        now = self._last_s if now is None else now
        job = table.present(slot)
        shares = table.shares[slot]
        if shares is not None:
            pool = state.cluster.spec.pools[table.pools[slot]].name
            return Decision(job.job_id, "started", table.starts_s[slot], table.reasons[slot], Placement(pool, shares))
        plans = tuple(
            plan
            for plans in state.reservations.values()
            for plan in plans
            if plan.slot == slot and (state.layer is None or not plan.guaranteed or is_told(state, plan))
        )
        if plans and plans[0].tentative:
            return Decision(job.job_id, "waiting", now, self._why_waiting(slot, job), expected_start_s=plans[0].start_s)
        if plans:
            return self._reserved(job, plans, now)
        return Decision(job.job_id, "waiting", now, self._why_waiting(slot, job))

    def _reserved(self, job: Job, plans: tuple[Reservation, ...], now: float) -> Decision:
        cluster, first = self.state.cluster, plans[0]
        pool = cluster.spec.pools[first.pool]
        if self.state.layer is not None:
            words = [why_waiting(self.state, self.transaction, first.slot, self._last_s)]
        else:
            words = [why_not(pool, cluster.pools[first.pool], self.state.table.demands[first.slot])]
        words += [f"start {'guaranteed' if p.guaranteed else 'expected'} by {p.start_s:.0f} s" for p in plans]
        starts = {plan.guaranteed: plan.start_s for plan in plans}
        where = Placement(pool.name, first.shares)
        return Decision(job.job_id, "reserved", now, "; ".join(words), where, starts.get(False), starts.get(True))

    def _why_waiting(self, slot: int, job: Job) -> str:
        state = self.state
        if state.layer is not None:
            return why_waiting(state, self.transaction, slot, self._last_s)
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
