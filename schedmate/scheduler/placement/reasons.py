"""Why a gang can not start on a pool now, in words."""

from __future__ import annotations

import numpy as np

from schedmate.scheduler.cluster_types import PoolSpec
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.placement.fit import by_cell, by_node
from schedmate.scheduler.placement.gang import levels_to_try
from schedmate.scheduler.pool_index import HIDDEN, PoolIndex
from schedmate.scheduler.pool_layout import Bools, Part


def why_not(pool: PoolSpec, index: FreeIndex | PoolIndex, demand: Demand) -> str:
    """Why a gang that asks for ``demand`` can not start on this pool now."""
    if isinstance(index, PoolIndex):
        return _in_detail(pool, index, demand)
    if not demand.is_plain:
        return f"pool {pool.name} is described by counts only: it can not tell whether it has what is asked for"
    gpus = demand.gpus
    if gpus > pool.gpus:
        return f"asks for {gpus} GPUs, pool {pool.name} has {pool.gpus}"
    if gpus > index.free_gpus:
        return f"needs {gpus} GPUs, {index.free_gpus} of pool {pool.name} are free"
    largest = index.levels.bit_length() - 1
    if gpus <= pool.gpus_per_node:
        return (
            f"needs {gpus} GPUs on one node; pool {pool.name} has {index.free_gpus} free, at most {largest} on a node"
        )
    whole, rest = divmod(gpus, pool.gpus_per_node)
    needs = f"{whole} whole free nodes" + (f" and {rest} GPUs on another" if rest else "")
    return (
        f"needs {needs}; {index.free_gpus} GPUs of pool {pool.name} are free, "
        f"{index.masks[pool.gpus_per_node].bit_count()} nodes are free as a whole"
    )


def _in_detail(pool: PoolSpec, index: PoolIndex, demand: Demand) -> str:
    parts = index.layout.parts(demand)
    if isinstance(parts, str):
        return parts
    gpus = demand.least_gpus
    if gpus > pool.gpus:
        return f"asks for {gpus} GPUs, pool {pool.name} has {pool.gpus}"
    eligible = index.layout.eligible(demand)
    if eligible is not None and not eligible.any():
        return f"no node of pool {pool.name} has the labels or the zone asked for, or its taints are not tolerated"
    if gpus > index.free_gpus:
        return f"needs {gpus} GPUs, {index.free_gpus} of pool {pool.name} are free{_unhealthy(index)}"
    for part in parts:
        replicas = part.replicas if not demand.roles else demand.roles[part.role].least_replicas
        found = int(by_node(index, part, eligible).sum())
        if found < replicas:
            scarce = _scarce(index, part, replicas, eligible)
            return (
                f"needs {replicas} x {_words(part)}; pool {pool.name} has room for {found} now{scarce}"
                f"{_unhealthy(index)}"
            )
    if demand.level in ("node", "island") and demand.required:
        return f"needs {gpus} GPUs on one {demand.level}; no {demand.level} of pool {pool.name} has room for all of it"
    if demand.level is not None and demand.required:
        level = levels_to_try(index.layout, demand)[-1]
        starts = index.layout.groups[level]
        most = max(parts, key=lambda part: part.replicas)
        best = int(np.add.reduceat(by_cell(index, most, eligible), starts).max())
        return (
            f"must fit one {level} group; needs {most.replicas} x {_words(most)}, the best of the {len(starts)} groups "
            f"of pool {pool.name} has room for {best} now"
        )
    return f"the roles fit pool {pool.name} one by one but not together"


def _scarce(index: PoolIndex, part: Part, replicas: int, eligible: Bools | None) -> str:
    """Which single resource, were it plentiful, would make room."""
    for field, name in (
        ("cpus_milli", "CPUs"), ("memory_mib", "memory"), ("disk_mib", "disk"), ("nics", "NICs"),
    ):  # fmt: skip
        if getattr(part, field) and int(by_node(index, part._replace(**{field: 0}), eligible).sum()) >= replicas:
            return f", for want of {name}"
    if eligible is not None and int(by_node(index, part, None).sum()) >= replicas:
        return " on the nodes whose labels, taints and zone let it in"
    return ""


def _words(part: Part) -> str:
    words = []
    if part.gpus:
        words.append(f"{part.gpus} GPUs on one node")
    if part.milli:
        words.append(
            f"{part.milli} milli of one GPU" + (f" with {part.device_memory_mib} MiB" * bool(part.device_memory_mib))
        )
    if part.nics:
        words.append(f"{part.nics} NICs")
    if part.cpus_milli:
        words.append(f"{part.cpus_milli / 1000:g} CPUs")
    if part.memory_mib:
        words.append(f"{part.memory_mib} MiB memory")
    if part.disk_mib:
        words.append(f"{part.disk_mib} MiB disk")
    return " + ".join(words) or "a place"


def _unhealthy(index: PoolIndex) -> str:
    out = int((index.bucket == HIDDEN).sum())
    bad = sum(mask.bit_count() for mask in index.bad.values())
    words = ([f"{out} nodes take no work"] if out else []) + ([f"{bad} GPUs are bad"] if bad else [])
    return f" ({', '.join(words)})" if words else ""
