"""Binds a scenario's words to the core: cluster, policy, tenants, jobs, and what can happen to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec, Job, Placement, Policy, PoolSpec, Scheduler
from schedmate.scheduler.cluster_types import DeviceShare, NodeShape
from schedmate.simulator import cluster_file
from schedmate.simulator.scenario import fields as f
from schedmate.simulator.scenario.types import Change, ScenarioJob

#: What can happen to a cluster, by the key of an event.
CHANGES = ("cordon", "drain", "down", "repair", "bad_gpu", "good_gpu", "quota", "evict")


def cluster(where: str, value: Any) -> ClusterSpec:
    """The cluster as in a cluster file, or its pools alone: ``{a100: 4x8}``."""
    tree = f.mapping(where, value)
    return cluster_file.cluster_from(tree if "pools" in tree else {"pools": tree}, Path(where))


def policy(where: str, value: Any) -> Policy:
    """The name of a policy, or ``{base: easy, ...}`` with fields of `Policy` in place of the base's."""
    if isinstance(value, str):
        value = {"base": value}
    given = dict(f.mapping(where, value))
    base = str(given.pop("base", "kant"))
    if base not in POLICIES:
        raise UserError(f"{where}: no policy {base!r}", f"there are {', '.join(sorted(POLICIES))}")
    f.known(where, given, [each.name for each in fields(Policy)])
    try:
        return replace(POLICIES[base], **given)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}", "") from None


def tenants(where: str, value: Any) -> Any:
    """The tenant tree; None for a cluster without tenants."""
    if value is None:
        return None
    raise UserError(f"{where}: the core has no tenants yet", "")


def changes(where: str, kind: str, value: Any) -> list[Change]:
    """``cordon: a100/0-3``, ``bad_gpu: a100/0/5``: the pool, its nodes, and the GPU where one is meant."""
    found = []
    for each in f.sequence(where, value):
        pool, *rest = str(each).split("/")
        if kind == "evict":
            found.append(Change(kind, (str(each),)))
        elif len(rest) != (2 if kind.endswith("_gpu") else 1):
            raise UserError(f"{where}: {each!r} does not name a place", "write pool/node, or pool/node/gpu")
        else:
            device = int(rest[1]) if len(rest) == 2 else None
            found.extend(Change(kind, (pool, node, device)) for node in sorted(f.numbers(where, rest[0])))
    return found


def scheduler(spec: ClusterSpec, chosen: Policy, tree: Any) -> Scheduler:
    """The scheduler that a scenario is played on."""
    return Scheduler(spec, chosen)


def job(each: ScenarioJob, submit_s: float) -> Job:
    """The core's job. `UserError` for conditions that the core does not know."""
    names = {field.name for field in fields(Job)}
    asks: Mapping[str, Any] = each.asks
    for name in asks:
        if name not in names:
            raise UserError(f"job {each.name}: the core knows no {name}", "")
    try:
        return Job(job_id=each.name, submit_s=submit_s, **asks)
    except (TypeError, ValueError) as error:
        raise UserError(f"job {each.name}: {error}", "") from None


def seat(core: Scheduler, slot: int, each: ScenarioJob) -> None:
    """Start the waiting job in ``slot`` where the scenario says that it runs. `UserError` if it does not fit there."""
    cluster, demand = core.state.cluster, core.state.table.demands[slot]
    lane = core.state.table.lanes[slot]
    for number in lane.pools if lane is not None else ():
        pool = cluster.spec.pools[number]
        if each.place is not None and each.place.pool not in (None, pool.name):
            continue
        index = cluster.pools[number]
        nodes = None if each.place is None else each.place.nodes
        shares = core.state.place(index if nodes is None else index.confined(nodes), demand)
        if shares is not None:
            core.transaction.begin()
            core.transaction.start(slot, number, shares, each.since_s, "was running already")
            core.transaction.commit()
            return
    raise UserError(f"job {each.name} does not fit where it is said to run", "correct `place` or the sizes")


def queue_place(core: Scheduler, slot: int) -> tuple[bool, tuple[float, ...]]:
    """Running jobs first, by slot, then the waiting ones in the order of the queue."""
    table = core.state.table
    entry = table.live[slot]
    return (False, (slot,)) if entry is None else (True, entry)


def carry_over(old: Scheduler, slot: int, new: Scheduler) -> int:
    """Tell a new scheduler about a job of the old one, running where it runs; returns its slot there."""
    table = old.state.table
    moved, shares = table.jobs[slot], table.shares[slot]
    if moved is None:
        raise ValueError(f"slot {slot} holds no job")
    copy = new.submit(moved)
    if shares is not None:
        new.transaction.begin()
        new.transaction.start(copy, table.pools[slot], shares, table.starts_s[slot], table.reasons[slot])
        new.transaction.commit()
    return copy


def cycle(core: Scheduler, now: float) -> tuple[list[int], list[int]]:
    """One cycle: the slots started, and the slots evicted."""
    return core.cycle(now), []


def apply(core: Scheduler, change: Change, now: float) -> list[int]:
    """Let something happen to the cluster; returns the slots that were evicted by it."""
    raise UserError(f"the core knows no {change.kind}", "")


def devices(placement: Placement) -> set[int]:
    """The numbers of the GPUs used; empty where the pool does not number them."""
    return {bit for share in placement.shares if len(share) > 2 for bit in _bits(share[2])}


def islands(pool: PoolSpec, placement: Placement) -> int:
    """NVLink islands touched over all nodes."""
    touched = set()
    for share in placement.shares:
        if len(share) > 2:
            shape = _shape(pool, share[0])
            touched |= {(share[0], bit * shape.islands // shape.gpus) for bit in _bits(share[2])}
    return len(touched)


def nics(placement: Placement) -> int:
    """NICs taken over all nodes."""
    return sum(DeviceShare(*share).nics.bit_count() for share in placement.shares if len(share) > 2)


def replicas(placement: Placement) -> int:
    """Replicas started, over all roles."""
    return sum(DeviceShare(*share).replicas for share in placement.shares if len(share) > 2)


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _shape(pool: PoolSpec, node: int) -> NodeShape:
    for number, shape in pool.shapes:
        if node < number:
            return shape
        node -= number
    raise ValueError(f"pool {pool.name} has no node {node}")
