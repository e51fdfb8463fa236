"""The cluster and the jobs of `benchmarks/scheduler.py`, drawn from the mix that is written down beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from schedmate.scheduler import ClusterSpec, Hints, Job, PoolSpec
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.topology import Topology

MIX_FILE = Path(__file__).resolve().parent / "data" / "scheduler_mix.yaml"
FULL_NODES = 12_500
_BATCH = 4096


class Arrival(NamedTuple):
    """A job as the scheduler sees it, and how long it really runs."""

    job: Job
    run_s: float


@dataclass(frozen=True)
class Load:
    """One cluster and an endless stream of jobs for it."""

    mix: dict[str, Any]
    spec: ClusterSpec

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """Jobs without end; the same ones for a seed, whatever is done with them."""
        rng = np.random.default_rng(seed)
        number = 0
        while True:
            yield from self._batch(rng, number)
            number += _BATCH

    def _batch(self, rng: np.random.Generator, number: int) -> list[Arrival]:
        jobs = self.mix["jobs"]
        sizes = jobs["sizes"]
        share = np.array([size["share"] for size in sizes])
        which = rng.choice(len(sizes), _BATCH, p=share / share.sum())
        median_s = np.array([size["median_s"] for size in sizes])[which]
        spread = np.array([size["log_sd"] for size in sizes])[which]
        run_s = np.clip(median_s * np.exp(rng.normal(0.0, 1.0, _BATCH) * spread), jobs["min_run_s"], jobs["max_run_s"])
        low, high = (math.log(factor) for factor in jobs["limit_factor"])
        limit_s = np.minimum(
            run_s * np.exp(rng.uniform(low, high, _BATCH)),
            jobs["max_limit_s"],
        )
        expected_s = np.minimum(run_s * np.exp(rng.normal(0.0, jobs["hint_log_sd"], _BATCH)), limit_s)
        with_limit = rng.uniform(size=_BATCH) < jobs["with_limit"]
        with_hint = rng.uniform(size=_BATCH) < jobs["with_hint"]
        any_type = rng.uniform(size=_BATCH) < jobs["any_type"]
        weight = np.array([pool.gpus for pool in self.spec.pools], dtype=float)
        pool = rng.choice(len(weight), _BATCH, p=weight / weight.sum())
        submit_s = rng.uniform(-jobs["submitted_within_s"], 0.0, _BATCH)
        drawn = []
        for i in range(_BATCH):
            gpus = int(sizes[which[i]]["gpus"])
            only = self.spec.pools[pool[i]]
            job = Job(
                f"job-{number + i}",
                gpus,
                float(submit_s[i]),
                estimate_s=float(expected_s[i]),
                limit_s=math.ceil(limit_s[i]) if with_limit[i] else None,
                gpu_type=None if any_type[i] or gpus > only.gpus else only.name,
                hints=Hints(float(expected_s[i]), float(expected_s[i]) * jobs["hint_high"]) if with_hint[i] else None,
            )
            drawn.append(Arrival(job, float(run_s[i])))
        return drawn


def load(nodes: int = FULL_NODES, path: Path = MIX_FILE) -> Load:
    """The mix on a cluster of about ``nodes`` nodes, pools in the same proportion."""
    mix = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster = mix["cluster"]
    return Load(mix, ClusterSpec(tuple(_pool(cluster, pool, nodes) for pool in cluster["pools"])))


def _pool(cluster: dict[str, Any], pool: dict[str, Any], nodes: int) -> PoolSpec:
    count = max(1, round(pool["nodes"] * nodes / FULL_NODES))
    leaf = cluster["nodes_per_leaf"]
    spine = leaf * cluster["leaves_per_spine"]
    shape = NodeShape(
        cluster["gpus_per_node"],
        numa=cluster["numa"],
        nics=cluster["nics"],
        cpus_milli=cluster["cpus"] * 1000,
        memory_mib=cluster["memory_gib"] * 1024,
    )
    sizes = {"leaf": leaf, "spine": spine, "superspine": spine * cluster["spines_per_superspine"]}
    return PoolSpec.detailed(pool["name"], ((count, shape),), Topology.regular(count, sizes), speed=pool["speed"])
