"""What a replay writes down while it runs: flat arrays, a few numbers a job and a few a moment."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import Shares

Floats = NDArray[np.float64]
_JOB_FIELDS = 8
_MOMENT_FIELDS = 4

#: In place of the number of a job that has no row.
NO_ROW = -1


class Stay(NamedTuple):
    """Job number ``job`` (in the order of submission, `NO_ROW` for one without a row) held ``shares`` of pool number
    ``pool`` for a while."""

    job: int
    from_s: float
    until_s: float
    pool: int
    shares: Shares


@dataclass(slots=True)
class Mishaps:
    """What happened of that which was asked for (`Conditions`). ``failed_runs`` were followed by another one of the
    same job, ``failed_gpu_s`` is what was lost by them. ``interrupted`` counts jobs that lost their GPUs by one of
    ``faults``, after each of which ``capacity`` has time, schedulable GPUs and healthy nodes; ``given_up`` those that
    counted as failed after that. Jobs cancelled while
    waiting and while running are in no other figure."""

    failed_runs: int = 0
    failed_gpu_s: float = 0.0
    faults: int = 0
    interrupted: int = 0
    given_up: int = 0
    cancelled_waiting: int = 0
    cancelled_running: int = 0
    capacity: list[tuple[float, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class RunLog:
    """``jobs`` holds eight numbers a job (number in the order of submission, submit, start, end, GPUs, nodes, pool,
    work) and ``moments`` four a moment (time, allocated GPUs, fragmented nodes, waiting jobs), each true until the
    next one.

    ``ids`` are the job ids in the order of submission. Where placements are kept, ``places`` maps that number to (pool
    number, shares) and ``stays`` has every stretch of time for which a job kept the same GPUs. ``skipped`` counts
    records left out by reason. ``lost_gpu_s``: GPU time of evicted runs whose work was not saved; ``restart_gpu_s``
    what starting them again took. ``moves``: of the evictions, those that went on elsewhere at once. Where there are
    tenants, ``tenants`` is that of each job, in the order of submission ("" for nobody's), and ``gpu_s`` the GPU time
    that the jobs of each have had.
    """

    jobs: array[float] = field(default_factory=lambda: array("d"))
    moments: array[float] = field(default_factory=lambda: array("d"))
    ids: list[str] = field(default_factory=list)
    places: dict[int, tuple[int, Shares]] | None = None
    stays: list[Stay] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    replay_s: float = 0.0
    evictions: int = 0
    lost_gpu_s: float = 0.0
    moves: int = 0
    restart_gpu_s: float = 0.0
    tenants: list[str] | None = None
    gpu_s: dict[str, float] = field(default_factory=dict)
    mishaps: Mishaps = field(default_factory=Mishaps)

    def skip(self, reason: str, example: str) -> None:
        """Count a record that was left out, keeping the first five in words."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1
        if len(self.examples) < 5:
            self.examples.append(example)

    def job_columns(self) -> tuple[Floats, ...]:
        """Number, submit, start, end, GPUs, nodes, pool, work: one array each, in the order of submission."""
        table = np.frombuffer(self.jobs, dtype=np.float64).reshape(-1, _JOB_FIELDS)
        return tuple(table[np.argsort(table[:, 0], kind="stable")].T)

    def moment_columns(self) -> tuple[Floats, ...]:
        """Time, allocated GPUs, fragmented nodes, waiting jobs: one array each, in the order of time."""
        return tuple(np.frombuffer(self.moments, dtype=np.float64).reshape(-1, _MOMENT_FIELDS).T)

    def close(self) -> None:
        """Jobs that have no row (cancelled, or never ended) are forgotten, and the others numbered anew."""
        numbers = np.sort(np.frombuffer(self.jobs, dtype=np.float64)[::_JOB_FIELDS].astype(np.int64)).tolist()
        if len(numbers) == len(self.ids):
            return
        new = {number: i for i, number in enumerate(numbers)}
        self.ids = [self.ids[number] for number in numbers]
        if self.tenants is not None:
            self.tenants = [self.tenants[number] for number in numbers]
        if self.places is not None:
            self.places = {new[number]: place for number, place in self.places.items()}
        self.stays = [stay._replace(job=new.get(stay.job, NO_ROW)) for stay in self.stays]
