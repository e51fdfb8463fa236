"""Packing fractional GPUs on Alibaba's openb cluster until it is full: the experiment of FGD (ATC'23).

Pods are drawn with replacement until they ask for 130 % of the GPUs there are, arrive one after another, never leave,
and are placed or rejected. What counts is the share of GPUs left unallocated.

Example: python -m benchmarks.openb --data ../shared/data/traces --seeds 10
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.baselines import packing
from benchmarks.baselines.candidates import Learner, expected_waste
from benchmarks.baselines.fgd import fgd, fgd_exact
from benchmarks.baselines.gpu_share import WHOLE_GPU_MILLI, ClusterArrays, Pod, Policy
from benchmarks.core_packing import CorePacking, SchedulerPacking

NODE_FILE = "openb_node_list_gpu_node.csv.gz"
POD_FILE = "openb_pod_list_default.csv.gz"
CURVE_LOADS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)

# Unallocated GPUs at 130 % on the same files as FGD's authors publish them beside their simulator (10 seeds, per cent).
PUBLISHED_PERCENT = {"random": 12.53, "dot-product": 9.15, "best-fit": 6.92, "fgd": 4.61}

PolicyMaker = Callable[[int, Sequence[Pod], tuple[str, ...]], Policy]
"""(seed, the trace's pods as history, the cluster's GPU models) -> a fresh policy."""


@dataclass
class Outcome:
    """Unallocated GPU share at each load of the curve, the last one at saturation."""

    unallocated: dict[float, float] = field(default_factory=dict)
    rejected: int = 0
    seconds: float = 0.0


def read_nodes(folder: Path) -> list[tuple[int, int, int, str]]:
    """Rows (cpu milli, memory MiB, GPUs, model) of the node list."""
    with gzip.open(folder / NODE_FILE, "rt", encoding="utf-8") as lines:
        return [
            (int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(lines)
        ]


def read_pods(file: Path) -> list[Pod]:
    """A pod list as requests, in the order of the file."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        return [
            Pod(
                cpu_milli=int(row["cpu_milli"]),
                memory_mib=int(row["memory_mib"]),
                num_gpu=int(row["num_gpu"]),
                gpu_milli=int(row["gpu_milli"]),
                models=tuple(name for name in (row.get("gpu_spec") or "").split("|") if name),
            )
            for row in csv.DictReader(lines)
        ]


def draw(pods: Sequence[Pod], seed: int, target_gpu_milli: float) -> Iterator[Pod]:
    """Pods with replacement until the requested GPUs reach the target."""
    rng = np.random.default_rng(seed)
    asked = 0
    while asked < target_gpu_milli:
        for i in rng.integers(0, len(pods), 1024):
            yield pods[i]
            asked += pods[i].total_gpu_milli
            if asked >= target_gpu_milli:
                return


def fill(cluster: ClusterArrays, arrivals: Iterator[Pod], policy: Policy) -> Outcome:
    """Let the pods arrive in order; every placement is checked as it is made."""
    capacity = int(cluster.gpu_cap.sum())
    outcome = Outcome()
    marks = list(CURVE_LOADS)
    asked = allocated = 0
    started = time.perf_counter()
    for pod in arrivals:
        while marks and asked >= marks[0] * capacity:
            outcome.unallocated[marks.pop(0)] = 1 - allocated / capacity
        asked += pod.total_gpu_milli
        found = policy(cluster, pod)
        if found is None:
            outcome.rejected += 1
            continue
        cluster.place(found[0], found[1], pod)
        allocated += pod.total_gpu_milli
    for mark in marks:
        outcome.unallocated[mark] = 1 - allocated / capacity
    outcome.seconds = time.perf_counter() - started
    return outcome


def policies() -> dict[str, PolicyMaker]:
    """Every policy by name."""
    return {
        "random": lambda seed, *_: packing.random_fit(seed),
        "least-allocated": lambda *_: packing.least_allocated,
        "dot-product": lambda *_: packing.dot_product,
        "tetris": lambda *_: packing.tetris,
        "best-fit": lambda *_: packing.best_fit,
        "fgd": lambda _, history, models: fgd(history, models),
        "fgd (unrounded)": lambda _, history, models: fgd_exact(history, models),
        "fgd, learned online": lambda _, history, models: Learner(lambda seen: fgd(seen, models)),
        "expected waste": lambda _, history, models: expected_waste(history, models),
        "expected waste, learned online": lambda _, history, models: Learner(lambda seen: expected_waste(seen, models)),
        "expected stranding only": lambda _, history, models: expected_waste(history, models, device_weight=0.0),
        "expected remnants only": lambda _, history, models: expected_waste(history, models, node_weight=0.0),
        "expected waste, no pull": lambda _, history, models: expected_waste(history, models, pull=0.0),
        "ours (the scheduler)": lambda *_: SchedulerPacking(),
        "ours (its placement alone)": lambda *_: CorePacking(),
        "expected waste, no scarcity": lambda _, history, models: expected_waste(history, models, scarcity_weight=0.0),
    }


def measure(
    maker: PolicyMaker, nodes: Sequence[tuple[int, int, int, str]], pods: Sequence[Pod], seeds: int
) -> list[Outcome]:
    """One outcome per seed 0 .. seeds-1; every policy sees the same pods for a seed."""
    target = CURVE_LOADS[-1] * sum(row[2] for row in nodes) * WHOLE_GPU_MILLI
    clusters = [ClusterArrays.of(nodes) for _ in range(seeds)]
    return [
        fill(cluster, draw(pods, seed, target), maker(seed, pods, cluster.model_names))
        for seed, cluster in enumerate(clusters)
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/traces"))
    parser.add_argument("--pods", type=Path, help="another pod list of the same form, gzipped or not")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--policy", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, help="write every outcome here as well")
    args = parser.parse_args()
    nodes, pods = read_nodes(args.data), read_pods(args.pods or args.data / POD_FILE)
    results: dict[str, list[Outcome]] = {}
    print(f"{'policy':<28}{'unallocated %':>14}{'sd':>6}{'paper':>7}{'s/seed':>8}   at {CURVE_LOADS} of arrived load")
    for name, maker in policies().items():
        if args.policy and name not in args.policy:
            continue
        results[name] = measure(maker, nodes, pods, args.seeds)
        print(_line(name, results[name]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({name: [vars(o) for o in rows] for name, rows in results.items()}, indent=1))


def _line(name: str, rows: Sequence[Outcome]) -> str:
    curve = np.array([[row.unallocated[load] for load in CURVE_LOADS] for row in rows]) * 100
    last = curve[:, -1]
    spread = last.std(ddof=1) if len(rows) > 1 else 0.0
    seconds = float(np.mean([row.seconds for row in rows]))
    published = f"{PUBLISHED_PERCENT[name]:.2f}" if name in PUBLISHED_PERCENT else ""
    points = " ".join(f"{value:.1f}" for value in curve.mean(axis=0))
    return f"{name:<28}{last.mean():>14.2f}{spread:>6.2f}{published:>7}{seconds:>8.1f}   {points}"


if __name__ == "__main__":
    main()
