"""The scheduler core: gangs on pools of GPU nodes. Imports nothing of the rest; time comes from outside.

>>> from schedmate.scheduler import POLICIES, ClusterSpec, Job, Scheduler
>>> scheduler = Scheduler(ClusterSpec.uniform(nodes=2), POLICIES["easy"])
>>> a = scheduler.submit(Job("a", gpus=12, submit_s=0, estimate_s=100))
>>> b = scheduler.submit(Job("b", gpus=16, submit_s=0, estimate_s=50))
>>> c = scheduler.submit(Job("c", gpus=4, submit_s=0, estimate_s=80))
>>> scheduler.cycle(now=0) == [a, c]
True
>>> scheduler.decision(b, now=0).expected_start_s
100
"""

from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec, PoolSpec
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.policies import POLICIES, Policy
from schedmate.scheduler.scheduler import Scheduler, Unschedulable
from schedmate.scheduler.types import Decision, Hints, Job, Placement, Reservation

__all__ = [
    "POLICIES",
    "Cluster",
    "ClusterSpec",
    "Decision",
    "Demand",
    "Hints",
    "Job",
    "Placement",
    "Policy",
    "PoolSpec",
    "Reservation",
    "Scheduler",
    "Unschedulable",
]
