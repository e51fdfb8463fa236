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

With tenants, priority classes or several reservations (the policies ``core`` and ``conservative``, any policy with
`Policy.reservations`, or with ``tenants`` given) the scheduler has its full queue layer:

>>> from schedmate.scheduler import Quota, Tenant
>>> lab = Tenant("lab", quotas={"gpu": Quota(guaranteed=8, borrow_limit=0)})
>>> scheduler = Scheduler(ClusterSpec.uniform(nodes=2), POLICIES["core"], tenants=[lab])
>>> first, second = (scheduler.submit(Job(name, 8, 0, limit_s=60, tenant="lab")) for name in "ab")
>>> scheduler.cycle(now=0) == [first]
True
>>> scheduler.decision(second).reason
'quota of tenant lab for gpu: 8 GPUs of 8 guaranteed, none to borrow in use'

The calls: `Scheduler.submit`, `Scheduler.end`, `Scheduler.withdraw` as things happen, `Scheduler.set_node_health` and
`Scheduler.set_device_health` for the cluster, then `Scheduler.cycle`, which returns the slots started; those in
`Scheduler.evicted` wait again, unless they were started elsewhere at once (`Scheduler.migrated`). `Scheduler.wake_s` is
when the next cycle is due if nothing happens, `Scheduler.told_to_leave` who is to save its state now,
`Scheduler.resized` which gangs go on with other GPUs, and `Scheduler.decision` and `Scheduler.explain` say why. Or all
of it as data: `Scheduler.apply` takes events, which a `journal.Journal` keeps.
"""

from schedmate.scheduler.cluster import Cluster
from schedmate.scheduler.cluster_types import ClusterSpec, PoolSpec
from schedmate.scheduler.demand import Demand, Role
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.explain import Explanation
from schedmate.scheduler.gate import Gate, Trust
from schedmate.scheduler.lanes import OverQuota, Unschedulable
from schedmate.scheduler.policies import POLICIES, Policy
from schedmate.scheduler.scheduler import Scheduler
from schedmate.scheduler.services import replicas
from schedmate.scheduler.tenants import Queueing, Quota, Tenant
from schedmate.scheduler.types import Decision, Hints, Job, Placement, Preemption, Reservation

__all__ = [
    "POLICIES",
    "Cluster",
    "ClusterSpec",
    "Decision",
    "Demand",
    "Disruption",
    "Explanation",
    "Gate",
    "Hints",
    "Job",
    "OverQuota",
    "Placement",
    "Policy",
    "PoolSpec",
    "Preemption",
    "Queueing",
    "Quota",
    "Reservation",
    "Role",
    "Scheduler",
    "Tenant",
    "Trust",
    "Unschedulable",
    "replicas",
]
