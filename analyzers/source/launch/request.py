"""What a launch asks the scheduler for: time limit, GPUs, nodes, memory and name, with the line that says so.

The grammar is Slurm's (sbatch(1)): options on the command line go before ``#SBATCH`` lines of the script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from analyzers.source.launch.model import Launch, Setting
from analyzers.types import Fact, JsonValue, SourceEvidence

_SURE = 0.95
_DAY_S, _HOUR_S, _MINUTE_S = 86_400.0, 3_600.0, 60.0
_LONGEST_S = 1e9
_MOST = 1_000_000
_MIB = {"K": 1.0 / 1024, "M": 1.0, "": 1.0, "G": 1024.0, "T": 1024.0**2}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)


def request_of(launch: Launch) -> dict[str, Fact]:
    """The request under `analyzers.types.REQUEST_NAMES`; what it does not say is absent."""
    asked = launch.requested
    found: dict[str, Fact] = {}

    def offer(name: str, value: JsonValue, *settings: str) -> None:
        places = [asked[s] for s in settings if s in asked]
        if value is not None and places:
            evidence = tuple(dict.fromkeys(SourceEvidence(s.file, s.line) for s in places))
            found[name] = Fact(value, _SURE, evidence, "override")

    if "time" in asked:
        offer("limit_s", slurm_time_s(asked["time"].value), "time")
    if "name" in asked:
        offer("name", asked["name"].value.strip() or None, "name")
    offer("nodes", _nodes(asked), *(["nodes"] if "nodes" in asked else ["tasks", "tasks_per_node"]))
    gpus, by = _gpus(asked)
    offer("gpus", gpus, by)
    offer("gpu_type", next((kind for name in _GPU_SETTINGS if (kind := _gpu_type(asked, name))), None), by)
    memory_mib, by = _memory_mib(asked, gpus)
    offer("memory_mib", memory_mib, by)
    return found


def slurm_time_s(text: str) -> float | None:
    """Seconds of ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``.

    None for "unlimited" and what is no time.

    >>> slurm_time_s("90"), slurm_time_s("1-12"), slurm_time_s("06:00:00")
    (5400.0, 129600.0, 21600.0)
    """
    days, dash, clock = text.strip().rpartition("-")
    parts = clock.split(":")
    if not all(part.isascii() and part.isdigit() for part in [*parts, *([days] if dash else [])]) or len(parts) > 3:
        return None
    units = [_HOUR_S, _MINUTE_S, 1.0] if dash or len(parts) == 3 else [_MINUTE_S, 1.0]
    seconds = float(sum(int(part) * unit for part, unit in zip(parts, units, strict=False)))
    seconds += int(days) * _DAY_S if dash else 0.0
    return seconds if 0 < seconds <= _LONGEST_S else None


_GPU_SETTINGS = ("gpus", "gpus_per_node", "gpus_per_task")


def _gpus(asked: Mapping[str, Setting]) -> tuple[int | None, str]:
    """All GPUs of the job and the setting that says so."""
    factors = {"gpus": 1, "gpus_per_node": _nodes(asked) or 1, "gpus_per_task": _tasks(asked) or 1}
    for name in _GPU_SETTINGS:
        count = gpu_count(asked[name].value) if name in asked else None
        if count is not None and count * factors[name] <= _MOST:
            return count * factors[name], name
    return None, ""


def gpu_count(text: str) -> int | None:
    """The number in ``4``, ``a100:4``, ``gpu:a100:4`` or ``gpu`` (then 1)."""
    last = text.partition("(")[0].rpartition(":")[2]
    if last.isascii() and last.isdigit():
        return int(last)
    return 1 if text.startswith("gpu") else None


def _gpu_type(asked: Mapping[str, Setting], name: str) -> str | None:
    if name not in asked:
        return None
    parts = asked[name].value.partition("(")[0].split(":")
    kinds = [part for part in parts if part and part != "gpu" and not part.isdigit()]
    return kinds[0] if kinds else None


def _nodes(asked: Mapping[str, Setting]) -> int | None:
    """Nodes asked for, the least of a range; what tasks need where nodes are not said."""
    if "nodes" in asked:
        match = re.match(r"\d{1,7}", asked["nodes"].value)
        return int(match[0]) or None if match else None
    tasks, per_node = _whole(asked, "tasks"), _whole(asked, "tasks_per_node")
    return -(-tasks // per_node) if tasks and per_node else None


def _tasks(asked: Mapping[str, Setting]) -> int | None:
    per_node = _whole(asked, "tasks_per_node")
    return _whole(asked, "tasks") or (per_node * (_nodes(asked) or 1) if per_node else _nodes(asked))


def _whole(asked: Mapping[str, Setting], name: str) -> int | None:
    text = asked[name].value if name in asked else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _memory_mib(asked: Mapping[str, Setting], gpus: int | None) -> tuple[float | None, str]:
    """Host memory of the whole job and the setting that says so."""
    cpus = (_whole(asked, "cpus_per_task") or 1) * (_tasks(asked) or 1)
    factors = {"memory": _nodes(asked) or 1, "memory_per_gpu": gpus or 1, "memory_per_cpu": cpus}
    for name, factor in factors.items():
        match = _MEMORY.fullmatch(asked[name].value.strip()) if name in asked else None
        each = float(match[1]) * _MIB[match[2].upper()] if match else 0.0
        if 0 < each * factor < 1e12:  # --mem=0 asks for all there is
            return each * factor, name
    return None, ""
