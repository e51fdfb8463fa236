"""The most GPU time that any policy at all could allocate on a stream of jobs, however clever, even knowing the future.

Nothing runs before it is submitted, for longer than it takes, or beyond what the cluster has; that jobs have sizes and
need nodes is ignored, so no real policy reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.baselines import gang_cluster, node_choice

Floats = NDArray[np.float64]

STEP_S = 600.0
"""The bound is followed in steps of this."""


class Arrival(Protocol):
    """What is looked at of a job."""

    @property
    def submit_s(self) -> float: ...

    @property
    def gpus(self) -> int: ...

    @property
    def duration_s(self) -> float: ...

    @property
    def limit_s(self) -> float: ...


def existing_gpu_s(rows: Sequence[Arrival], at_s: Floats) -> Floats:
    """GPU seconds that would have been worked by each time if every job ran from its submission; shape (times,)."""
    submit, gpus, run = (np.array([getattr(r, f) for r in rows]) for f in ("submit_s", "gpus", "duration_s"))
    return np.array([float((gpus * np.clip(t - submit, 0.0, run)).sum()) for t in at_s])


def most_gpu_s(rows: Sequence[Arrival], capacity_gpus: int, until_s: float, from_s: float, done_gpu_s: float) -> float:
    """GPU seconds worked by ``until_s`` at most, of a cluster that has worked ``done_gpu_s`` by ``from_s``.

    In each step no more is worked than the cluster has, and in all no more than exists by then.
    """
    times = np.append(np.arange(from_s, until_s, STEP_S), until_s)
    most = done_gpu_s
    for step_s, exists in zip(np.diff(times), existing_gpu_s(rows, times)[1:], strict=True):
        most = min(most + capacity_gpus * step_s, exists)
    return float(most)


def done_by(stream: Sequence[gang_cluster.Job], at_s: float) -> float:
    """GPU seconds worked by a time by jobs that have been played and never moved."""
    return sum(job.gpus * min(max(0.0, at_s - job.start_s), job.duration_s) for job in stream if job.start_s >= 0)


def words(seed: int, rows: Sequence[Arrival], mix: dict[str, Any], days: float) -> str:
    """One line: what strict FIFO allocates and the most that any policy could, of the whole run and of the window.

    Of the window it is the most of any policy that has worked by its beginning as much as strict FIFO has, or more:
    leaving work undone before the window would fill it without being of use to anybody.
    """
    cluster, until_s = mix["cluster"], days * 86400.0
    warm_up_s, gpus = mix["run"]["warm_up_days"] * 86400.0, cluster["nodes"] * cluster["gpus_per_node"]
    stream = [gang_cluster.Job(row.submit_s, row.gpus, row.duration_s, row.limit_s, row.limit_s) for row in rows]
    simulation = gang_cluster.Simulation(gang_cluster.Cluster(**cluster), node_choice.best_fit(seed), "strict")
    simulation.run(stream, warm_up_s, until_s)
    by_warm_up, by_end = (done_by(stream, t) for t in (warm_up_s, until_s))
    whole = most_gpu_s(rows, gpus, until_s, 0.0, 0.0)
    window = most_gpu_s(rows, gpus, until_s, warm_up_s, by_warm_up) - by_warm_up
    per_whole, per_window = 100 / (gpus * until_s), 100 / (gpus * (until_s - warm_up_s))
    return (
        f"seed {seed}: SOR of strict FIFO and the most of any policy: whole run {by_end * per_whole:.2f} of "
        f"{whole * per_whole:.2f} %, window {(by_end - by_warm_up) * per_window:.2f} of {window * per_window:.2f} %"
    )
