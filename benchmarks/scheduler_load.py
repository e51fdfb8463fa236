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
from schedmate.scheduler.demand import Demand, Role
from schedmate.scheduler.tenants import Queueing, Quota, Tenant
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
        topology = rng.uniform(size=_BATCH)
        cpus = np.where(rng.uniform(size=_BATCH) < jobs["with_cpus"], rng.choice(jobs["cpus_per_gpu"], _BATCH), 0)
        preemptible = rng.uniform(size=_BATCH) < jobs["preemptible"]
        priority = rng.choice(list(jobs["priorities"]), _BATCH, p=list(jobs["priorities"].values()))
        teams, team_share = self._teams()
        team = rng.choice(len(teams), _BATCH, p=team_share)
        drawn = []
        for i in range(_BATCH):
            gpus = int(sizes[which[i]]["gpus"])
            only = self.spec.pools[pool[i]]
            demand = self._demand(gpus, only, topology[i], int(cpus[i]))
            job = Job(
                f"job-{number + i}",
                demand.gpus,
                float(submit_s[i]),
                estimate_s=float(expected_s[i]),
                limit_s=math.ceil(limit_s[i]) if with_limit[i] else None,
                gpu_type=None if any_type[i] or gpus > only.gpus else only.name,
                hints=Hints(float(expected_s[i]), float(expected_s[i]) * jobs["hint_high"]) if with_hint[i] else None,
                tenant=teams[team[i]],
                priority=int(priority[i]),
                preemptible=bool(preemptible[i]),
                checkpoint_s=jobs["checkpoint_s"] if preemptible[i] else None,
                demand=demand,
            )
            drawn.append(Arrival(job, float(run_s[i])))
        return drawn

    def _demand(self, gpus: int, pool: PoolSpec, topology: float, cpus_per_gpu: int) -> Demand:
        jobs, width = self.mix["jobs"], self.mix["cluster"]["gpus_per_node"]
        wishes, level, required = jobs["topology"], None, False
        if gpus > width and topology < wishes["required"]:
            leaf_gpus = width * self.mix["cluster"]["nodes_per_leaf"]
            level, required = ("leaf" if gpus <= leaf_gpus else "spine"), True
        elif gpus > width and topology < wishes["required"] + wishes["preferred_leaf"]:
            level = "leaf"
        each = min(gpus, width)
        if not cpus_per_gpu:
            return Demand.of(gpus=gpus, level=level, required=required)
        memory_mib = each * jobs["memory_gib_per_gpu"] * 1024
        role = Role("worker", gpus // each, each, cpus_milli=each * cpus_per_gpu * 1000, memory_mib=memory_mib)
        return Demand.of((role,), level=level, required=required)

    def _teams(self) -> tuple[list[str], list[float]]:
        departments = self.mix["tenants"]["departments"]
        teams = [(f"{d['name']}/{i}", d["share"] / d["teams"]) for d in departments for i in range(d["teams"])]
        return [name for name, _ in teams], [share for _, share in teams]

    def tenants(self) -> tuple[Tenant, ...]:
        """The tree: departments and their teams."""
        return tuple(
            self._tenant(
                d,
                d["name"],
                d["share"],
                tuple(self._tenant(d, f"{d['name']}/{i}", d["share"] / d["teams"]) for i in range(d["teams"])),
            )
            for d in self.mix["tenants"]["departments"]
        )

    def _tenant(self, department: dict[str, Any], name: str, share: float, teams: tuple[Tenant, ...] = ()) -> Tenant:
        quotas = {}
        for pool in self.spec.pools:
            # Whole GPUs, rounded down for teams so that they never add up to more than their department has.
            guaranteed = math.floor(pool.gpus * self.mix["tenants"]["guaranteed"] * share)
            borrow, lend = (
                None if teams or key not in department else math.floor(guaranteed * department[key])
                for key in ("borrow", "lend")
            )
            quotas[pool.name] = Quota(guaranteed, borrow, lend)
        queueing = department.get("queueing")
        return Tenant(name, quotas, teams, queueing=None if queueing is None else Queueing(queueing))


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
