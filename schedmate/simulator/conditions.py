"""What a replay plays beside the jobs of a trace: all of it is off unless it is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from schedmate.scheduler import Policy
from schedmate.simulator.estimates import Estimates, Preemptible, Restarts


@dataclass(frozen=True, slots=True)
class Conditions:
    """The world around the scheduler.

    Parameters
    ----------
    restarts : every job may be evicted, and what that costs. None: no job may, but under policies that live by it,
        which have the defaults of `Restarts`.
    """

    restarts: Restarts | None = None

    def restarts_under(self, policy: Policy) -> Restarts | None:
        """What being evicted costs under a policy; None where no job may be."""
        return self.restarts or (Restarts() if policy.ranking is not None else None)

    def known(self, estimates: Estimates, policy: Policy) -> Estimates:
        """What the policy may know of jobs under these conditions; estimates that say themselves what may be evicted
        are left as they are."""
        restarts = self.restarts_under(policy)
        if restarts is None or (self.restarts is None and isinstance(estimates, Preemptible)):
            return estimates
        return Preemptible(estimates, restarts)
