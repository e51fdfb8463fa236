"""What the core takes and returns. Times are seconds on the caller's clock; sizes are whole GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from schedmate.scheduler.cluster_types import Shares, Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.tenants import TenantUse

#: Kinds of jobs.
KINDS = ("training", "service", "interactive")

#: Classes are compared as floats, which tell whole numbers apart up to here.
MOST_PRIORITY = 1 << 53


@dataclass(frozen=True, slots=True)
class Hints:
    """What was predicted about a job: untrusted input, never a promise.

    ``expected_s`` is the median of the runtime until it ends for whatever reason, and ``high_s`` the quantile at
    ``confidence``; both None where nothing is known of it. ``gpu_memory_mib`` is what each GPU will be made to hold,
    ``utilization`` (0..1) how busy it will be, ``failure_probability`` that of ending badly, ``fails_early`` that of
    doing so within ``early_s`` seconds. ``source`` names who said so. ``ValueError`` for amounts that can not be.
    """

    expected_s: float | None = None
    high_s: float | None = None
    source: str = ""
    confidence: float = 0.9
    gpu_memory_mib: float | None = None
    utilization: float | None = None
    failure_probability: float | None = None
    fails_early: float | None = None
    early_s: float = 300.0

    def __post_init__(self) -> None:
        if (self.expected_s is None) != (self.high_s is None):
            raise ValueError("a hint has both expected_s and high_s or neither")
        shares = (self.confidence, self.utilization, self.failure_probability, self.fails_early)
        if not all(share is None or 0 <= share <= 1 for share in shares):
            raise ValueError("confidence, utilization, failure_probability and fails_early of a hint are from 0 to 1")
        if not 0 < self.early_s < math.inf:
            raise ValueError(f"a hint of failing within {self.early_s} s")
        if self.gpu_memory_mib is not None and not 0 <= self.gpu_memory_mib < math.inf:
            raise ValueError(f"a hint of {self.gpu_memory_mib} MiB of GPU memory")
        if self.expected_s is None or self.high_s is None:
            return
        if not (self.expected_s >= 0 and self.high_s >= self.expected_s and math.isfinite(self.high_s)):
            raise ValueError("a hint needs finite seconds with 0 <= expected_s <= high_s")


@dataclass(frozen=True, slots=True)
class Job:
    """A gang of ``gpus`` GPUs that starts whole or not at all, as the scheduler sees it.

    ``estimate_s`` is the stated runtime (the user's, or whatever the replay puts in its place); ``limit_s`` the hard
    limit at which the job is ended, None without one; ``gpu_type`` the name of the only acceptable pool, None for
    any. The true runtime is not here and nowhere else in this package.

    Parameters
    ----------
    gpu_types : acceptable pools in order of preference, where there are several.
    demand : what is asked for beyond packed GPUs; ``gpus`` is then its number of whole GPUs.
    tenant : name of a node of the tenant tree; None for a job that belongs to nobody.
    priority : class, higher first. kind : see `KINDS`; each replica of a service is submitted as a job of its own.
    preemptible : may be evicted; it then starts anew with what it had saved, after ``restart_s`` of starting up.
    checkpoint_s : it saves its state so often. grace_s : it does so as well, within this, when told to leave.
    min_run_s : once started it is not evicted before.
    repairable : a rigid gang that can go on from its last checkpoint with other GPUs in place of those that broke.
    scaling : an elastic gang with a share f of its replicas runs at ``f ** scaling`` of its full speed (see `elastic`).
    account : whose use of GPUs counts for and against it, for policies with `Factors`; no tenant.
    hint_tenant : by whose newcomers hints are judged while the account is new; for clusters without a tenant tree, as
        ``tenant`` says it where there is one.
    service : the jobs of one name are replicas of one service; ``least_replicas`` of those that run are not evicted.
    """

    job_id: str
    gpus: int
    submit_s: float
    estimate_s: float | None = None
    limit_s: float | None = None
    gpu_type: str | None = None
    hints: Hints | None = None
    tenant: str | None = None
    priority: int = 0
    kind: str = "training"
    preemptible: bool = False
    checkpoint_s: float | None = None
    grace_s: float = 0.0
    restart_s: float = 0.0
    min_run_s: float = 0.0
    gpu_types: tuple[str, ...] = ()
    demand: Demand | None = None
    scaling: float = 1.0
    repairable: bool = False
    service: str | None = None
    least_replicas: int = 0
    account: str | None = None
    hint_tenant: str | None = None

    def __post_init__(self) -> None:
        if self.gpus < 1 and self.demand is None:
            raise ValueError(f"job {self.job_id!r} asks for {self.gpus} GPUs")
        if self.demand is not None and self.gpus != self.demand.gpus:
            raise ValueError(f"job {self.job_id!r} has {self.gpus} GPUs, its demand {self.demand.gpus}")
        if self.kind not in KINDS:
            raise ValueError(f"job {self.job_id!r} is of kind {self.kind!r}; there are {', '.join(KINDS)}")
        if not -MOST_PRIORITY <= self.priority <= MOST_PRIORITY:
            raise ValueError(f"job {self.job_id!r} has a priority beyond {MOST_PRIORITY}")
        if not -math.inf < self.submit_s < math.inf:
            raise ValueError(f"job {self.job_id!r} is submitted at {self.submit_s} s")
        for what, seconds in (("estimate", self.estimate_s), ("limit", self.limit_s)):
            if seconds is not None and not seconds >= 0:
                raise ValueError(f"job {self.job_id!r} has a {what} of {seconds} s")
        if self.checkpoint_s is not None and not 0 < self.checkpoint_s < math.inf:
            raise ValueError(f"job {self.job_id!r} saves its state every {self.checkpoint_s} s")
        if not (0 <= self.grace_s < math.inf and 0 <= self.restart_s < math.inf and self.min_run_s >= 0):
            raise ValueError(f"job {self.job_id!r} has a negative or endless grace, restart or minimum run time")
        if self.least_replicas < 0:
            raise ValueError(f"job {self.job_id!r} keeps {self.least_replicas} replicas of its service")
        if not 0 <= self.scaling <= 1:
            raise ValueError(f"job {self.job_id!r} has a scaling of {self.scaling}, which is not from 0 to 1")

    def saved_s(self, ran_s: float, told: bool) -> float:
        """How much of a run of ``ran_s`` is not lost when the job has to leave then; ``told`` so its grace before."""
        periodic_s = ran_s // self.checkpoint_s * self.checkpoint_s if self.checkpoint_s is not None else 0.0
        return max(periodic_s, ran_s - self.grace_s) if told and self.grace_s else periodic_s


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job is: the pool, and per node (index inside the pool) the GPUs taken there."""

    pool: str
    shares: Shares

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes used, in the order they were chosen."""
        return tuple(dict.fromkeys(share[0] for share in self.shares))

    @property
    def gpus(self) -> int:
        """GPUs used over all nodes."""
        return sum(share[1] for share in self.shares)


class Victim(NamedTuple):
    """A running job that is to leave for another one: its slot, place in the order of submission and number of
    evictions, which tell this run from any later one in that slot; ``left_s``: when it had to leave anyway, infinite if
    not at all."""

    slot: int
    sequence: int
    evictions: int
    left_s: float


class Preemption(NamedTuple):
    """What was decided for the job in ``slot``: the jobs in ``victims`` leave, and it starts at ``start_s``."""

    slot: int
    victims: tuple[int, ...]
    start_s: float


@dataclass(frozen=True, slots=True)
class Reservation:
    """A start planned for the blocked job in ``slot``: when (the shadow time) and on which GPUs of pool ``pool``.

    ``spare`` gives, for each reserved node, what the plan leaves unused there at the shadow time.
    ``guaranteed``: the plan rests on hard limits alone, and only jobs whose hard limit keeps it may pass. Otherwise the
    start is *expected* and moves when a job outlives what was assumed of it. ``locked``: of nobody else's end is
    anything known for sure, and the job has waited too long: its nodes fill with nothing that could stay.
    Until ``end_s`` the GPUs are the job's in the plan. ``use`` is what the tenants use at the start, with this job;
    None without tenants. With ``victims`` the plan is a *claim*: they have left by its start, and nobody takes what
    they leave, nor moves the plan. ``tentative``: only the jobs that stand behind its own keep away from it, see
    `actions.stand_by`.
    """

    slot: int
    pool: int
    start_s: float
    shares: Shares
    spare: Spare
    guaranteed: bool
    end_s: float = math.inf
    locked: bool = False
    use: TenantUse | None = None
    victims: tuple[Victim, ...] = ()
    tentative: bool = False
    _origin: Reservation | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def origin(self) -> Reservation:
        """What this plan was when it was made; since then it has only come to leave less, see `sparing`."""
        return self if self._origin is None else self._origin

    def sparing(self, spare: Spare, use: TenantUse | None) -> Reservation:
        """The same plan with less left; a start makes one of every plan beside it, so not by `replace`, which takes
        five times as long, and makes a new plan."""
        found = Reservation(
            self.slot, self.pool, self.start_s, self.shares, spare, self.guaranteed, self.end_s, self.locked, use,
            self.victims, self.tentative,
        )  # fmt: skip
        object.__setattr__(found, "_origin", self.origin)
        return found


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided about one job at ``at_s`` and why, in words."""

    job_id: str
    verdict: str
    at_s: float
    reason: str
    placement: Placement | None = None
    expected_start_s: float | None = None
    guaranteed_start_s: float | None = None
