"""Everything a scheduling cycle works on: the cluster, the jobs in their slots, the queue, what is reserved.

A job keeps one slot (a small integer) from submission to end; the lists of `JobTable` are indexed by it, and slots
are used again, so memory follows the jobs that are present and not those that ever were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from schedmate.scheduler.assumptions import Assumed
from schedmate.scheduler.classes import ClassQueue, QueueLane
from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.early_lane import EarlyLane
from schedmate.scheduler.elastic import Phase
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.factors import NO_STANDING, Accounts, Standing
from schedmate.scheduler.pending import Entry, Lane, PendingQueue
from schedmate.scheduler.placement import PlacementRule, place
from schedmate.scheduler.policies import FIRST_S, Policy
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.types import Job, Reservation

_NOTHING_ASSUMED = Assumed(0.0, 0.0, 0.0)
_NOTHING_ASKED = Demand.plain(1)


class JobTable:
    """Jobs by slot. A slot waits while ``live`` holds its queue entry and runs while ``shares`` is not None.

    ``done_s`` is the work saved in earlier runs, ``served_s`` what was worked in them, ``evictions`` their number,
    ``preemptions`` how many of these made room for another job; ``since`` is the number of cycles there had been when
    the job came into its class. ``passing`` is ``live`` in the order in which jobs pass a blocked one; the same list
    where that is the order of the queue. The full queue layer has ``queue_lanes`` in place of ``lanes``. ``phases`` are
    those of the running elastic jobs, by slot.
    """

    __slots__ = (
        "assumed",
        "demands",
        "done_s",
        "entries",
        "evictions",
        "free",
        "gpus",
        "jobs",
        "lanes",
        "live",
        "passing",
        "phases",
        "pools",
        "preemptions",
        "queue_lanes",
        "reasons",
        "served_s",
        "shares",
        "since",
        "starts_s",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs: list[Job | None] = []
        self.demands: list[Demand] = []
        self.gpus: list[int] = []
        self.lanes: list[Lane | None] = []
        self.entries: list[Entry] = []
        self.live: list[Entry | None] = []
        self.passing = self.live
        self.assumed: list[Assumed] = []
        self.starts_s: list[float] = []
        self.pools: list[int] = []
        self.shares: list[Shares | None] = []
        self.reasons: list[str] = []
        self.queue_lanes: list[QueueLane | None] = []
        self.done_s: list[float] = []
        self.served_s: list[float] = []
        self.evictions: list[int] = []
        self.preemptions: list[int] = []
        self.since: list[int] = []
        self.free: list[int] = []
        self.phases: dict[int, Phase] = {}

    def present(self, slot: int) -> Job:
        """The job in a slot. ``ValueError`` if there is none."""
        job = self.jobs[slot] if 0 <= slot < len(self.jobs) else None
        if job is None:
            raise ValueError(f"slot {slot} holds no job")
        return job

    def slot(self) -> int:
        """A free slot; its lists hold leftovers until they are set."""
        if self.free:
            return self.free.pop()
        slot = len(self.jobs)
        self.jobs.append(None)
        self.demands.append(_NOTHING_ASKED)
        self.gpus.append(0)
        self.lanes.append(None)
        self.entries.append((0.0, 0, slot))
        self.live.append(None)
        if self.passing is not self.live:
            self.passing.append(None)
        self.assumed.append(_NOTHING_ASSUMED)
        self.starts_s.append(0.0)
        self.pools.append(-1)
        self.shares.append(None)
        self.reasons.append("")
        self.queue_lanes.append(None)
        self.done_s.append(0.0)
        self.served_s.append(0.0)
        self.evictions.append(0)
        self.preemptions.append(0)
        self.since.append(0)
        return slot

    def work_s(self, slot: int, now: float) -> float:
        """What the running job in ``slot`` has worked in this run, without the time that starting again took; of an
        elastic one in seconds at full size."""
        phase = self.phases.get(slot)
        return phase.work_by(now) if phase is not None else max(0.0, now - self.starts_s[slot] - self.still_s(slot))

    def saved_s(self, slot: int, now: float, told: bool) -> float:
        """What of that is not lost if the job has to leave now; ``told`` so its grace before."""
        job, phase = self.jobs[slot], self.phases.get(slot)
        if job is None:
            return 0.0
        return job.saved_s(self.work_s(slot, now), told) if phase is None else phase.saved_by(job, now, told)

    def done_at(self, slot: int, work_s: float) -> float:
        """When the running job in ``slot`` will have done so much in all of its runs together, if its size stays."""
        phase, left_s = self.phases.get(slot), max(0.0, work_s - self.done_s[slot])
        return phase.done_at(left_s) if phase is not None else self.starts_s[slot] + self.still_s(slot) + left_s

    def still_s(self, slot: int) -> float:
        """How long the run of a job begins without work: it takes its time to start again."""
        job = self.jobs[slot]
        return job.restart_s if job is not None and self.evictions[slot] else 0.0

    def running(self) -> list[int]:
        """Slots of the running jobs."""
        return [slot for slot, shares in enumerate(self.shares) if shares is not None]


@dataclass(slots=True)
class State:
    """What the actions of a cycle share.

    ``ends`` are the running jobs by expected end and ``limits`` by hard limit; None for policies that plan nothing with
    them. ``blocked`` are the heads that could not start in this cycle, in order, and ``reserved_for`` those for which
    ``reservations`` (by pool number; all of them bind) were made; ``stale`` says that a job ended or overran
    against what they assume. ``fresh`` are the slots submitted since the last cycle; ``gained`` says that something
    happened since then that may let an older waiting job start. The lists and dictionaries are replaced, never changed
    in place, so that a transaction can put them back. ``layer`` is there for policies with the full queue layer, which
    keeps the queue and the ends in it, ``early`` for those with the early-failure lane. ``cycles`` is how many there
    have been.

    Of policies with a `Ranking`: ``evicted`` since the last cycle began, and ``rank_s``, when the rank of a running job
    gets worse. Of those with `Factors`: ``accounts``, what they have used, ``standing``, how that counts at present,
    and ``rank_s``, when that is worked out again.
    """

    policy: Policy
    cluster: Cluster
    table: JobTable
    queue: PendingQueue
    ends: ExpectedEnds | None
    limits: ExpectedEnds | None
    place: PlacementRule = place
    reservations: dict[int, tuple[Reservation, ...]] = field(default_factory=dict)
    reserved_for: list[int] = field(default_factory=list)
    blocked: list[int] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    stale: bool = False
    gained: bool = False
    evicted: tuple[int, ...] = ()
    rank_s: float = math.inf
    accounts: Accounts | None = None
    standing: Standing = NO_STANDING
    layer: QueueLayer | None = None
    early: EarlyLane | None = None
    cycles: int = 0

    def enqueue(self, slot: int, entry: Entry) -> None:
        """Let the job in ``slot`` wait, at the place that ``entry`` gives it."""
        table = self.table
        if self.layer is not None:
            table.entries[slot] = table.live[slot] = entry
            self._await(slot)
            queue_lane = table.queue_lanes[slot]
            if queue_lane is not None and slot not in self.layer.queue.reserved:
                self.add_to_lane(self.layer.queue, queue_lane, slot)
            return
        lane = table.lanes[slot]
        if lane is None:
            raise ValueError(f"slot {slot} has no lane")
        table.entries[slot] = table.live[slot] = passing = entry
        patience, backfill_by, job = self.policy.patience, self.policy.backfill_by, table.jobs[slot]
        if backfill_by is not None and job is not None:
            passing = table.passing[slot] = (backfill_by(job, self.cluster.spec.gpus), entry[1], slot)
        self.queue.add(lane, entry, table.demands[slot], table.assumed[slot], passing)
        self._await(slot)
        if patience is not None and job is not None:
            self.queue.ripens(entry, job.submit_s + patience.after_s)

    def _await(self, slot: int) -> None:
        if self.queue.backlog is not None:
            self.queue.backlog.add(slot, self.table.assumed[slot].ends_s * self.table.gpus[slot])

    def add_to_lane(self, queue: ClassQueue, lane: QueueLane, slot: int) -> None:
        """Let the job in ``slot``, which waits without a reservation, stand in a lane of the full queue layer."""
        table, patience = self.table, self.policy.patience
        entry, job = table.entries[slot], table.jobs[slot]
        queue.add(lane, entry, table.demands[slot])
        lane.latest = max(lane.latest, table.since[slot])
        if patience is not None and job is not None and entry[0] > FIRST_S:
            queue.ripens(lane, entry, job.submit_s + patience.after_s)

    def dequeue(self, slot: int) -> None:
        """The job in ``slot`` does not wait any more."""
        self.table.live[slot] = self.table.passing[slot] = None
        if self.queue.backlog is not None:
            self.queue.backlog.drop(slot)
