"""A failed job's folder: rank logs, kernel log and batch output, with one known cause under its echoes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import yaml

from schedmate.workload.catalog import TEMPLATES
from schedmate.workload.project import Project
from schedmate.workload.render import environment
from schedmate.workload.rng import pick
from schedmate.workload.types import Ask, FailureTruth, Truth

FOLDER = TEMPLATES / "failures"
MARK = "!!"
VARIANTS = 4
_WORDS = ("warmup", "fused", "ema", "flash", "rotary", "mixup", "stage", "teacher")
_FRAMEWORK = {"absl": "jax", "keras": "tensorflow"}


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a failure happens. ``training_log`` is what rank 0 had written until then, ``batch`` samples per GPU."""

    ask: Ask
    truth: Truth
    project: Project
    batch: int
    nodes: tuple[str, ...]
    end: datetime
    training_log: str
    rng: np.random.Generator

    @property
    def framework(self) -> str:
        """``torch``, ``jax`` or ``tensorflow``."""
        return _FRAMEWORK.get(self.project.style.log, "torch")

    @property
    def ranks(self) -> int:
        """Processes that write a log: one per GPU with PyTorch, one per node otherwise."""
        return self.ask.gpus if self.framework == "torch" else self.ask.nodes


@cache
def _case(failure: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / failure / "case.yaml").read_text(encoding="utf-8"))
    return loaded


def write_failure(scene: Scene) -> tuple[dict[str, str], FailureTruth]:
    """Files of the job's log folder by name, and the cause that was put there."""
    failure = scene.truth.failure or "timeout"
    case = _case(failure)
    culprits = _culprits(scene, case["culprit"])
    shared = _shared_values(scene)
    guilty: list[str] = []
    files: dict[str, str] = {}
    for rank in range(scene.ranks):
        part = "culprit" if rank in culprits else "peer"
        tail = _render(failure, part, {**shared, **_place(scene, rank)}, guilty)
        if scene.ranks > 1:
            files[f"rank_{rank}.log"] = _rank_head(scene, rank) + tail
        else:
            files[_batch_file(scene)] = scene.training_log + tail
    first = min(culprits, default=0)
    if scene.ranks > 1:
        files[_batch_file(scene)] = scene.training_log
    files[_batch_file(scene)] += _render(failure, "launcher", {**shared, **_place(scene, first)}, guilty)
    node = _node(scene, first)
    if (FOLDER / failure / "node.j2").exists():
        kernel = _render(failure, "node", {**shared, **_place(scene, first)}, guilty)
        files[f"dmesg-{node}.log"] = _kernel_noise(scene, node) + kernel
    for other in scene.nodes:
        if other != node and len(scene.nodes) <= 4:
            files[f"dmesg-{other}.log"] = _kernel_noise(scene, other)
    named = len(culprits) == 1 and scene.ranks > 1 and case.get("names_rank", True)
    truth = FailureTruth(
        failure=failure,
        category=case["category"],
        subcategory=case["subcategory"],
        actions=tuple(case["actions"]),
        ranks=tuple(culprits) if named else (),
        nodes=(node,) if case["category"].startswith("infrastructure") else (),
        lines=tuple(guilty),
    )
    return files, truth


def _culprits(scene: Scene, who: str) -> list[int]:
    if who == "all_ranks":
        return list(range(scene.ranks))
    if who == "rank_zero":
        return [0]
    return [int(scene.rng.integers(scene.ranks))] if who == "one_rank" else []


def _shared_values(scene: Scene) -> dict[str, Any]:
    rng, project = scene.rng, scene.project
    uptime_s = float(rng.uniform(4e5, 9e6))
    numbers = {
        "line": int(rng.integers(80, 190)),
        "small": int(rng.integers(10, 60)),
        "dim": int(pick(rng, (384, 512, 768, 1024, 2048))),
        "batch": scene.batch,
        "seq": int(rng.integers(900, 90_000)),
        "numel": int(rng.integers(1_000_000, 30_000_000)),
        "timeout_ms": 600_000 + int(rng.integers(3, 900)),
        "pid": int(rng.integers(20_000, 900_000)),
        "uid": int(rng.integers(10_000, 10_400)),
        "gib": int(rng.integers(1, 9)),
        "free_mib": int(rng.integers(100, 900)),
        "limit_kb": int(rng.integers(60, 480)) * 1024 * 1024,
        "bus": pick(rng, ("07", "0f", "47", "4e", "87", "90", "b7", "bd")),
    }
    return {
        "n": numbers,
        "variant": int(rng.integers(VARIANTS)),
        "word": pick(rng, _WORDS),
        "framework": scene.framework,
        "user": project.user.name,
        "project": project.name,
        "dataset": project.dataset,
        "entry": project.style.entry,
        "images": project.model.image_size is not None,
        "job": scene.ask.job_id,
        "ranks": scene.ranks,
        "uptime": f"{uptime_s:.6f}",
        "iso": f"{scene.end:%Y-%m-%dT%H:%M:%S}",
    }


def _place(scene: Scene, rank: int) -> dict[str, Any]:
    when = scene.end + timedelta(milliseconds=37 * rank)
    per_node = scene.ranks // scene.ask.nodes
    return {
        "rank": rank,
        "local": rank % per_node,
        "task": rank // per_node,
        "node": _node(scene, rank),
        "clock": f"{when:%m%d %H:%M:%S}.{when.microsecond:06d}",
    }


def _node(scene: Scene, rank: int) -> str:
    return scene.nodes[rank // max(1, scene.ranks // scene.ask.nodes)]


def _render(failure: str, part: str, values: dict[str, Any], guilty: list[str]) -> str:
    """Render one part, take the marks off and keep the marked lines as truth."""
    text = environment().get_template(f"failures/{failure}/{part}.j2").render(**values)
    lines = []
    for line in text.splitlines():
        if line.startswith(MARK):
            line = line.removeprefix(MARK)
            guilty.append(line)
        lines.append(line)
    return "".join(f"{line}\n" for line in lines if line.strip())


def _batch_file(scene: Scene) -> str:
    return f"slurm-{scene.ask.job_id}.out"


def _rank_head(scene: Scene, rank: int) -> str:
    node, host = _node(scene, rank), _place(scene, rank)
    lines = [f"{node}: rank {rank} of {scene.ranks}, local rank {host['local']}, device cuda:{host['local']}"]
    if scene.ask.nodes > 1:
        lines.append(f"{node}:{2_000 + rank}:{2_000 + rank} [{host['local']}] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB")
    if scene.truth.steps_done:
        lines.append(f"[rank{rank}] process group ready, entering the training loop")
    return "".join(f"{line}\n" for line in lines)


def _kernel_noise(scene: Scene, node: str) -> str:
    """Harmless kernel lines that every node has."""
    rng = scene.rng
    at = float(rng.uniform(1e5, 3e5))
    templates = (
        "perf: interrupt took too long (2504 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
        "systemd[1]: Started Session {n} of user root.",
        "nfs: server store-2 OK",
        "mlx5_core 0000:{bus}:00.0: port_module:253: Port module event: module {small}, Cable plugged",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15",
        "EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode",
    )
    lines = []
    for _ in range(int(rng.integers(4, 9))):
        at += float(rng.uniform(10, math.exp(9)))
        text = pick(rng, templates).format(n=int(rng.integers(100, 900)), bus="5e", small=int(rng.integers(8)))
        lines.append(f"[{at:.6f}] {text}\n")
    return "".join(lines)
