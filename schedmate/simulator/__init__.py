"""Discrete-event replay of traces and workloads on the very core that schedules a live cluster.

>>> from analyzers.types import JobRecord
>>> from schedmate.scheduler import ClusterSpec
>>> from schedmate.simulator import simulate
>>> jobs = [JobRecord("a", submit_s=0, duration_s=60, gpus=8), JobRecord("b", submit_s=10, duration_s=30, gpus=16)]
>>> result = simulate(jobs, ClusterSpec.uniform(nodes=2), "fifo", keep_placements=True)
>>> result.start_s.tolist(), result.end_s.tolist()
([0.0, 60.0], [60.0, 90.0])
>>> result.placement(1).nodes
(0, 1)
>>> result.summary()["queueing_s"]["mean"], result.gar.mean()
(25.0, 0.6666666666666666)

For charts: `Result.gar`, `Result.gfr` and `Result.queue_length` are step functions with ``times_s`` and ``values``
(``resampled(points)`` for equal stretches); ``waiting_s``, ``jct_s``, ``submit_s``, ``start_s``, ``end_s``, ``gpus``
are arrays with one value a job.
"""

from schedmate.simulator.conditions import Conditions
from schedmate.simulator.estimates import (
    Estimates,
    Hostile,
    Perfect,
    Predicted,
    Predictor,
    Preemptible,
    Requested,
    Restarts,
    SizeClasses,
)
from schedmate.simulator.metrics import Distribution, Steps
from schedmate.simulator.result import Result
from schedmate.simulator.shake import shaken
from schedmate.simulator.simulation import policy_named, simulate

__all__ = [
    "Conditions",
    "Distribution",
    "Estimates",
    "Hostile",
    "Perfect",
    "Predicted",
    "Predictor",
    "Preemptible",
    "Requested",
    "Restarts",
    "Result",
    "SizeClasses",
    "Steps",
    "policy_named",
    "shaken",
    "simulate",
]
