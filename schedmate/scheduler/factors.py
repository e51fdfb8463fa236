"""Priorities that follow age, fair share, size and quality of service, as Slurm's ``priority/multifactor`` has them.

After https://slurm.schedmd.com/priority_multifactor.html and https://slurm.schedmd.com/fair_tree.html: a weighted sum
of factors from 0 to 1, worked out anew for all waiting jobs every ``PriorityCalcPeriod`` and for a new job when it
comes. The accounts are one flat level of equal shares; one is there from its first submission on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schedmate.scheduler.types import Job

DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Factors:
    """Weights, as in the example of Slurm's page; its defaults for the weights are all 0, for the rest as stated.

    Parameters
    ----------
    age, fair_share, size, qos : ``PriorityWeightAge``, ``...Fairshare``, ``...JobSize`` and ``...QOS``.
    max_age_s : a job that has waited so long has an age factor of 1 (``PriorityMaxAge``, default 7 days).
    half_life_s : use counts half as much after this time (``PriorityDecayHalfLife``, default 7 days).
    period_s : the priorities of waiting jobs are worked out so often (``PriorityCalcPeriod``, default 5 minutes).
    top_qos : class of a job (`Job.priority`) whose QOS factor is 1; 0 and less have 0.
    """

    age: float = 1000.0
    fair_share: float = 10_000.0
    size: float = 1000.0
    qos: float = 0.0
    max_age_s: float = 14 * DAY_S
    half_life_s: float = 14 * DAY_S
    period_s: float = 300.0
    top_qos: int = 1

    def __post_init__(self) -> None:
        weights = (self.age, self.fair_share, self.size, self.qos)
        times = (self.max_age_s, self.half_life_s, self.period_s)
        if not (all(0 <= w < math.inf for w in weights) and all(0 < t < math.inf for t in times) and self.top_qos > 0):
            raise ValueError(f"{self} has a weight below 0, or a time or class that is not above 0")

    def priority(self, job: Job, standing: Standing, cluster_gpus: int, now: float) -> float:
        """What the job has at ``now``; the larger goes first."""
        age = min(1.0, max(0.0, now - job.submit_s) / self.max_age_s)
        qos = min(1.0, max(0, job.priority) / self.top_qos)
        share = standing.by_account.get(job.account or "", 1.0)
        return self.age * age + self.fair_share * share + self.size * job.gpus / cluster_gpus + self.qos * qos


class Standing(NamedTuple):
    """The fair-share factor of each account, worked out at ``at_s``. Accounts that are not there have used nothing."""

    at_s: float
    by_account: Mapping[str, float]


NO_STANDING = Standing(-math.inf, {})


class Use(NamedTuple):
    """GPU seconds of an account, older ones counting less, as they stood at ``at_s``, and the GPUs that it holds."""

    gpu_s: float = 0.0
    gpus: int = 0
    at_s: float = 0.0


@dataclass(slots=True)
class Accounts:
    """What each account has used lately."""

    half_life_s: float
    uses: dict[str, Use] = field(default_factory=dict)

    def enter(self, account: str, now: float) -> None:
        """A job of the account is submitted."""
        self.uses.setdefault(account, Use(at_s=now))

    def charge(self, account: str, gpus: int, now: float) -> tuple[str, Use | None]:
        """So many GPUs more are held from ``now`` on, less where negative; returns what `restore` needs."""
        before = self.uses.get(account)
        old = before or Use(at_s=now)
        self.uses[account] = Use(self._gpu_s(old, now), old.gpus + gpus, now)
        return account, before

    def restore(self, account: str, before: Use | None) -> None:
        """Undo the last charge."""
        if before is None:
            del self.uses[account]
        else:
            self.uses[account] = before

    def standing(self, now: float) -> Standing:
        """Fair Tree on one level: of n accounts, whoever has used least has 1, the next one (n - 1) / n, and so on;
        those who have used the same have the same."""
        used = sorted((self._gpu_s(use, now), account) for account, use in self.uses.items())
        found, factor, last = dict[str, float](), 1.0, -1.0
        for number, (gpu_s, account) in enumerate(used):
            if gpu_s != last:
                factor, last = (len(used) - number) / len(used), gpu_s
            found[account] = factor
        return Standing(now, found)

    def _gpu_s(self, use: Use, now: float) -> float:
        """What is held counts while it is, by the integral of the decay."""
        kept: float = 0.5 ** ((now - use.at_s) / self.half_life_s)
        return use.gpu_s * kept + use.gpus * self.half_life_s / math.log(2.0) * (1.0 - kept)
