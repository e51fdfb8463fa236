"""Reads a cluster description: YAML with pools of equal nodes.

Long form::

    pools:
      - {name: a100, nodes: 48, gpus_per_node: 8}
      - {name: v100, nodes: 24, gpus_per_node: 4}

Short form, the same cluster::

    pools: {a100: 48x8, v100: 24x4}
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from prompts.errors import UserError
from schedmate.scheduler import ClusterSpec, PoolSpec

MAX_FILE_BYTES = 1 << 20
MAX_NODES = 1_000_000
MAX_GPUS_PER_NODE = 100_000
_SHORT = re.compile(r"\s*(\d+)\s*[xX*]\s*(\d+)\s*")
_EXAMPLE = "write for example `pools: {a100: 48x8}` (48 nodes of 8 GPUs)"
_POOL_KEYS = ("name", "nodes", "gpus_per_node")


def read_cluster(path: Path) -> ClusterSpec:
    """The cluster described by a YAML file. Raises `UserError` naming the file and the place."""
    return cluster_from(_load(path), path)


def cluster_from(tree: Any, path: Path) -> ClusterSpec:
    """The cluster described by what was read from ``path``, which errors name."""
    if not isinstance(tree, dict) or "pools" not in tree:
        raise UserError(f"{path}: no `pools`", _EXAMPLE)
    if unknown := sorted(str(key) for key in tree if key != "pools"):
        raise UserError(f"{path}: unknown key {unknown[0]!r}", "only `pools` is known at the top level")
    pools = tree["pools"]
    if isinstance(pools, dict):
        specs = [_short(path, str(name), text) for name, text in pools.items()]
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
        _count(where, "nodes", nodes, MAX_NODES), _count(where, "gpus_per_node", gpus_per_node, MAX_GPUS_PER_NODE)
    )


def _load(path: Path) -> Any:
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a folder", "give a YAML file that describes the cluster")
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UserError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB", "give a cluster description")
        return yaml.safe_load(data.decode("utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UserError(f"{path}: {reason}", "give a readable YAML file") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{path}{where}: not valid YAML", _EXAMPLE) from None


def _short(path: Path, name: str, text: Any) -> PoolSpec:
    match = _SHORT.fullmatch(str(text))
    if match is None:
        raise UserError(f"{path}: pool {name!r} is {text!r}, not NODESxGPUS", _EXAMPLE)
    return _pool(f"{path}: pool {name!r}", name, int(match[1]), int(match[2]))


def _long(path: Path, number: int, entry: Any) -> PoolSpec:
    where = f"{path}: pool {number}"
    if not isinstance(entry, dict):
        raise UserError(f"{where} is not a mapping", f"give it {', '.join(_POOL_KEYS)}")
    if unknown := sorted(str(key) for key in entry if key not in _POOL_KEYS):
        raise UserError(f"{where}: unknown key {unknown[0]!r}", f"known: {', '.join(_POOL_KEYS)}")
    if missing := [key for key in ("name", "nodes") if key not in entry]:
        raise UserError(f"{where}: no {missing[0]!r}", f"give it {', '.join(_POOL_KEYS)}")
    return _pool(where, str(entry["name"]), entry["nodes"], entry.get("gpus_per_node", 8))


def _pool(where: str, name: str, nodes: Any, gpus_per_node: Any) -> PoolSpec:
    return PoolSpec(
        name,
        _count(where, "nodes", nodes, MAX_NODES),
        _count(where, "gpus_per_node", gpus_per_node, MAX_GPUS_PER_NODE),
    )


def _count(where: str, what: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UserError(f"{where}: {what} is {value!r}", f"give a whole number from 1 to {most}")
    return value
