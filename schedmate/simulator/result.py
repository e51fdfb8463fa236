"""What a simulation returns: every job, every moment, and the summary that `schedmate simulate --json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler import ClusterSpec, Placement
from schedmate.scheduler.cluster_types import Shares
from schedmate.simulator.metrics import (
    Distribution,
    Steps,
    bounded_slowdown,
    jtted,
    least_nodes,
    waiting_by_size,
)
from schedmate.simulator.run_log import Mishaps, Stay

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Result:
    """One policy on one trace.

    Arrays are one value a job, in the order of submission: ``job_ids``, ``submit_s``, ``start_s``, ``end_s``, ``gpus``,
    ``nodes`` (how many), ``pool`` (number in ``cluster.pools``), ``work_s`` (the runtime of its
    record). ``times_s``, ``allocated_gpus``,
    ``fragmented_nodes`` and ``waiting_jobs`` are one value a moment, true until the next. ``evictions`` counts running
    jobs that had to leave (their start is the first), ``lost_gpu_s`` the GPU time of their runs that was not saved,
    ``restart_gpu_s`` what starting again took, ``moves`` how many of them went on elsewhere at once,
    ``skipped`` records left out by reason, a few of them in words in ``examples``. ``replay_s`` is the time of the
    replay loop, ``events`` the arrivals and ends in it; ``peak_memory_mib`` the high-water mark of the process when the
    replay was over. Where there are tenants, ``tenant_names`` are all of them, ``tenants`` is that of each job ("" for
    nobody's), ``tenant_gpu_s`` the GPU time that the jobs of each have had, evicted runs included, and
    ``unknown_tenants`` counts records by a tenant that there is not.

    ``mishaps``: what happened of that which was asked for (`Conditions`).
    """

    policy: str
    estimates: str
    cluster: ClusterSpec
    job_ids: list[str]
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    gpus: Floats
    nodes: Floats
    pool: NDArray[np.int64]
    work_s: Floats
    times_s: Floats
    allocated_gpus: Floats
    fragmented_nodes: Floats
    waiting_jobs: Floats
    replay_s: float
    events: int
    peak_memory_mib: float
    evictions: int = 0
    lost_gpu_s: float = 0.0
    moves: int = 0
    restart_gpu_s: float = 0.0
    mishaps: Mishaps = field(default_factory=Mishaps)
    skipped: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    tenant_names: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    tenant_gpu_s: Mapping[str, float] = field(default_factory=dict)
    unknown_tenants: Mapping[str, int] = field(default_factory=dict)
    _places: Mapping[int, tuple[int, Shares]] | None = None
    _stays: Sequence[Stay] = ()

    @cached_property
    def waiting_s(self) -> Floats:
        """Queueing: first start minus submission."""
        return self.start_s - self.submit_s

    @cached_property
    def jct_s(self) -> Floats:
        """End minus submission."""
        return self.end_s - self.submit_s

    @cached_property
    def delay_s(self) -> Floats:
        """JCT minus the runtime of the record: waiting, and what evictions and other mishaps cost."""
        return self.jct_s - self.work_s

    @cached_property
    def runtime_s(self) -> Floats:
        """End minus start."""
        return self.end_s - self.start_s

    @property
    def gar(self) -> Steps:
        """GAR(t): allocated over schedulable GPUs, in 0..1."""
        return Steps(self.times_s, self.allocated_gpus / np.maximum(1.0, self._capacity(1, self.cluster.gpus)))

    @property
    def gfr(self) -> Steps:
        """GFR(t): nodes with some but not all GPUs allocated over healthy GPU nodes, in 0..1."""
        return Steps(self.times_s, self.fragmented_nodes / np.maximum(1.0, self._capacity(2, self.cluster.nodes)))

    @property
    def can_fragment(self) -> bool:
        """Whether GFR has a meaning: some pool has several nodes of several GPUs. One node is never in part used in
        place of another, and a node of one GPU never in part."""
        return any(pool.nodes > 1 and pool.gpus_per_node > 1 for pool in self.cluster.pools)

    def sor(self, until_s: float = math.inf) -> float | None:
        """SOR: allocated over schedulable GPU time, up to a moment or to the last end."""
        if not self.mishaps.capacity:
            return self.gar.until(until_s).mean()
        there = Steps(self.times_s, self._capacity(1, self.cluster.gpus)).until(until_s).integral()
        return Steps(self.times_s, self.allocated_gpus).until(until_s).integral() / there if there > 0 else None

    def _capacity(self, which: int, whole: int) -> Floats:
        """What there was at each moment. Nothing is allocated where there is nothing."""
        if not self.mishaps.capacity:
            return np.full(self.times_s.size, float(whole))
        after = np.searchsorted([step[0] for step in self.mishaps.capacity], self.times_s, side="right")
        steps: Floats = np.array([whole, *(step[which] for step in self.mishaps.capacity)], dtype=np.float64)
        return steps[after]

    @property
    def queue_length(self) -> Steps:
        """Waiting jobs."""
        return Steps(self.times_s, self.waiting_jobs)

    @property
    def makespan_s(self) -> float:
        """Last end minus first submission."""
        return float(self.end_s.max() - self.submit_s.min()) if self.end_s.size else 0.0

    @property
    def events_per_s(self) -> float:
        """Arrivals and ends per second of the replay loop."""
        return self.events / self.replay_s if self.replay_s > 0 else 0.0

    def placement(self, i: int) -> Placement:
        """Where job ``i`` (in the order of submission) ran; needs ``keep_placements``."""
        if self._places is None:
            raise ValueError("placements were not kept: pass keep_placements=True")
        pool, shares = self._places[i]
        return Placement(self.cluster.pools[pool].name, shares)

    def stays(self) -> Sequence[Stay]:
        """Who held which GPUs when, in the order of the ends; several of a job that was evicted or changed its size.

        Needs ``keep_placements``.
        """
        if self._places is None:
            raise ValueError("placements were not kept: pass keep_placements=True")
        return self._stays

    def summary(self) -> dict[str, Any]:
        """All metrics as plain data (docs/json/simulate.md)."""
        slow = bounded_slowdown(self.jct_s, self.work_s)
        least = least_nodes(self.gpus, [p.gpus_per_node for p in self.cluster.pools], self.pool)
        return {
            "policy": self.policy,
            "estimates": self.estimates,
            "jobs": len(self.job_ids),
            "skipped": dict(self.skipped),
            "jct_s": asdict(Distribution.of(self.jct_s)),
            "queueing_s": asdict(Distribution.of(self.waiting_s)),
            "delay_s": asdict(Distribution.of(self.delay_s)),
            "bounded_slowdown": asdict(Distribution.of(slow)),
            "gar": _series(self.gar),
            "sor": self.sor(),
            "sor_while_arriving": self.sor(float(self.submit_s[-1])) if self.submit_s.size else None,
            "gfr": _series(self.gfr if self.can_fragment else Steps(np.array([]), np.array([]))),
            "jwtd_s": {
                bucket: {"jobs": count, **asdict(distribution)}
                for bucket, (count, distribution) in waiting_by_size(self.gpus, self.waiting_s).items()
            },
            "jtted": asdict(Distribution.of(jtted(self.nodes, least))),
            "makespan_s": self.makespan_s,
            "evictions": self.evictions,
            "lost_gpu_s": self.lost_gpu_s,
            "moves": self.moves,
            "restart_gpu_s": self.restart_gpu_s,
            "events": self.events,
            "replay_s": self.replay_s,
            "events_per_s": self.events_per_s,
            "peak_memory_mib": self.peak_memory_mib,
            **self._mishaps(),
            **({"tenants": self._by_tenant()} if self.tenant_names else {}),
        }

    def _mishaps(self) -> dict[str, Any]:
        """What was asked for and happened."""
        found, had = dict[str, Any](), self.mishaps
        if had.failed_runs:
            found["failures"] = {"runs": had.failed_runs, "lost_gpu_s": had.failed_gpu_s}
        if had.faults:
            found["faults"] = {
                "events": had.faults,
                "jobs_interrupted": had.interrupted,
                "jobs_failed": had.given_up,
            }
        if had.cancelled_waiting or had.cancelled_running:
            found["cancelled"] = {"waiting": had.cancelled_waiting, "running": had.cancelled_running}
        return found

    def _by_tenant(self) -> dict[str, Any]:
        """Use and waiting of the jobs of each tenant, without those of its children; ``""`` are nobody's."""
        owners = np.array(self.tenants)
        schedulable_gpu_s = self.cluster.gpus * self.makespan_s
        found = {}
        for name in ("", *self.tenant_names):
            own, gpu_s = owners == name, self.tenant_gpu_s.get(name, 0.0)
            found[name] = {
                "jobs": int(own.sum()),
                "gpu_s": gpu_s,
                "share": gpu_s / schedulable_gpu_s if schedulable_gpu_s else None,
                "queueing_s": asdict(Distribution.of(self.waiting_s[own])),
            }
        return found


def _series(steps: Steps) -> dict[str, Any]:
    coarse = steps.resampled()
    return {
        "mean": steps.mean(),
        "max": float(steps.values.max()) if steps.values.size else None,
        "series": {"start_s": coarse.times_s.tolist(), "mean": coarse.values.tolist()},
    }
