"""What a replay plays beside the jobs of a trace: all of it is off unless it is asked for. See docs/simulator.md."""

from __future__ import annotations

from dataclasses import dataclass

from schedmate.scheduler import Policy
from schedmate.simulator.estimates import Estimates, Preemptible, Restarts, SizeClasses
from schedmate.simulator.failures import Failures
from schedmate.simulator.fault_plan import FaultPlan
from schedmate.simulator.slowdown import Slowdown
from schedmate.simulator.warm_start import WarmStart

#: What ``JobRequeue`` of Slurm allows by default (``max_batch_requeue``).
REQUEUES = 5


@dataclass(frozen=True, slots=True)
class Conditions:
    """The world around the scheduler.

    Parameters
    ----------
    restarts : every job may be evicted, and what that costs. None: no job may, but under policies that live by it,
        which have the defaults of `Restarts`.
    size_classes : jobs have a priority class by their size, see `SizeClasses`, under policies with classes.
    cancellations : jobs that the trace says were cancelled before they ran are submitted too, and cancelled at that
        time, whether they wait or run then.
    failures : how often jobs fail and start again.
    faults : hardware that breaks and is repaired. The cluster is then described in detail.
    requeues : so often a job that has lost its GPUs to faults is put back into the queue without having saved anything
        in between; the next time it counts as failed. None for no bound: what takes longer than hardware lasts, and
        saves nothing, then runs for ever.
    slowdown : how much longer jobs take where they are placed badly.
    warm : what runs already at the beginning.
    """

    restarts: Restarts | None = None
    size_classes: bool = False
    cancellations: bool = False
    failures: Failures | None = None
    faults: FaultPlan | None = None
    requeues: int | None = REQUEUES
    slowdown: Slowdown | None = None
    warm: WarmStart | None = None

    def restarts_under(self, policy: Policy) -> Restarts | None:
        """What being evicted costs under a policy; None where no job may be."""
        return self.restarts or (Restarts() if policy.ranking is not None else None)

    def known(self, estimates: Estimates, policy: Policy) -> Estimates:
        """What the policy may know of jobs under these conditions; estimates that say themselves what may be evicted
        are left as they are."""
        restarts = self.restarts_under(policy)
        if self.size_classes and policy.reservations is not None:
            estimates = SizeClasses(estimates)
        if restarts is None or (self.restarts is None and isinstance(estimates, Preemptible)):
            return estimates
        return Preemptible(estimates, restarts)
