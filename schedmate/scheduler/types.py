"""What the core takes and returns. Times are seconds on the caller's clock; sizes are whole GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schedmate.scheduler.cluster_types import Shares, Spare


@dataclass(frozen=True, slots=True)
class Hints:
    """What was predicted about a job: untrusted input, never a promise.

    ``expected_s`` is the median and ``high_s`` the 90 % quantile of the runtime until it ends for whatever reason.
    ``source`` names who said so.
    """

    expected_s: float
    high_s: float
    source: str = ""

    def __post_init__(self) -> None:
        if not (self.expected_s >= 0 and self.high_s >= self.expected_s and math.isfinite(self.high_s)):
            raise ValueError("a hint needs finite seconds with 0 <= expected_s <= high_s")


@dataclass(frozen=True, slots=True)
class Job:
    """A gang of ``gpus`` GPUs that starts whole or not at all, as the scheduler sees it.

    ``estimate_s`` is the stated runtime (the user's, or whatever the replay puts in its place); ``limit_s`` the hard
    limit at which the job is ended, None without one; ``gpu_type`` the name of the only acceptable pool, None for
    any. The true runtime is not here and nowhere else in this package.
    """

    job_id: str
    gpus: int
    submit_s: float
    estimate_s: float | None = None
    limit_s: float | None = None
    gpu_type: str | None = None
    hints: Hints | None = None

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ValueError(f"job {self.job_id!r} asks for {self.gpus} GPUs")


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


@dataclass(frozen=True, slots=True)
class Reservation:
    """A start planned for the blocked job in ``slot``: when (the shadow time) and on which GPUs of pool ``pool``.

    ``spare`` gives, for each reserved node, what the plan leaves unused there at the shadow time.
    ``guaranteed``: the plan rests on hard limits alone, and only jobs whose hard limit keeps it may pass. Otherwise the
    start is *expected* and moves when a job outlives what was assumed of it.
    """

    slot: int
    pool: int
    start_s: float
    shares: Shares
    spare: Spare
    guaranteed: bool


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
