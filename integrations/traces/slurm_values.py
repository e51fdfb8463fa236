"""What Slurm's accounting writes into its fields: trackable resources, memory, limits, states, ids.

Source: the manual pages of sacct(1), sbatch(1) and slurm.conf(5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from analyzers.types import State
from integrations.traces.values import NO_VALUE, duration_s, state

#: More GPUs, CPUs or MiB than this are garbage.
_MAX_COUNT = 10**12
_MEMORY = re.compile(r"(?P<amount>\d{1,15}(?:\.\d{1,9})?)(?P<unit>[KMGTPE]?)(?P<of>[nc]?)")
_MIB = {"K": 1 / 1024, "": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3, "E": 1024.0**4}
_OLD_GRES = re.compile(r"(?:^|,)gpu(?::(?P<type>[^:,()=]+))?[:=](?P<count>\d{1,9})(?:\(|,|$)")
_SLICE = re.compile(r"\d+g\.\d+gb", re.IGNORECASE)
_MPS_OF_A_GPU = 100
#: Two-letter codes, where sacct was asked for them (its field State has the long names).
_CODES: dict[str, State] = {
    "BF": "boot_fail", "CA": "cancelled", "CD": "completed", "CG": "running", "DL": "deadline", "F": "failed",
    "NF": "node_fail", "OOM": "out_of_memory", "PD": "pending", "PR": "preempted", "R": "running",
    "S": "suspended", "TO": "timeout",
}  # fmt: skip
_UNKNOWN = frozenset({"", "unknown", "none", "n/a", "invalid", "(null)", "none assigned"})
_ARRAY = re.compile(r"(?P<job>\d+)_\[(?P<tasks>[\d,:%-]+)\]")
#: Waiting array tasks that one row stands for are written out up to this many.
MAX_ARRAY_TASKS = 100_000


@dataclass(frozen=True, slots=True)
class Tres:
    """Trackable resources of a whole job; None for what is not named.

    ``gpu_milli`` as in a job record. ``odd`` says what is counted as a whole GPU without being one.
    """

    gpus: int | None = None
    gpu_type: str | None = None
    gpu_milli: int | None = None
    cpus: float | None = None
    memory_mib: float | None = None
    nodes: int | None = None
    odd: str = ""


@lru_cache(100_000)  # few shapes, many jobs
def parse_tres(text: str) -> Tres:
    """From ``billing=8,cpu=16,gres/gpu:a100=8,gres/gpu=8,mem=64G,node=1``; what can not be read is not named."""
    counts: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            counts.setdefault(name.strip().lower(), value.strip())
    typed = {
        name.removeprefix("gres/gpu:"): amount
        for name, value in counts.items()
        if name.startswith("gres/gpu:") and (amount := _count(value)) is not None
    }
    return tres_of(
        typed,
        total=_count(counts.get("gres/gpu", "")),
        shards=_count(counts.get("gres/shard", "")),
        mps=_count(counts.get("gres/mps", "")),
        cpus=_count(counts.get("cpu", "")),
        memory_mib=memory_mib(counts.get("mem", "")),
        nodes=_count(counts.get("node", "")),
    )


def tres_of(
    typed: dict[str, int],
    *,
    total: int | None,
    shards: int | None,
    mps: int | None,
    cpus: float | None,
    memory_mib: float | None,
    nodes: int | None,
) -> Tres:
    """Resources from counts: GPUs by type beside their total, and shares of GPUs where no whole ones are named."""
    used = {name: count for name, count in typed.items() if count}
    gpus = total or sum(used.values())
    milli, odd = None, ""
    if any(_SLICE.search(name) for name in used):
        odd = "MIG slices are counted as GPUs"
    elif not gpus and mps:
        gpus, milli = -(-mps // _MPS_OF_A_GPU), (mps * 10 if mps < _MPS_OF_A_GPU else None)
    elif not gpus and shards:
        gpus, odd = 1, "shards of a GPU are counted as one GPU"
    named = total is not None or bool(typed) or bool(gpus)
    kind = "|".join(sorted(used)) or None
    return Tres(gpus if named else None, kind, milli, cpus, memory_mib, nodes, odd)


@lru_cache(10_000)
def parse_old_gres(text: str, nodes: int | None) -> Tres:
    """From ReqGRES or AllocGRES of Slurm before 20.11, ``gpu:v100:4``: counted for each node."""
    found = [(match["type"], int(match["count"])) for match in _OLD_GRES.finditer(text)]
    each = sum(count for _, count in found)
    kinds = "|".join(sorted({kind for kind, count in found if kind and count and not kind.isdigit()}))
    return Tres(gpus=each * (nodes or 1), gpu_type=kinds or None) if found else Tres()


def memory_mib(text: str, cpus: float | None = None, nodes: int | None = None) -> float | None:
    """MiB from ``64G`` or, with the suffixes of older releases, ``4Gc`` (a CPU) and ``16Gn`` (a node)."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return None
    times = {"c": cpus or 1.0, "n": float(nodes or 1), "": 1.0}[match["of"]]
    return float(match["amount"]) * _MIB[match["unit"]] * times or None


def limit_s(text: str, unit_s: float = 1.0) -> float | None:
    """A time limit; None for UNLIMITED, Partition_Limit and other words for none. Raises `BadValueError`."""
    return None if text.strip().lower() in NO_VALUE else duration_s(text, unit_s, "limit") or None


@lru_cache(10_000)
def slurm_state(text: str) -> State | None:
    """From ``COMPLETED``, ``CANCELLED by 1001``, ``NODE_FAIL``, ``CANCELLED+``, ``CD``."""
    word = text.strip().rstrip("+")
    return _CODES.get(word.upper()) or state(word)


def known(text: str) -> str:
    """The text, empty for Slurm's words for unknown."""
    stripped = text.strip()
    return "" if stripped.lower() in _UNKNOWN else stripped


def array_tasks(job_id: str) -> list[str] | None:
    """Ids of the waiting tasks that ``123_[1-3,7%2]`` stands for; None for other ids and for absurdly many."""
    match = _ARRAY.fullmatch(job_id)
    if match is None:
        return None
    tasks: list[str] = []
    for part in match["tasks"].partition("%")[0].split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or (step and (not step.isdigit() or int(step) < 1)):
            return None
        if len(first) > 9 or len(last) > 9 or len(step) > 9:
            return None
        numbers = range(int(first), int(last or first) + 1, int(step or 1))
        if len(numbers) + len(tasks) > MAX_ARRAY_TASKS:
            return None
        tasks.extend(f"{match['job']}_{number}" for number in numbers)
    return tasks or None


def _count(text: str) -> int | None:
    match = _MEMORY.fullmatch(text)  # large counts may be written as 1.5K
    if match is None or match["of"]:
        return None
    times = {"": 1, "K": 1_000, "M": 10**6}.get(match["unit"])
    value = float(match["amount"]) * times if times else _MAX_COUNT
    return round(value) if value < _MAX_COUNT else None
