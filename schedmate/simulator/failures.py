"""Jobs that fail and are started again in a replay."""

from __future__ import annotations

import random
from dataclasses import dataclass

from analyzers.types import JobRecord


@dataclass(frozen=True, slots=True)
class Failures:
    """How many runs a job takes.

    Parameters
    ----------
    share : of the runs fail, each at a point of its own, and what they did is lost. None: as many runs as the trace
        says that the job took (`JobRecord.attempts`), equal parts of its runtime, since that is the sum of them.
    seed : the same seed gives the same failures, whatever the order of the jobs.
    most : runs of a job; the last one does not fail.
    """

    share: float | None = None
    seed: int = 1
    most: int = 3

    def __post_init__(self) -> None:
        if not (self.share is None or 0 <= self.share <= 1) or self.most < 1:
            raise ValueError(f"a share of {self.share} of the runs, {self.most} at most, can not fail")

    def runs_s(self, record: JobRecord) -> tuple[float, ...]:
        """How long each of the runs takes, in their order, if nothing else stops them."""
        runtime_s = record.duration_s or 0.0
        if self.share is None:
            runs = max(1, record.attempts or 1)
            return (runtime_s / runs,) * runs
        draw, failed = random.Random(f"{self.seed}/{record.job_id}"), list[float]()
        while len(failed) < self.most - 1 and draw.random() < self.share:
            failed.append(draw.random() * runtime_s)
        return (*failed, runtime_s)

    @property
    def is_lost(self) -> bool:
        """Whether what a failed run did is lost."""
        return self.share is not None
