"""The state of the full queue layer: tenants, classes, ends by pool, verdicts, who has a reservation.

See `state.State` for what it stands beside. What is listed in `_SAVED` is replaced, never changed in place;
everything else is changed by transactions, which write down how to undo it. Verdicts are knowledge and not state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from operator import attrgetter

from schedmate.scheduler.assumptions import SHORTEST_LIMIT_S, Assumed
from schedmate.scheduler.classes import ClassQueue, Settled
from schedmate.scheduler.cluster import Cluster, Index
from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.disruption import Ledger
from schedmate.scheduler.evictable import Evictable
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.fair_share import FairShare
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.leaning import ends_on, limits_on
from schedmate.scheduler.pending import Entry
from schedmate.scheduler.policies import Policy
from schedmate.scheduler.tenants import Tenant, TenantTree, TenantUse
from schedmate.scheduler.types import Job, Preemption, Reservation
from schedmate.scheduler.verdicts import Verdicts

#: A plan: its slot, and whether it is the guaranteed one.
PlanKey = tuple[int, bool]

#: What a transaction puts back: values that are replaced, never changed in place.
_SAVED = (
    "reserved", "gained", "stale", "moved", "broken", "evicted", "resized", "hurt", "barred", "renewed_s", "void",
    "spared_s", "sought_s", "preemptions", "claimed", "migrated", "ledger", "look_s", "promised", "tentative",
    "due_s", "grow_s", "planned", "turn_s", "unfollowed", "stood", "stand_s", "put_off_s", "ended", "gave_way",
    "went_on",
)  # fmt: skip
_saved: Callable[[object], tuple[object, ...]] = attrgetter(*_SAVED)


@dataclass(slots=True)
class QueueLayer:
    """``ends``, ``limits`` (None without guarantees) and ``verdicts`` by pool; ``leaving`` are backfilled jobs by the
    time at which they must have left. ``use`` and ``fair`` are None without tenants. ``waits`` is a heap of (when it
    has waited too long, sequence, slot), with entries of jobs that no longer wait.

    ``reserved`` are the slots with a reservation, in the order in which they got it. Bits by pool: ``gained`` something
    happened that may let a waiting job start; ``stale`` a job ended otherwise than assumed, plans may move up;
    ``unfollowed`` that or the next was so while too many ran for plans to follow at once;
    ``moved`` an expected end moved, expected plans are void; ``broken`` a higher class took from plans of a lower.
    ``void`` are single plans that do not hold. ``renewed_s``: when the plans of a slot were last made to follow what
    has happened. ``due_s``: when a blocked job becomes due for a reservation. ``looked_at``: what the verdict rests on
    that a slot with a plan can not start; ``asked_back`` the same of what is on loan. ``grow_s``: when a gang may grow
    again. ``hurt``: gangs that run on with fewer replicas since something broke. ``promised``: by slot, the number of
    cycles there had been when its guaranteed start was last told (see `promises`). ``barred``: by tenant and pool, the
    rank of the strict head that is blocked there in this cycle. ``migrated`` are the slots moved in the last cycle,
    ``ledger`` is what moves have cost, ``look_s`` when a job that is to be moved will have saved its state.
    ``evictable`` runs and could make room; ``no_victims``: what it rests on that
    nobody is evicted for a waiting job (see `actions.preempt`); ``spared_s``: when that changes because something has
    run long enough; ``sought_s``: by sequence, when victims were last looked for in vain where many run. ``claimed``:
    slots for which others leave, ``tentative`` those with a tentative plan: they still wait in their lanes; ``stood``
    are those when it was last looked who is to have one, ``stand_s`` when it is next. ``ended``: the number of cycles
    there had been when something last ended; ``put_off_s``: since when plans and victims have been put off for that
    (see `plan.is_rushed`). ``trying`` are probes of the early-failure lane by the time at which they are over;
    ``gave_way`` and ``went_on`` the slots of those of the last cycle by what became of them (see `actions.put_back`).
    ``undone`` counts how often decisions were taken back.
    """

    tree: TenantTree
    use: TenantUse | None
    fair: FairShare | None
    queue: ClassQueue
    ends: list[ExpectedEnds]
    limits: list[ExpectedEnds] | None
    verdicts: list[Verdicts]
    evictable: Evictable
    leaving: ExpectedEnds = field(default_factory=ExpectedEnds)
    trying: ExpectedEnds = field(default_factory=ExpectedEnds)
    waits: list[tuple[float, int, int]] = field(default_factory=list)
    reserved: tuple[int, ...] = ()
    gained: int = 0
    stale: int = 0
    unfollowed: int = 0
    moved: int = 0
    broken: int = 0
    evicted: tuple[int, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    claimed: frozenset[int] = frozenset()
    resized: tuple[int, ...] = ()
    hurt: tuple[int, ...] = ()
    barred: dict[tuple[int, int], float] = field(default_factory=dict)
    standings_s: dict[int, float] = field(default_factory=dict)
    renewed_s: dict[int, float] = field(default_factory=dict)
    void: frozenset[PlanKey] = frozenset()
    looked_at: dict[int, tuple[Settled, ...]] = field(default_factory=dict)
    asked_back: dict[int, tuple[object, ...]] = field(default_factory=dict)
    due_s: float = math.inf
    no_victims: dict[tuple[object, ...], tuple[tuple[object, ...], float]] = field(default_factory=dict)
    spared_s: float = math.inf
    sought_s: dict[int, float] = field(default_factory=dict)
    migrated: tuple[int, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    look_s: float = math.inf
    grow_s: float = math.inf
    promised: dict[int, int] = field(default_factory=dict)
    tentative: frozenset[int] = frozenset()
    undone: int = 0
    planned: int = -1
    turn_s: float = math.inf
    stood: frozenset[int] = frozenset()
    stand_s: float = -math.inf
    put_off_s: float = math.inf
    ended: int = -1
    gave_way: tuple[int, ...] = ()
    went_on: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing has happened that could make the next cycle differ from the last one."""
        return not (self.gained or self.stale or self.moved or self.broken or self.void)

    def saved(self) -> tuple[object, ...]:
        """What a transaction puts back."""
        return _saved(self)

    def put_back(self, saved: tuple[object, ...]) -> None:
        """Undo all changes to what is saved."""
        for name, value in zip(_SAVED, saved, strict=True):
            setattr(self, name, value)
        self.standings_s = {}

    def take_from(self, plan: Reservation, nodes: Container[int]) -> None:
        """Something else will be on ``nodes``: the plan is void if it needs one of them."""
        if any(share[0] in nodes for share in plan.shares):
            self.void |= {(plan.slot, plan.guaranteed)}

    def freed(self, index: Index, pool: int, shares: Shares) -> None:
        """Shares of a pool were given back."""
        self.verdicts[pool].freed(index.free if isinstance(index, FreeIndex) else index.count, shares)


def queue_layer(
    policy: Policy,
    cluster: Cluster,
    live: list[Entry | None],
    shares: list[Shares | None],
    tenants: tuple[Tenant, ...],
) -> QueueLayer:
    """The empty layer; ``live`` and ``shares`` are those of the job table. ``ValueError`` for tenants that do not fit
    the cluster."""
    spec = cluster.spec
    tree = TenantTree(spec, tenants, policy.queueing)
    return QueueLayer(
        tree,
        TenantUse(tree) if tenants else None,
        FairShare(spec, tree, policy.half_life_s) if tenants else None,
        ClassQueue(live, len(spec.pools)),
        [ends_on(index, shares) for index in cluster.pools],
        [limits_on(index, shares) for index in cluster.pools] if policy.guarantees else None,
        [
            Verdicts(pool.gpus_per_node, min((shape.gpus for _, shape in pool.shapes), default=pool.gpus_per_node))
            for pool in spec.pools
        ],
        Evictable(len(spec.pools)),
    )


def assumed_again(full: Assumed, done_s: float, restart_s: float, speed: float = 1.0) -> Assumed:
    """What is assumed of the next run of a job that has saved so much of its work, and runs at ``speed`` at least."""
    limit_s = max(SHORTEST_LIMIT_S, full.limit_s - done_s + restart_s, restart_s)
    ends_s, within_s = (max(0.0, seconds - done_s) / speed + restart_s for seconds in full[:2])
    return Assumed(min(ends_s, limit_s), min(within_s, limit_s), limit_s)


def class_of(policy: Policy, job: Job) -> tuple[float, float]:
    """Rank and shift of the lane of a job, see `QueueLane`."""
    if policy.ageing_s < math.inf:
        return 0.0, job.priority * policy.ageing_s
    return -float(job.priority), 0.0
