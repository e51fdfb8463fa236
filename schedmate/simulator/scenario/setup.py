"""Binds a scenario's words to the core: cluster, policy, tenants, jobs, and what can happen to a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec, Job, Placement, Policy, PoolSpec, Scheduler
from schedmate.scheduler.cluster_types import DeviceShare, Health, NodeShape
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.early_lane import Early
from schedmate.scheduler.placement.choices import RULES
from schedmate.scheduler.policies import (
    Order,
    Patience,
    at_once,
    by_due_time,
    by_estimate,
    by_grace,
    by_patience,
    by_submission,
    never,
)
from schedmate.scheduler.tenants import Tenant
from schedmate.simulator import cluster_file
from schedmate.simulator.scenario import fields as f
from schedmate.simulator.scenario.types import Change, ScenarioJob
from schedmate.simulator.tenant_file import queueing_from, tenants_from

#: What can happen to a cluster, by the key of an event.
CHANGES = ("cordon", "drain", "down", "repair", "bad_gpu", "good_gpu")

#: What a job asks of the place beyond its size, as `Demand.of` names it.
_CONDITIONS = ("selector", "tolerations", "zone", "spread", "heavy", "shareable")

#: What a job may ask for without the full queue layer.
_SIMPLE = frozenset({"gpus", "gpu_type", "estimate_s", "limit_s", "hints"})

#: What a job may ask for on pools that are described by counts only.
_COUNTED = _SIMPLE | {
    "gpu_types", "tenant", "priority", "kind", "preemptible", "checkpoint_s", "grace_s", "restart_s", "min_run_s",
}  # fmt: skip


def cluster(where: str, value: Any) -> ClusterSpec:
    """The cluster as in a cluster file, or its pools alone: ``{a100: 4x8}``."""
    tree = f.mapping(where, value)
    return cluster_file.cluster_from(tree if "pools" in tree else {"pools": tree}, Path(where))


def policy(where: str, value: Any) -> Policy:
    """The name of a policy, or ``{base: core, reservations: 2}``: fields of `Policy` in place of the base's."""
    given = dict(f.mapping(where, {"base": value} if isinstance(value, str) else value))
    base = str(given.pop("base", "core"))
    if base not in POLICIES:
        raise UserError(f"{where}: no policy {base!r}", f"there are {', '.join(sorted(POLICIES))}")
    changed = f.converted(where, given, _POLICY)
    if "queueing" in changed:
        changed["queueing"] = queueing_from(where, changed["queueing"])
    try:
        return replace(POLICIES[base], **changed)
    except ValueError as error:
        raise UserError(f"{where}: {error}", "use core, or give `reservations`") from None


def _reservations(where: str, value: Any) -> float:
    return math.inf if value == "all" else f.count(where, value)


def _one_of(choices: Mapping[str, Order]) -> Callable[[str, Any], Order]:
    def choose(where: str, value: Any) -> Order:
        if value not in choices:
            raise UserError(f"{where}: {value!r} is not known", f"there are {', '.join(choices)}")
        return choices[value]

    return choose


def _placement(where: str, value: Any) -> str:
    if value not in RULES:
        raise UserError(f"{where}: no placement {value!r}", f"there are {', '.join(RULES)}")
    return str(value)


def _disruption(where: str, value: Any) -> Disruption:
    """``{every: 30, moves: 50, ...}``; an empty mapping for the budget as it comes."""
    try:
        return Disruption(**f.converted(where, f.mapping(where, value), _DISRUPTION))
    except ValueError as error:
        raise UserError(f"{where}: {error}", "") from None


def _patience(where: str, value: Any) -> Patience:
    """``{after: 4h, longest: 1d, ...}``; an empty mapping for patience as it comes."""
    return Patience(**f.converted(where, f.mapping(where, value), _PATIENCE))


def _early(where: str, value: Any) -> Early:
    """``{least: 0.3, credit: 1}``; an empty mapping for the lane as it comes."""
    return Early(**f.converted(where, f.mapping(where, value), _EARLY))


_PATIENCE: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "plans": ("plans", f.count),
    "after": ("after_s", f.seconds),
    "backlogs": ("backlogs", lambda where, value: f.milli(where, value) / 1000),
    "longest": ("longest_s", f.seconds),
}

_EARLY: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    name: (name, lambda where, value: f.milli(where, value) / 1000) for name in ("least", "credit", "most", "earned")
}

_DISRUPTION: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "every": ("every_s", f.seconds),
    "moves": ("moves", lambda where, value: f.milli(where, value) / 1000),
    "lost_share": ("lost_share", lambda where, value: f.milli(where, value) / 1000),
    "price": ("price", lambda where, value: f.milli(where, value) / 1000),
    "moves_per_job": ("moves_per_job", f.count),
    "rest": ("rest_s", f.seconds),
    "tenant_share": ("tenant_share", lambda where, value: f.milli(where, value) / 1000),
    "left_broken": ("left_broken", lambda where, value: f.milli(where, value) / 1000),
    "fresh": ("fresh_s", f.seconds),
}

_POLICY: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "order": (
        "order",
        _one_of(
            {
                "submission": by_submission,
                "estimate": by_estimate,
                "size": by_grace,
                "due": by_due_time,
                "patience": by_patience,
            }
        ),
    ),
    "reserve": (
        "reserve_from",
        _one_of({"at_once": at_once, "never": never, "due": by_due_time, "patience": by_patience}),
    ),
    "patience": ("patience", _patience),
    "reservations": ("reservations", _reservations),
    "queueing": ("queueing", f.text),
    "fair_share": ("fair_share_s", f.seconds),
    "half_life": ("half_life_s", f.seconds),
    "ageing": ("ageing_s", f.seconds),
    "starvation_bound": ("starvation_bound_s", f.seconds),
    "preempt": ("preempts", f.yes_no),
    "min_run": ("min_run_s", f.seconds),
    "most_preemptions": ("most_preemptions", f.count),
    "spared": ("spared_s", f.seconds),
    "resize_every": ("resize_every_s", f.seconds),
    "confidence": ("confidence", lambda where, value: f.milli(where, value) / 1000),
    "placement": ("placement", _placement),
    "defragment": ("defragment", _disruption),
    "early": ("early", _early),
}


def tenants(where: str, value: Any) -> tuple[Tenant, ...]:
    """The tenant tree, as in a cluster file."""
    return tenants_from(where, value)


def changes(where: str, kind: str, value: Any) -> list[Change]:
    """``cordon: a100/0-3``, ``bad_gpu: a100/0/5``: the pool, its nodes, and the GPU where one is meant."""
    found: list[Change] = []
    for each in f.sequence(where, value):
        pool, *rest = str(each).split("/")
        if len(rest) != (2 if kind.endswith("_gpu") else 1):
            raise UserError(f"{where}: {each!r} does not name a place", "write pool/node, or pool/node/gpu")
        device = int(rest[1]) if len(rest) == 2 else None
        found.extend(Change(kind, (pool, node, device)) for node in sorted(f.numbers(where, rest[0])))
    return found


def scheduler(spec: ClusterSpec, chosen: Policy, tree: Sequence[Tenant], jobs: Iterable[ScenarioJob] = ()) -> Scheduler:
    """The scheduler that a scenario is played on, with the full queue layer and pools described in detail if one of its
    jobs asks for what only those have. `UserError` for tenants that do not fit the cluster or the policy."""
    asked = list(jobs)
    if any(not _COUNTED.issuperset(each.asks) for each in asked):
        spec = spec.in_detail()
    try:
        if any(not _SIMPLE.issuperset(each.asks) or _has_memory_hint(each) for each in asked):
            chosen = chosen.with_queue_layer()
        return Scheduler(spec, chosen, tree)
    except ValueError as error:
        raise UserError(str(error), "correct the tenants, or take another policy") from None


def _has_memory_hint(each: ScenarioJob) -> bool:
    hints = each.asks.get("hints")
    return hints is not None and hints.gpu_memory_mib is not None


def job(each: ScenarioJob, submit_s: float) -> Job:
    """The core's job. `UserError` for conditions that make no sense."""
    asks = dict(each.asks)
    conditions = {name: asks.pop(name) for name in _CONDITIONS if name in asks}
    for key, required in (("within", True), ("prefer_within", False)):
        if key in asks:
            conditions |= {"level": asks.pop(key), "required": required}
    roles = asks.pop("roles", ())
    try:
        if roles or conditions:
            size = {} if roles else {"gpus": asks.pop("gpus", 0)}
            demand = asks["demand"] = Demand.of(roles, **size, **conditions)
            asks["gpus"] = demand.gpus
        return Job(job_id=each.name, submit_s=submit_s, **asks)
    except (TypeError, ValueError) as error:
        raise UserError(f"job {each.name}: {error}", "") from None


def seat(core: Scheduler, slot: int, each: ScenarioJob) -> None:
    """Start the waiting job in ``slot`` where the scenario says that it runs. `UserError` if it does not fit there."""
    cluster, demand = core.state.cluster, core.state.table.demands[slot]
    types = each.asks.get("gpu_types") or (each.asks.get("gpu_type"),)
    for number, pool in enumerate(cluster.spec.pools):
        if each.place is not None and each.place.pool not in (None, pool.name):
            continue
        if types != (None,) and pool.name not in types:
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
    moved, shares = old.told(slot), table.shares[slot]
    copy = new.submit(moved)
    if shares is not None:
        new.transaction.begin()
        new.transaction.start(copy, table.pools[slot], shares, table.starts_s[slot], table.reasons[slot])
        new.transaction.commit()
        if slot in table.phases:
            new.state.table.phases[copy] = table.phases[slot]
    return copy


def cycle(core: Scheduler, now: float) -> tuple[list[int], list[int]]:
    """One cycle: the slots started, and those evicted before."""
    started = core.cycle(now)
    return started, list(core.evicted)


def apply(core: Scheduler, change: Change, now: float) -> list[int]:
    """Let something happen to the cluster; returns the slots of the jobs that were lost by it and wait again."""
    name, node, device = change.what
    cluster = core.state.cluster
    if name not in cluster.by_name:
        raise UserError(f"{change.kind}: there is no pool {name}", f"there are {', '.join(cluster.by_name)}")
    try:
        if device is None:
            return core.set_node_health(name, node, _HEALTH[change.kind], now)
        return core.set_device_health(name, node, device, change.kind == "good_gpu", now)
    except ValueError as error:
        raise UserError(f"{change.kind}: {error}", "") from None


_HEALTH = {
    "cordon": Health.CORDONED,
    "drain": Health.DRAINING,
    "down": Health.DOWN,
    "repair": Health.HEALTHY,
}


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


def rehearse(core: Scheduler, now: float) -> None:
    """A whole cycle and every other running job stopped, then discarded."""
    transaction = core.transaction
    transaction.begin()
    for action in core.actions:
        action(core.state, transaction, now)
    for slot in core.state.table.running()[::2]:
        transaction.stop(slot, now)
    transaction.discard()
