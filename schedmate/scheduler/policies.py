"""Policies as data: an order of the queue, what is assumed about runtimes, and when a blocked head gets a reservation.

An order is a function ``(job, cluster_gpus) -> seconds``, computed once at submission; smaller goes first, ties go by
submission. For assumptions and corrections see `assumptions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from schedmate.scheduler.assumptions import (
    Assumption,
    Correction,
    by_bounds,
    doubled,
    expected,
    predicted,
    stated,
)
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.early_lane import Early
from schedmate.scheduler.factors import Factors
from schedmate.scheduler.ranking import Rank, Ranking, attained, remaining, remaining_area
from schedmate.scheduler.tenants import Queueing
from schedmate.scheduler.types import Job

#: How much later than itself a job of any size may see others submitted and still let them pass: a day, because what
#: piles up on a cluster by day is worked off by night.
LONGEST_GRACE_S = 24 * 3600.0

#: A job that is expected to take this many seconds of the whole cluster gets half of that grace.
HALF_GRACE_S = 600.0


#: In the order of a queue: jobs with this, or less, go before all others of their tenant and class.
FIRST_S = -LONGEST_GRACE_S

#: A job lets others pass for so many times its own expected run at most. On a synthetic mix of a cluster of 8,000 GPUs
#: gangs of more than 512 waited 211 min with it and 364 min without, those of up to 512 GPUs 59 and 41 min.
PATIENCE = 2.0


#: The name of a policy that is gated ends in this.
GATED = "+gate"

#: The name of a policy with the early-failure lane ends in this, before `GATED`.
WITH_EARLY = "+early"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long larger jobs let smaller ones pass, see `actions.pass_by`; in the full queue layer `actions.stand_by`.

    Parameters
    ----------
    plans : so many blocked jobs of those that have waited for ``after_s`` seconds have a tentative plan at a time; in
        the full queue layer, on each pool.
    promoted : so many go before all others at a time: who has waited, or by its tentative plan would wait, longer than
        its bound. In the full queue layer `Policy.reservations` says how many do on each pool.
    backlogs : that bound is ``after_s`` and this many times as long as the whole cluster takes for all that waits at
        that moment ...
    longest_s : ... but not more than this, if that is more than ``after_s``.
    """

    plans: int = 3
    after_s: float = 4 * 3600.0
    promoted: int = 4
    backlogs: float = 6.0
    longest_s: float = 24 * 3600.0

    def bound_s(self, backlog_s: float) -> float:
        """How long a job may wait if the whole cluster takes ``backlog_s`` for all that waits."""
        return max(self.after_s, min(self.longest_s, self.after_s + self.backlogs * backlog_s))


Order = Callable[[Job, int], float]

DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Policy:
    """``correct``: what is expected of a job that outlives that. ``reserve_from`` says from when a blocked head of the
    queue gets a reservation, beside which later jobs are backfilled; None for a strict head, behind which nothing
    starts. ``guarantees``: a second reservation is made from hard limits alone wherever they suffice, and it binds as
    well. ``patience``: who has waited for long is planned for as `Patience` says; without the full queue layer in place
    of ``reserve_from``, with it beside that. ``needs_estimates``: it has no meaning for jobs without ``estimate_s``;
    ``needs_users``: nor for a trace that does not say whose its jobs are. ``ranking`` stands in place of
    ``reserve_from`` as well: running jobs are evicted for waiting ones that rank before them, see `actions.rerank`;
    ``order`` is then the rank of a job that has not run yet. ``factors`` stand in place of ``order``. ``backfill_by``:
    those who pass a blocked head do so in this order; None for that of the queue. It needs ``reserve_from`` and goes
    with none of the others.

    With ``reservations`` the policy has the full queue layer: priority classes, tenants, several reservations. The rest
    below is for it alone.

    Parameters
    ----------
    reservations : how many blocked jobs of each pool get one; infinite for all of them (conservative backfill).
    queueing : of tenants that do not say otherwise, see `tenants.Queueing`.
    fair_share_s : seconds of waiting that a tenant's use of the whole cluster, divided by its weight, sets it back.
    half_life_s : use counts half as much after this time.
    ageing_s : waiting this long lifts a job by one priority class; infinite where classes never mix.
    starvation_bound_s : a job that waits longer goes before all others, whatever their class, and gets a reservation.
    resize_every_s : an elastic gang grows into idle capacity no sooner than this after it started or was resized;
        infinite where gangs never grow.
    suspect_half_life_s : the faults of a node count half as much after this time, see `faults`.
    confidence : a hint counts as reason to let a preemptible job pass if its ``high_s`` holds with this probability.
    gated : hints are believed of whom they have proved to be worth it, see `gate`. It holds for every policy that looks
        at hints.
    placement : where jobs go, see `placement.choices`. It holds for every policy.
    defragment : running jobs are moved within this budget; None to leave them where they are.
    preempts : preemptible jobs are evicted for jobs of a higher class, and for what a tenant is guaranteed.
    min_run_s : no job is evicted for another one before it has run so long, nor before its own ``min_run_s``.
    early : jobs that may well fail within minutes are tried first, see `early_lane`; None where they are not.
    most_preemptions : a job that was evicted so often for others is spared until it has run ``spared_s`` at a stretch.
    """

    name: str
    title: str
    order: Order
    assume: Assumption
    correct: Correction = doubled
    reserve_from: Order | None = None
    backfill_by: Order | None = None
    patience: Patience | None = None
    ranking: Ranking | None = None
    factors: Factors | None = None
    guarantees: bool = False
    needs_estimates: bool = False
    needs_users: bool = False
    reservations: float | None = None
    queueing: Queueing = Queueing.BACKFILL
    fair_share_s: float = 30 * DAY_S
    half_life_s: float = DAY_S
    ageing_s: float = math.inf
    starvation_bound_s: float = math.inf
    resize_every_s: float = math.inf
    suspect_half_life_s: float = DAY_S
    confidence: float = 0.9
    preempts: bool = False
    min_run_s: float = 0.0
    most_preemptions: int = 3
    spared_s: float = 4 * 3600.0
    placement: str = "e-binpack"
    defragment: Disruption | None = None
    gated: bool = False
    early: Early | None = None

    def __post_init__(self) -> None:
        if self.ranking is not None and (
            self.reservations is not None or self.patience is not None or self.reserve_from
        ):
            raise ValueError(f"policy {self.name} has a ranking, so it plans nothing")
        if self.factors is not None and (self.reservations is not None or self.patience is not None or self.ranking):
            raise ValueError(f"policy {self.name} has factors, so its order is theirs")
        if self.backfill_by is not None and (
            self.reserve_from is None or self.reservations is not None or self.patience is not None or self.factors
        ):
            raise ValueError(f"policy {self.name} has an order of backfill of its own, which needs a plain queue")
        if self.preempts and (self.reservations is None or self.starts_by_plan):
            raise ValueError(f"policy {self.name} can not evict for others: nothing starts before what is planned")
        if self.ageing_s < math.inf and self.order in (by_estimate, by_area, by_grace):
            raise ValueError(f"policy {self.name} can not let jobs age: its order does not look at how long they wait")
        if self.gated and self.assume is not expected:
            raise ValueError(f"policy {self.name} can not be gated: it does not look at hints")
        if self.early is not None and (self.reservations is None or self.starts_by_plan or self.assume is not expected):
            raise ValueError(f"policy {self.name} can not try jobs early: it has no queue layer, or looks at no hints")
        if self.patience is not None and self.starts_by_plan:
            raise ValueError(f"policy {self.name} has a plan for everybody: nobody has to be patient for one")

    @property
    def starts_by_plan(self) -> bool:
        """Whether every blocked job has a plan and all are of one kind: then a job starts when its plan begins."""
        return self.reservations == math.inf and not self.guarantees

    @property
    def knows_tenants(self) -> bool:
        """Whether it has the full queue layer, or there is a `with_queue_layer` of it."""
        return self.reservations is not None or (
            self.patience is None and self.ranking is None and self.factors is None and self.backfill_by is None
        )

    def with_gate(self) -> Policy:
        """This policy, believing hints of those only who have proved to be worth it; its name ends in `GATED`.
        ``ValueError`` if it looks at no hints."""
        return self if self.gated else replace(self, name=self.name + GATED, gated=True)

    def with_early(self, rules: Early = Early()) -> Policy:
        """This policy with the early-failure lane; its name has `WITH_EARLY` in it. ``ValueError`` if it has no full
        queue layer or looks at no hints."""
        if self.early is not None:
            return self
        base = self.name.removesuffix(GATED)
        return replace(self, name=base + WITH_EARLY + GATED * self.gated, early=rules)

    def with_queue_layer(self) -> Policy:
        """This policy with the full queue layer; the same one if it has it. ``ValueError`` with `Patience`, a
        `Ranking`, `Factors` or an order of backfill of its own."""
        if self.reservations is not None:
            return self
        if not self.knows_tenants:
            raise ValueError(f"policy {self.name} knows no tenants and no moves of running jobs; core does")
        if self.reserve_from is None:
            return replace(self, reservations=1, queueing=Queueing.STRICT, reserve_from=at_once)
        return replace(self, reservations=1)


def by_submission(job: Job, cluster_gpus: int) -> float:
    """First in, first out."""
    return job.submit_s


def by_estimate(job: Job, cluster_gpus: int) -> float:
    """Shortest estimate first; jobs without one last."""
    return math.inf if job.estimate_s is None else job.estimate_s


def by_area(job: Job, cluster_gpus: int) -> float:
    """Smallest expected GPU time first, in GPU seconds."""
    return expected(job).ends_s * job.gpus


def by_stated_area(job: Job, cluster_gpus: int) -> float:
    """Smallest GPU time first, in GPU seconds, by the estimate; jobs without one last."""
    return by_estimate(job, cluster_gpus) * job.gpus


def alike(job: Job, cluster_gpus: int) -> float:
    """All are alike: first in, first out."""
    return 0.0


def at_once(job: Job, cluster_gpus: int) -> float:
    """The head is reserved for as soon as it is blocked."""
    return -math.inf


def never(job: Job, cluster_gpus: int) -> float:
    """No head is reserved for."""
    return math.inf


def by_grace(job: Job, cluster_gpus: int) -> float:
    """Smallest expected GPU time first, on a scale of seconds up to `LONGEST_GRACE_S`, as tenants are set back by
    seconds too."""
    area_s = expected(job).ends_s * job.gpus / cluster_gpus
    return LONGEST_GRACE_S * area_s / (area_s + HALF_GRACE_S)


def by_due_time(job: Job, cluster_gpus: int) -> float:
    """When a job is due: submission plus a grace that grows with the GPU time it is expected to take.

    Small jobs are due soon and go first; a large one lets others pass for a bounded time, `LONGEST_GRACE_S`, and no
    longer. A hint, however wrong or hostile, can not move a job by more than that.
    """
    return job.submit_s + by_grace(job, cluster_gpus)


def by_patience(job: Job, cluster_gpus: int) -> float:
    """`by_due_time`, but nobody is made to let others pass for longer than `PATIENCE` times what it is expected to run.

    Wide gangs would otherwise stand back for most of a day on the largest clusters, too.
    """
    return min(by_due_time(job, cluster_gpus), job.submit_s + PATIENCE * expected(job).ends_s)


def by_prediction(job: Job, cluster_gpus: int) -> float:
    """Shortest first, as `predicted` has it."""
    return predicted(job).within_s


#: By name, so that a policy can be written down.
FUNCTIONS: Mapping[str, Order | Assumption | Correction | Rank] = {
    each.__name__: each
    for each in (
        by_submission,
        by_estimate,
        by_area,
        at_once,
        never,
        by_grace,
        by_due_time,
        by_patience,
        by_stated_area,
        alike,
        stated,
        expected,
        predicted,
        by_prediction,
        doubled,
        by_bounds,
        remaining,
        remaining_area,
        attained,
    )
}

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("fifo", "first in, first out; a blocked head blocks all behind it", by_submission, stated),
        Policy(
            "sjf", "shortest job first; a blocked head blocks all behind it", by_estimate, stated, needs_estimates=True
        ),
        Policy(
            "easy",
            "first in, first out; the blocked head gets a reservation, later jobs are backfilled beside it",
            by_submission,
            stated,
            reserve_from=at_once,
            needs_estimates=True,
        ),
        # EASY++ of Tsafrir, Etsion and Feitelson, "Backfilling using system-generated predictions rather than user
        # runtime estimates", IEEE TPDS 2007, with whatever predicts.
        Policy(
            "easy-predicted-sjbf",
            "easy by predicted runtimes, corrected when a job outlives them; later jobs are backfilled shortest first",
            by_submission,
            predicted,
            by_bounds,
            reserve_from=at_once,
            backfill_by=by_prediction,
            needs_estimates=True,
        ),
        Policy(
            "kant",
            "jobs due soonest first, by hints; others pass a blocked job until it is due, then it gets a reservation",
            by_due_time,
            expected,
            by_bounds,
            reserve_from=by_due_time,
            guarantees=True,
        ),
        Policy(
            "patient",
            "smallest expected GPU time first, by hints; larger jobs are passed for a bounded time, then reserved for",
            by_area,
            expected,
            patience=Patience(),
            placement="best-fit",
        ),
        Policy(
            "core",
            "the order of patient inside priority classes and fair share, with quotas, guaranteed starts, a starvation "
            "bound, elastic gangs that grow; evicts overstaying backfill, and for higher classes and guaranteed quota",
            by_grace,
            expected,
            by_bounds,
            reserve_from=never,
            # No longest: however much waits, who has waited for the starvation bound goes before all others. More
            # backlogs than `patient` has: by hints less seems to wait than by limits, and with fewer of them large jobs
            # would be promoted sooner where there are hints.
            patience=Patience(plans=1, backlogs=24.0, longest_s=math.inf),
            guarantees=True,
            reservations=1,
            starvation_bound_s=3 * DAY_S,
            preempts=True,
            min_run_s=300.0,
            resize_every_s=600.0,
        ),
        Policy(
            "conservative",
            "first in, first out; every blocked job gets a reservation, nobody delays anybody who came before",
            by_submission,
            stated,
            reserve_from=at_once,
            needs_estimates=True,
            reservations=math.inf,
        ),
        # Skips what does not fit, as first fit does: Feitelson and Rudolph, "Parallel job scheduling: issues and
        # approaches", JSSPP 1995. Knows nothing of runtimes.
        Policy(
            "best-effort",
            "first in, first out; whatever fits passes a blocked job, nothing is reserved for",
            by_submission,
            stated,
            reserve_from=never,
        ),
        # Smallest area first: Carastan-Santos et al., "One can only gain by replacing EASY backfilling", CCGRID 2019.
        # Knows hints, else hard limits.
        Policy(
            "saf",
            "smallest expected GPU time first; whatever fits passes a blocked job until that has waited a day",
            by_area,
            expected,
            reserve_from=never,
            guarantees=True,
            reservations=1,
            starvation_bound_s=DAY_S,
        ),
        # Quasi-shortest service first: Hu et al., "Characterization and prediction of deep learning workloads in
        # large-scale GPU datacenters", SC 2021. With predicted estimates it knows what the ended jobs tell; the
        # predictor is this project's and not theirs.
        Policy(
            "qssf",
            "smallest predicted GPU time first; a blocked head blocks all behind it; meant for predicted estimates",
            by_area,
            expected,
            needs_users=True,
        ),
        # Slurm's priority/multifactor with the weights of the example in its documentation, and EASY in place of its
        # backfill: see `factors`. Knows users and stated runtimes.
        Policy(
            "multifactor",
            "by age, fair share of users and size, as Slurm's multifactor priority; EASY backfill beside the first",
            alike,
            stated,
            reserve_from=at_once,
            factors=Factors(),
            needs_estimates=True,
            needs_users=True,
        ),
        # Shortest remaining time first: Schrage and Miller, "The queue M/G/1 with the shortest remaining processing
        # time discipline", Operations Research 1966, here for gangs that save checkpoints. With true estimates an
        # oracle.
        Policy(
            "srtf",
            "shortest remaining time first; running jobs that need longer are evicted, and go on from checkpoints",
            by_estimate,
            stated,
            ranking=Ranking(remaining),
            needs_estimates=True,
        ),
        # Shortest remaining service first: GPU time in place of time, the oracle of Tiresias (see there).
        Policy(
            "srsf",
            "smallest remaining GPU time first; running jobs that need more are evicted, and go on from checkpoints",
            by_stated_area,
            stated,
            ranking=Ranking(remaining_area),
            needs_estimates=True,
        ),
        # Two-dimensional discretised least attained service: Gu et al., "Tiresias: a GPU cluster manager for
        # distributed deep learning", NSDI 2019. Levels and no promotion as in the simulator that its authors
        # published. Knows nothing of runtimes.
        Policy(
            "tiresias",
            "least GPU time received first, in three levels; a job that has had more is evicted for one that had less",
            alike,
            stated,
            ranking=Ranking(attained, levels=(3250.0, 7200.0)),
        ),
    )
}
