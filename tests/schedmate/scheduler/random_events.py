"""Random clusters, jobs and events, small enough that everything collides with everything."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, Protocol

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Hints, Policy, PoolSpec
from schedmate.scheduler.cluster_types import NodeShape, Profile
from schedmate.scheduler.demand import Role
from schedmate.scheduler.disruption import Disruption
from schedmate.scheduler.early_lane import Early
from schedmate.scheduler.policies import Patience, at_once, by_submission
from schedmate.scheduler.tenants import Queueing, Quota, Tenant
from schedmate.scheduler.topology import Topology

#: Moves as often as can be; the budget binds all the same.
MOVES = Disruption(
    every_s=0.0,
    moves=500.0,
    lost_share=0.001,
    price=1.0,
    moves_per_job=2,
    rest_s=2.0,
    tenant_share=2.0,
    left_broken=0.0,
)

#: Short enough that somebody's is at an end now and then.
PATIENCE = Patience(plans=1, after_s=4.0, backlogs=1.0, longest_s=15.0)
#: Credit that is lost and earned again now and then.
EARLY = Early(least=0.2, credit=2.0, most=3.0, earned=0.1)
PROFILES = (Profile("small", 250, 10), Profile("large", 500, 20))


class Draw(Protocol):
    """Where choices come from: a seeded generator, or hypothesis, which can shrink them."""

    def number(self, low: int, high: int) -> int: ...

    def one_of(self, values: Any) -> Any: ...


class Seeded:
    """Choices from a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._rng.randint(low, high)

    def one_of(self, values: Any) -> Any:
        return self._rng.choice(list(values))


def chance(draw: Draw, one_in: int) -> bool:
    """True in one of so many cases; False is what shrinking ends at."""
    return draw.number(0, one_in - 1) == one_in - 1


def cluster(draw: Draw) -> ClusterSpec:
    """One or two pools, plain or described in detail."""
    return ClusterSpec(tuple(_pool(draw, f"p{i}") for i in range(draw.number(1, 2))))


def _pool(draw: Draw, name: str) -> PoolSpec:
    if chance(draw, 2):
        return PoolSpec(name, draw.number(1, 4), draw.number(1, 4))
    shapes = tuple((draw.number(1, 4), _shape(draw)) for _ in range(draw.number(1, 2)))
    nodes = sum(count for count, _ in shapes)
    sizes = {level: draw.number(1, 4) for level in ("hbd", "leaf", "spine") if chance(draw, 2)}
    profiles = PROFILES if chance(draw, 2) else ()
    return PoolSpec.detailed(
        name, shapes, Topology.regular(nodes, sizes), gpu_memory_mib=40 if chance(draw, 2) else None, profiles=profiles
    )


def _shape(draw: Draw) -> NodeShape:
    gpus = draw.one_of((1, 2, 4, 4))
    return NodeShape(
        gpus,
        islands=draw.one_of([n for n in (1, 2) if gpus % n == 0]),
        numa=draw.one_of([n for n in (1, 2, 4) if gpus % n == 0]),
        nics=draw.number(0, 2),
        cpus_milli=draw.number(2, 8) * 1000 if chance(draw, 3) else None,
        memory_mib=draw.number(2, 8) * 10 if chance(draw, 4) else None,
        disk_mib=draw.number(1, 8) if chance(draw, 6) else None,
        labels=frozenset({("rack", "a")}) if chance(draw, 3) else frozenset(),
        taints=frozenset({"spot"}) if chance(draw, 7) else frozenset(),
        zone="inference" if chance(draw, 7) else None,
    )


def tenants(draw: Draw, spec: ClusterSpec) -> tuple[Tenant, ...]:
    """Two tenants, one of them with two below it; sometimes none."""
    if chance(draw, 2):
        return ()
    left = {pool.name: pool.gpus for pool in spec.pools}
    x, y = _tenant(draw, "a/x", left, ()), _tenant(draw, "a/y", left, ())
    return _tenant(draw, "a", {}, (x, y)), _tenant(draw, "b", left, ())


def _tenant(draw: Draw, name: str, left: dict[str, int], below: tuple[Tenant, ...]) -> Tenant:
    quotas = {}
    for pool in left:
        guaranteed = draw.number(0, left[pool])
        left[pool] -= guaranteed
        borrow, lend = (draw.number(0, 4) if chance(draw, 3) else None for _ in range(2))
        quotas[pool] = Quota(float(guaranteed), borrow, lend)
    queueing = draw.one_of((None, *Queueing))
    return Tenant(name, quotas, below, float(draw.number(1, 3)), isolated=chance(draw, 5), queueing=queueing)


def policies() -> dict[str, Policy]:
    """All policies, and the full queue layer in its ways; times short enough to matter here."""
    core = replace(
        POLICIES["core"],
        order=by_submission,
        reserve_from=at_once,
        starvation_bound_s=30.0,
        min_run_s=1.0,
        most_preemptions=2,
        spared_s=6.0,
        resize_every_s=2.0,
    )
    return {
        **POLICIES,
        "core, nobody evicted for others": replace(core, preempts=False),
        "easy with the layer, preempting": replace(POLICIES["easy"].with_queue_layer(), preempts=True, spared_s=6.0),
        "core at once": core,
        "core, two reserved": replace(core, reservations=2),
        "core, all reserved": replace(core, reservations=math.inf),
        "core, best effort": replace(core, queueing=Queueing.BEST_EFFORT),
        "core, strict": replace(core, queueing=Queueing.STRICT),
        "core, moving": replace(core, defragment=MOVES),
        "core, moving, two reserved": replace(core, defragment=MOVES, reservations=2),
        "core, ageing": replace(core, ageing_s=5.0, starvation_bound_s=math.inf),
        "core, early": replace(POLICIES["core"], early=EARLY, min_run_s=1.0),
        "core at once, early": replace(core, early=EARLY),
        "core, moving, two reserved, early": replace(core, defragment=MOVES, reservations=2, early=EARLY),
        "core, patient, early": replace(
            POLICIES["core"], patience=PATIENCE, starvation_bound_s=30.0, early=EARLY, min_run_s=0.0
        ),
        "core, patient": replace(POLICIES["core"], patience=PATIENCE, starvation_bound_s=30.0),
        "core, patient, two planned, two reserved": replace(
            POLICIES["core"], patience=replace(PATIENCE, plans=2), starvation_bound_s=math.inf, reservations=2
        ),
        "easy with the layer": POLICIES["easy"].with_queue_layer(),
        "fifo with the layer": POLICIES["fifo"].with_queue_layer(),
    }


def job(draw: Draw, spec: ClusterSpec, full: bool, tree: tuple[Tenant, ...]) -> dict[str, Any]:
    """What `World.submit` takes; ``full``: with all fields of the queue layer."""
    runtime_s = float(draw.number(0, 12))
    asks: dict[str, Any] = {"runtime_s": runtime_s}
    if full and chance(draw, 3):
        asks["demand"] = demand = _demand(draw)
        asks["gpus"] = demand.gpus
    else:
        pool = draw.one_of(spec.pools)
        asks["gpus"] = draw.number(1, pool.gpus + 1) if chance(draw, 2) else draw.number(1, pool.gpus_per_node)
        if chance(draw, 3):
            asks["gpu_type"] = pool.name
    if not chance(draw, 4):
        asks["limit_s"] = runtime_s + draw.number(0, 12)
    if not chance(draw, 3):
        asks["estimate_s"] = float(draw.number(0, 12))
    if chance(draw, 2):
        expected_s = float(draw.number(0, 12))
        # Not drawn: what earlier seeds mean stays the same.
        fails_early = (None, 0.1, 0.5, 1.0)[int(runtime_s + expected_s) % 4]
        early_s = 1.0 + int(runtime_s * expected_s) % 4
        asks["hints"] = Hints(expected_s, expected_s + draw.number(0, 3), fails_early=fails_early, early_s=early_s)
    return {**asks, **(_queue_fields(draw, tree) if full else _eviction_fields(draw))}


def _queue_fields(draw: Draw, tree: tuple[Tenant, ...]) -> dict[str, Any]:
    asks: dict[str, Any] = {}
    if tree and not chance(draw, 4):
        asks["tenant"] = draw.one_of(("a/x", "a/y", "b", "b"))
    if chance(draw, 3):
        asks["priority"] = draw.number(0, 2)
    if chance(draw, 3):
        asks["scaling"] = draw.one_of((0.0, 0.5, 1.0))
        asks["repairable"] = chance(draw, 2)
    if chance(draw, 6):
        asks["service"], asks["least_replicas"] = draw.one_of((("r", 1), ("s", 2)))
    return {**asks, **_eviction_fields(draw)}


def _eviction_fields(draw: Draw) -> dict[str, Any]:
    asks: dict[str, Any] = {}
    if not chance(draw, 3):
        asks["preemptible"] = True
        asks["grace_s"] = float(draw.number(0, 2)) if chance(draw, 2) else 0.0
        asks["restart_s"] = float(draw.number(0, 1)) if chance(draw, 2) else 0.0
        asks["min_run_s"] = float(draw.number(0, 2)) if chance(draw, 3) else 0.0
        if chance(draw, 2):
            asks["checkpoint_s"] = float(draw.number(1, 3))
    return asks


def _demand(draw: Draw) -> Demand:
    conditions: dict[str, Any] = {}
    if chance(draw, 3):
        conditions["level"] = draw.one_of(("island", "node", "hbd", "leaf", "spine", "pool"))
        conditions["required"] = chance(draw, 2)
    if chance(draw, 8):
        conditions["selector"] = frozenset({("rack", "a")})
    if chance(draw, 4):
        conditions["tolerations"] = frozenset({"spot"})
    if chance(draw, 7):
        conditions["zone"] = "inference"
        conditions["spread"] = "level" not in conditions and chance(draw, 2)
    conditions["heavy"] = chance(draw, 4)
    conditions["shareable"] = chance(draw, 2)
    if chance(draw, 3):
        return Demand.of(gpus=draw.number(1, 6), **conditions)
    roles = tuple(_role(draw, f"r{i}") for i in range(draw.number(1, 2)))
    return Demand.of(roles, **conditions)


def _role(draw: Draw, name: str) -> Role:
    kind = draw.number(0, 3)
    replicas = draw.number(1, 3)
    gpus = draw.number(1, 2) if kind < 2 else 0
    return Role(
        name,
        replicas,
        gpus=gpus,
        milli_gpu=draw.number(1, 9) * 100 if kind == 2 else 0,
        profile=draw.one_of(("small", "large")) if kind == 3 and chance(draw, 2) else None,
        gpu_memory_mib=draw.number(0, 20) if kind == 2 else 0,
        nics=draw.number(0, 1) if gpus else 0,
        cpus_milli=draw.number(0, 3) * 500 if chance(draw, 2) else 0,
        memory_mib=draw.number(0, 3) * 5 if chance(draw, 2) else 0,
        disk_mib=draw.number(0, 2) if chance(draw, 3) else 0,
        min_replicas=draw.number(1, replicas) if chance(draw, 3) else None,
    )


def event(world: Any, draw: Draw, full: bool) -> None:
    """One random event."""
    kind = draw.number(0, 15)
    if kind <= 5:
        for _ in range(draw.number(1, 4)):
            world.submit(**job(draw, world.spec, full, world.tenants))
    elif kind <= 9:
        world.advance(float(draw.number(0, 6)))
    elif kind == 10:
        world.end(draw.number(0, 9))
    elif kind == 11:
        world.rehearse()
    elif kind == 12 and chance(draw, 2):
        hardware(world, draw)
    elif kind == 13 and chance(draw, 2):
        world.withdraw(draw.number(0, 9))
    elif kind == 14 and chance(draw, 2):
        world.evict(draw.number(0, 9))
    else:
        world.cycle()


def hardware(world: Any, draw: Draw) -> None:
    """A node of a pool described in detail, or one of its GPUs, breaks or is repaired."""
    detailed = [pool for pool in world.spec.pools if pool.shapes]
    if not detailed:
        return
    broken = [(name, node, "repair") for name, node in world.sick]
    broken += [(name, node, "good_gpu") for (name, node), gpus in world.bad.items() if gpus]
    if broken and not chance(draw, 4):
        name, node, kind = draw.one_of(sorted(broken))
        pool = next(pool for pool in detailed if pool.name == name)
    else:
        pool = draw.one_of(detailed)
        node, kind = draw.number(0, pool.nodes - 1), draw.one_of(("cordon", "drain", "down", "bad_gpu"))
    if kind.endswith("_gpu"):
        shapes = [shape for count, shape in pool.shapes for _ in range(count)]
        bad = sorted(world.bad.get((pool.name, node), ())) if kind == "good_gpu" else range(shapes[node].gpus)
        world.change(kind, pool.name, node, draw.one_of(bad))
    else:
        world.change(kind, pool.name, node)
