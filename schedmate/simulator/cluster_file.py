"""Reads a cluster description in YAML. Every key is explained, with examples, in docs/cluster-file.md.

Short form: pools of equal nodes of which nothing but the GPUs is known::

    pools: {a100: 48x8, v100: 24x4}

Long form: as much as is known, per pool; ``except`` names the nodes that differ::

    pools:
      - name: h100
        nodes: 64
        gpus_per_node: 8
        gpu_memory: 80Gi
        groups: {leaf: 16, spine: 32}
        islands: 1
        numa: 2
        nics: 8
        cpus: 128
        memory: 1Ti
        except: {0-3: {zone: inference}}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from prompts.errors import UserError
from schedmate.files import read_small
from schedmate.scheduler import ClusterSpec, PoolSpec
from schedmate.scheduler.cluster_types import NodeShape, Profile
from schedmate.scheduler.tenants import Queueing, Tenant, TenantTree
from schedmate.scheduler.topology import GROUP_LEVELS, Topology
from schedmate.simulator import cluster_fields as f
from schedmate.simulator.tenant_file import tenants_from
from schedmate.yaml_once import TwiceError, load_once

MAX_NODES = 1_000_000
MAX_GPUS_PER_NODE = 100_000

#: Masks of devices are kept for nodes described in detail; no machine comes near this.
MAX_DEVICES = 1024

_SHORT = re.compile(r"\s*(\d{1,18})\s*[xX*]\s*(\d{1,18})\s*")
_EXAMPLE = "write for example `pools: {a100: 48x8}` (48 nodes of 8 GPUs)"

#: Keys about one node, by field of `NodeShape`, and how each is read.
_NODE: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "gpus_per_node": ("gpus", lambda where, value: f.count(where, value, MAX_DEVICES)),
    "islands": ("islands", lambda where, value: f.count(where, value, MAX_DEVICES)),
    "numa": ("numa", lambda where, value: f.count(where, value, MAX_DEVICES)),
    "nics": ("nics", lambda where, value: f.count(where, value, MAX_DEVICES, least=0)),
    "cpus": ("cpus_milli", f.milli),
    "memory": ("memory_mib", f.mib),
    "disk": ("disk_mib", f.mib),
    "labels": ("labels", f.labels),
    "taints": ("taints", f.words),
    "zone": ("zone", f.word),
}
_POOL_KEYS = ("name", "nodes", "gpus_per_node", "gpu_memory", "speed", "groups", "slices", "except", *list(_NODE)[1:])

#: Keys that a pool may have and still be one of which nothing but counts is known.
_PLAIN_KEYS = {"name", "nodes", "gpus_per_node", "gpu_memory", "speed"}


def read_cluster(path: Path) -> ClusterSpec:
    """The cluster described by a YAML file. Raises `UserError` naming the file and the place."""
    return cluster_from(_load(path), path)


def read_tenants(path: Path, cluster: ClusterSpec) -> tuple[Tenant, ...]:
    """The tenants that the same file names; none if it has no ``tenants``. Raises `UserError` if they do not fit."""
    tree = _load(path)
    if not isinstance(tree, dict) or "tenants" not in tree:
        return ()
    tenants = tenants_from(f"{path}: tenants", tree["tenants"])
    try:
        TenantTree(cluster, tenants, Queueing.BACKFILL)
    except ValueError as error:
        raise UserError(f"{path}: tenants: {error}", "see docs/cluster-file.md") from None
    return tenants


def cluster_from(tree: Any, path: Path) -> ClusterSpec:
    """The cluster that a parsed description stands for; ``path`` is named in errors."""
    if not isinstance(tree, dict) or "pools" not in tree:
        raise UserError(f"{path}: no `pools`", _EXAMPLE)
    if unknown := [key for key in tree if key not in ("pools", "tenants")]:
        raise UserError(f"{path}: unknown key {f.shown(unknown[0])}", "known at the top level: pools, tenants")
    pools = tree["pools"]
    if isinstance(pools, dict):
        specs = [_short(path, f.word(f"{path}: the name of a pool", name), text) for name, text in pools.items()]
    elif isinstance(pools, list):
        specs = [_long(path, i, entry) for i, entry in enumerate(pools, start=1)]
    else:
        raise UserError(f"{path}: `pools` is neither a list nor a mapping", _EXAMPLE)
    try:
        return ClusterSpec(tuple(specs))
    except ValueError as error:
        raise UserError(f"{path}: {error}", _EXAMPLE) from None


def uniform_cluster(nodes: int, gpus_per_node: int) -> ClusterSpec:
    """One pool of equal nodes. Raises `UserError` for sizes out of range."""
    where = "--nodes and --gpus-per-node"
    return ClusterSpec.uniform(
        f.count(f"{where}: nodes", nodes, MAX_NODES),
        f.count(f"{where}: gpus_per_node", gpus_per_node, MAX_GPUS_PER_NODE),
    )


def _load(path: Path) -> Any:
    text = read_small(path, "give a YAML file that describes the cluster")
    try:
        return load_once(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a date or a number out of range
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        what = error.problem if isinstance(error, TwiceError) else "not valid YAML"
        raise UserError(f"{path}{where}: {what}", _EXAMPLE) from None


def _short(path: Path, name: str, text: Any) -> PoolSpec:
    match = _SHORT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UserError(f"{path}: pool {name!r} is {f.shown(text)}, not NODESxGPUS", _EXAMPLE)
    where = f"{path}: pool {name!r}"
    return PoolSpec(
        name,
        f.count(f"{where}: nodes", int(match[1]), MAX_NODES),
        f.count(f"{where}: gpus_per_node", int(match[2]), MAX_GPUS_PER_NODE),
    )


def _long(path: Path, number: int, entry: Any) -> PoolSpec:
    where = f"{path}: pool {number}"
    given = f.mapping(where, entry, f"give it {', '.join(_POOL_KEYS[:3])}")
    f.known(where, given, _POOL_KEYS)
    if missing := [key for key in ("name", "nodes") if key not in given]:
        raise UserError(f"{where}: no {missing[0]!r}", "every pool needs a name and its nodes")
    name, nodes = f.word(f"{where}: name", given["name"]), f.count(f"{where}: nodes", given["nodes"], MAX_NODES)
    speed = f.positive(f"{where}: speed", given.get("speed", 1.0))
    memory_mib = f.mib(f"{where}: gpu_memory", given["gpu_memory"]) if "gpu_memory" in given else None
    gpus = given.get("gpus_per_node", 8)
    if given.keys() <= _PLAIN_KEYS:
        gpus = f.count(f"{where}: gpus_per_node", gpus, MAX_GPUS_PER_NODE)
        return PoolSpec(name, nodes, gpus, speed=speed, gpu_memory_mib=memory_mib)
    usual = {"gpus_per_node": gpus} | {key: given[key] for key in _NODE if key in given}
    try:
        shapes = _shapes(where, nodes, usual, given.get("except"))
        topology = _topology(f"{where}: groups", nodes, given.get("groups"))
        return PoolSpec.detailed(name, shapes, topology, speed, memory_mib, _slices(where, given.get("slices")))
    except ValueError as error:
        raise UserError(f"{where}: {error}", "see docs/cluster-file.md") from None


def _shapes(where: str, nodes: int, usual: Mapping[str, Any], others: Any) -> tuple[tuple[int, NodeShape], ...]:
    """Runs of equal nodes in the order of their numbers."""
    shape = _shape(where, usual)
    by_node: dict[int, NodeShape] = {}
    for numbers, changes in f.mapping(f"{where}: except", others or {}, "write `0-3: {zone: inference}`").items():
        place = f"{where}: except {numbers}"
        changed = f.mapping(place, changes, "write `0-3: {zone: inference}`")
        f.known(place, changed, _NODE)
        other = _shape(place, {**usual, **changed})
        for node in f.numbers(place, numbers, nodes):
            if node in by_node:
                raise UserError(f"{place}: node {node} is named twice", "name each node in one line only")
            by_node[node] = other
    runs: list[tuple[int, NodeShape]] = []
    if not by_node:
        return ((nodes, shape),)
    for node in range(nodes):
        each = by_node.get(node, shape)
        if runs and runs[-1][1] == each:
            runs[-1] = runs[-1][0] + 1, each
        else:
            runs.append((1, each))
    return tuple(runs)


def _shape(where: str, given: Mapping[str, Any]) -> NodeShape:
    return NodeShape(**{_NODE[key][0]: _NODE[key][1](f"{where}: {key}", value) for key, value in given.items()})


def _topology(where: str, nodes: int, value: Any) -> Topology:
    """Sizes of the groups of each level in nodes: one number for equal groups, or one after the other."""
    given = f.mapping(where, value or {}, "write for example {leaf: 32, spine: 256}")
    f.known(where, given, GROUP_LEVELS)
    regular: dict[str, int] = {}
    listed: dict[str, tuple[int, ...]] = {}
    for level, sizes in given.items():
        if isinstance(sizes, list):
            listed[level] = f.starts(f"{where}: {level}", sizes, nodes)
        else:
            regular[level] = f.count(f"{where}: {level}", sizes, MAX_NODES)
    equal = Topology.regular(nodes, regular)
    return Topology(**{level: listed.get(level) or equal.starts(level) for level in GROUP_LEVELS})


def _slices(where: str, value: Any) -> tuple[Profile, ...]:
    found = []
    for name, each in f.mapping(f"{where}: slices", value or {}, "write `1g.10gb: {gpu: 0.14, memory: 10Gi}`").items():
        place = f"{where}: slice {name}"
        given = f.mapping(place, each, "write {gpu: 0.14, memory: 10Gi}")
        f.known(place, given, ("gpu", "memory"))
        found.append(Profile(name, f.milli(f"{place}: gpu", given.get("gpu")), f.mib(place, given.get("memory", 0))))
    return tuple(found)
