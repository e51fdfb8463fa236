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
from schedmate.files import read_small
from schedmate.scheduler import ClusterSpec, PoolSpec

MAX_NODES = 1_000_000
MAX_GPUS_PER_NODE = 100_000
_SHORT = re.compile(r"\s*(\d{1,18})\s*[xX*]\s*(\d{1,18})\s*")
_EXAMPLE = "write for example `pools: {a100: 48x8}` (48 nodes of 8 GPUs)"
_LONGEST_NAME = 200
_MOST_BITS = 64
_POOL_KEYS = ("name", "nodes", "gpus_per_node")


def read_cluster(path: Path) -> ClusterSpec:
    """The cluster described by a YAML file. Raises `UserError` naming the file and the place."""
    tree = _load(path)
    if not isinstance(tree, dict) or "pools" not in tree:
        raise UserError(f"{path}: no `pools`", _EXAMPLE)
    if unknown := sorted(str(key) for key in tree if key != "pools"):
        raise UserError(f"{path}: unknown key {unknown[0]!r}", "only `pools` is known at the top level")
    pools = tree["pools"]
    if isinstance(pools, dict):
        specs = [_short(path, _name(str(path), name), text) for name, text in pools.items()]
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
    text = read_small(path, "give a YAML file that describes the cluster")
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a date or a number out of range
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{path}{where}: not valid YAML", _EXAMPLE) from None


def _short(path: Path, name: str, text: Any) -> PoolSpec:
    match = _SHORT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UserError(f"{path}: pool {name!r} is {_shown(text)}, not NODESxGPUS", _EXAMPLE)
    return _pool(f"{path}: pool {name!r}", name, int(match[1]), int(match[2]))


def _long(path: Path, number: int, entry: Any) -> PoolSpec:
    where = f"{path}: pool {number}"
    if not isinstance(entry, dict):
        raise UserError(f"{where} is not a mapping", f"give it {', '.join(_POOL_KEYS)}")
    if unknown := sorted(str(key) for key in entry if key not in _POOL_KEYS):
        raise UserError(f"{where}: unknown key {unknown[0]!r}", f"known: {', '.join(_POOL_KEYS)}")
    if missing := [key for key in ("name", "nodes") if key not in entry]:
        raise UserError(f"{where}: no {missing[0]!r}", f"give it {', '.join(_POOL_KEYS)}")
    return _pool(where, _name(where, entry["name"]), entry["nodes"], entry.get("gpus_per_node", 8))


def _pool(where: str, name: str, nodes: Any, gpus_per_node: Any) -> PoolSpec:
    return PoolSpec(
        name,
        _count(where, "nodes", nodes, MAX_NODES),
        _count(where, "gpus_per_node", gpus_per_node, MAX_GPUS_PER_NODE),
    )


def _count(where: str, what: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UserError(f"{where}: {what} is {_shown(value)}", f"give a whole number from 1 to {most}")
    return value


def _name(where: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"{where}: the name of a pool is {_shown(value)}", "give it a name in words")
    return value if isinstance(value, str) else _shown(value)


def _shown(value: Any) -> str:
    """A value as an error shows it. Lists and mappings are only named: an alias may unfold them without end."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "out of range"
    plain = isinstance(value, str | int | float | None)
    return repr(value)[:_LONGEST_NAME] if plain else f"a {type(value).__name__}"
