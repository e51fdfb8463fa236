"""Inference services: many equal replicas, each of use on its own."""

from __future__ import annotations

from dataclasses import replace

from schedmate.scheduler.demand import Demand
from schedmate.scheduler.types import Job


def replicas(job: Job) -> tuple[Job, ...]:
    """The jobs to submit for one job: a service becomes one for each replica, ``name/0`` and so on; others stay whole.

    The replicas know their service, so that a preemptible one is scaled down no further than ``min_replicas`` of its
    roles say (to nothing where they do not).

    >>> from schedmate.scheduler import Demand, Job, Role
    >>> demand = Demand.of((Role("web", replicas=3, gpus=2),))
    >>> [(each.job_id, each.gpus) for each in replicas(Job("chat", 6, 0, kind="service", demand=demand))]
    [('chat/0', 2), ('chat/1', 2), ('chat/2', 2)]
    """
    demand = job.demand
    if job.kind != "service" or demand is None or sum(role.replicas for role in demand.roles) < 2:
        return (job,)
    single = [_alone(demand, number) for number, role in enumerate(demand.roles) for _ in range(role.replicas)]
    shared = replace(job, service=job.job_id, least_replicas=sum(role.min_replicas or 0 for role in demand.roles))
    return tuple(
        replace(shared, job_id=f"{job.job_id}/{number}", gpus=each.gpus, demand=each)
        for number, each in enumerate(single)
    )


def _alone(demand: Demand, role: int) -> Demand:
    """What one replica of a role asks for."""
    return Demand.of(
        (replace(demand.roles[role], replicas=1, min_replicas=None),),
        gpu_types=demand.gpu_types,
        level=demand.level,
        required=demand.required,
        selector=demand.selector,
        tolerations=demand.tolerations,
        zone=demand.zone,
        heavy=demand.heavy,
        spread=demand.spread,
        shareable=demand.shareable,
    )
