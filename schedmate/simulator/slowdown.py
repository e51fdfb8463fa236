"""How much longer a job takes where it is placed. The parameters and their sources are in ``slowdown.yaml``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from prompts.errors import UserError
from schedmate.files import read_small
from schedmate.scheduler import PoolSpec
from schedmate.scheduler.cluster_types import Shares
from schedmate.yaml_once import TwiceError, load_once

USUAL = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Parts of the runtime that a bad placement adds, see the file. A run keeps the pace that it began with."""

    beyond_nodes: float
    beyond_groups: float
    shared_gpu: float

    def factor(self, pool: PoolSpec, shares: Shares) -> float:
        """By what the runtime of a job on these shares of a pool is multiplied, 1 at least."""
        nodes, gpus = {share[0] for share in shares}, sum(share[1] for share in shares)
        fewest = max(1, -(-gpus // pool.gpus_per_node))
        found = 1.0 + self.beyond_nodes * max(0.0, len(nodes) / fewest - 1.0)
        leaves = pool.topology.starts("leaf")
        if leaves:
            largest = max(b - a for a, b in zip(leaves, (*leaves[1:], pool.nodes), strict=True))
            groups = len({bisect_right(leaves, node) for node in nodes})
            found += self.beyond_groups * max(0.0, groups / -(-fewest // largest) - 1.0)
        if any(len(share) > 3 and share[3] for share in shares):
            found += self.shared_gpu
        return found


def read_slowdown(path: Path = USUAL) -> Slowdown:
    """Of every parameter the ``value`` and its ``source``. Raises `UserError`."""
    names = [field.name for field in fields(Slowdown)]
    try:
        given = load_once(read_small(path, f"as in {USUAL.name}"))
    except (yaml.YAMLError, TwiceError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}", f"as in {USUAL.name}") from None
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise UserError(f"{path}: has to say {', '.join(names)} and nothing else", f"as in {USUAL.name}")
    return Slowdown(**{name: _value(f"{path}: {name}", given[name]) for name in names})


def _value(where: str, entry: Any) -> float:
    if not isinstance(entry, Mapping) or set(entry) != {"value", "source"} or not str(entry["source"] or "").strip():
        raise UserError(f"{where}: needs a value and its source", "a source may be: assumed")
    value = entry["value"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise UserError(f"{where}: {value!r} is not a number from 0 to 100", "0.1 is a tenth longer")
    return float(value)
