"""When hardware breaks and is repaired in a replay: from a file, or drawn from a seed. The file: docs/simulator.md."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace, merge
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from prompts.errors import UserError
from schedmate.durations import parse_duration
from schedmate.files import read_small
from schedmate.scheduler import ClusterSpec
from schedmate.simulator.audit import shapes_of
from schedmate.yaml_once import TwiceError, load_once

#: What may happen to a node, and to one of its GPUs.
NODE_KINDS = ("cordon", "drain", "down", "repair")
GPU_KINDS = ("bad_gpu", "good_gpu")

_COLUMNS = ("at", "kind", "pool", "node", "gpu")
_NEEDED = ("at", "kind", "node")
_MODEL = ("seed", "node_mtbf", "node_repair", "gpu_mtbf", "gpu_repair")


class Fault(NamedTuple):
    """``at_s`` seconds after the first submission something happens to a node, or to one GPU of it."""

    at_s: float
    kind: str
    pool: str
    node: int
    device: int | None = None
    where: str = ""  # in which file it stands


@dataclass(frozen=True, slots=True)
class FaultModel:
    """Every node, and every GPU, breaks after a time of its own (exponential with this mean, None for never) and is
    repaired after another one. The same seed gives the same faults."""

    seed: int = 1
    node_mtbf_s: float | None = None
    node_repair_s: float = 4 * 3600.0
    gpu_mtbf_s: float | None = None
    gpu_repair_s: float = 24 * 3600.0

    def faults(self, cluster: ClusterSpec) -> Iterator[Fault]:
        """Without end, in order of time."""
        draw, heap = random.Random(self.seed), list[tuple[float, str, int, int, bool]]()
        for pool in cluster.pools:
            for node, shape in enumerate(shapes_of(pool)):
                gpus = range(shape.gpus) if self.gpu_mtbf_s else ()
                for device in (*(() if self.node_mtbf_s is None else (-1,)), *gpus):
                    heap.append((draw.expovariate(1 / self._mean_s(device, False)), pool.name, node, device, False))
        heapify(heap)
        while heap:
            at_s, name, node, device, is_broken = heap[0]
            heapreplace(
                heap,
                (at_s + draw.expovariate(1 / self._mean_s(device, not is_broken)), name, node, device, not is_broken),
            )
            kinds = ("down", "repair") if device < 0 else GPU_KINDS
            yield Fault(at_s, kinds[is_broken], name, node, None if device < 0 else device)

    def _mean_s(self, device: int, is_broken: bool) -> float:
        """How long it stays as it is."""
        if is_broken:
            return self.node_repair_s if device < 0 else self.gpu_repair_s
        return (self.node_mtbf_s if device < 0 else self.gpu_mtbf_s) or 0.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What is told, and what is drawn."""

    told: tuple[Fault, ...] = ()
    model: FaultModel | None = None

    def faults(self, cluster: ClusterSpec) -> Iterator[Fault]:
        """In order of time. Raises `UserError` for nodes and GPUs that the cluster, described in detail, lacks."""
        pools = {pool.name: shapes_of(pool) for pool in cluster.pools}
        for fault in self.told:
            shapes = pools.get(fault.pool)
            told = f"{fault.where}: " if fault.where else ""
            if shapes is None:
                raise UserError(f"{told}a fault on pool {fault.pool!r}: there is none", f"there are {', '.join(pools)}")
            if fault.node >= len(shapes) or (fault.device or 0) >= shapes[fault.node].gpus:
                place = f"{fault.pool}/{fault.node}" + ("" if fault.device is None else f"/{fault.device}")
                size = f"{fault.pool} has {len(shapes)} nodes of {shapes[0].gpus} GPUs" if shapes else ""
                raise UserError(f"{told}a fault on {place}: there is no such place", f"they count from 0; {size}")
        in_order = sorted(self.told, key=lambda fault: fault.at_s)
        return merge(in_order, self.model.faults(cluster) if self.model else (), key=lambda fault: fault.at_s)


def read_faults(path: Path) -> FaultPlan:
    """From CSV (``at,kind,pool,node,gpu``) or YAML (``events``, ``generate``). Raises `UserError`."""
    text = read_small(path, "see docs/simulator.md")
    if path.suffix.lower() == ".csv":
        return FaultPlan(tuple(_table(path, text)))
    try:
        found = load_once(text)
    except (yaml.YAMLError, TwiceError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}", "see docs/simulator.md") from None
    given = _mapping(f"{path}", found, ("events", "generate"))
    events = given.get("events") or []
    if not isinstance(events, list):
        raise UserError(f"{path}: events is not a list", "see docs/simulator.md")
    told = tuple(_fault(f"{path}: event {number}", each) for number, each in enumerate(events, 1))
    return FaultPlan(told, _model(f"{path}: generate", given["generate"]) if "generate" in given else None)


def _table(path: Path, text: str) -> Iterator[Fault]:
    rows = csv.DictReader(text.splitlines(), skipinitialspace=True)
    header = [name.strip() for name in rows.fieldnames or ()]
    if missing := [name for name in _NEEDED if name not in header]:
        what = f"line 1: no column {' and no column '.join(missing)}" if header else "is empty"
        raise UserError(f"{path}: {what}", f"begin with the line {','.join(_COLUMNS)} (pool and gpu may be left out)")
    if unknown := [name for name in header if name not in _COLUMNS]:
        raise UserError(f"{path}: line 1: no such column: {unknown[0]!r}", f"known: {', '.join(_COLUMNS)}")
    rows.fieldnames = header
    for row in rows:
        if None in row:
            raise UserError(f"{path}: line {rows.line_num}: more cells than line 1 has columns", "take one of them out")
        yield _fault(f"{path}: line {rows.line_num}", row)


def _fault(where: str, row: Any) -> Fault:
    given = {key: value for key, value in _mapping(where, row, _COLUMNS).items() if value not in (None, "")}
    kind = str(given.get("kind", "")).strip()
    if kind not in (*NODE_KINDS, *GPU_KINDS):
        raise UserError(f"{where}: kind {kind!r} is not known", f"one of {', '.join((*NODE_KINDS, *GPU_KINDS))}")
    hint = "say which with gpu" if kind in GPU_KINDS else "leave gpu out, or say bad_gpu or good_gpu"
    if (kind in GPU_KINDS) != ("gpu" in given):
        raise UserError(f"{where}: {kind} is about {'one gpu' if kind in GPU_KINDS else 'a whole node'}", hint)
    node, gpu = (_whole(f"{where}: {key}", given.get(key, 0)) for key in ("node", "gpu"))
    if "node" not in given or "at" not in given:
        raise UserError(f"{where}: says no {'node' if 'at' in given else 'time'}", "it needs at, kind and node")
    at_s = parse_duration(str(given["at"]), f"{where}: at", zero=True)
    return Fault(at_s, kind, str(given.get("pool", "gpu")).strip(), node, gpu if kind in GPU_KINDS else None, where)


def _model(where: str, value: Any) -> FaultModel:
    given = _mapping(where, value, _MODEL)
    times = {f"{key}_s": parse_duration(str(each), f"{where}: {key}") for key, each in given.items() if key != "seed"}
    if "node_mtbf" not in given and "gpu_mtbf" not in given:
        raise UserError(f"{where}: nothing ever breaks", "give node_mtbf or gpu_mtbf, such as 60d")
    return FaultModel(seed=_whole(f"{where}: seed", given.get("seed", 1)), **times)


def _mapping(where: str, value: Any, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: is not a mapping", f"of {', '.join(known)}")
    if unknown := [str(key) for key in value if key not in known]:
        raise UserError(f"{where}: no such key: {unknown[0]}", f"known: {', '.join(known)}")
    return value


def _whole(where: str, value: Any) -> int:
    text = str(value).strip()
    if not text.isdecimal() or len(text) > 9:
        raise UserError(f"{where}: {value!r} is not a whole number from 0 up", "write 0, 1, 2 and so on")
    return int(text)
