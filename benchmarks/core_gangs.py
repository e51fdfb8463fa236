"""The scheduler core on the job stream of `benchmarks.kant_like`, measured as its references are."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from benchmarks.baselines.gang_cluster import Job as Row
from benchmarks.baselines.gang_cluster import Outcome, bucket
from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, PoolSpec, Scheduler
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.topology import Topology

HIGH = math.exp(1.2816 * 0.8)
"""90 % quantile over median of a predictor whose error is log-normal with the spread of the mix."""


def run(rows: Sequence[Row], cluster: dict[str, int], policy: str, warm_up_s: float, until_s: float) -> Outcome:
    """One run on a cluster of ``nodes`` nodes of ``gpus_per_node`` GPUs under LeafGroups of ``nodes_per_leaf``."""
    topology = Topology.regular(cluster["nodes"], {"leaf": cluster["nodes_per_leaf"]})
    shapes = ((cluster["nodes"], NodeShape(cluster["gpus_per_node"])),)
    spec = ClusterSpec((PoolSpec.detailed("gpu", shapes, topology),))
    scheduler = Scheduler(spec, POLICIES[policy])
    state, present, ends = scheduler.state.cluster, dict[int, Row](), list[tuple[float, int]]()
    at, now, partly_s, used_s = 0, 0.0, 0.0, 0.0
    while now < until_s:
        next_submit = rows[at].submit_s if at < len(rows) else math.inf
        then = min(ends[0][0] if ends else math.inf, next_submit, scheduler.wake_s, until_s)
        counted_s = max(0.0, then - max(now, warm_up_s))
        partly_s += counted_s * state.fragmented_nodes()
        used_s += counted_s * state.allocated_gpus
        now = then
        while ends and ends[0][0] <= now:
            scheduler.end(heapq.heappop(ends)[1], now)
        while at < len(rows) and rows[at].submit_s <= now:
            present[scheduler.submit(_job(rows[at], at))] = rows[at]
            at += 1
        for slot in scheduler.cycle(now):
            row = present[slot]
            row.start_s = now
            heapq.heappush(ends, (now + row.duration_s, slot))
    window_s = until_s - warm_up_s
    waits: dict[str, list[float]] = {}
    for row in rows:
        if row.start_s >= 0 and row.submit_s >= warm_up_s:
            waits.setdefault(bucket(row.gpus), []).append(row.start_s - row.submit_s)
    return Outcome(
        gfr=100 * partly_s / window_s / spec.nodes,
        sor=100 * used_s / window_s / spec.gpus,
        waits_s=waits,
        unstarted=sum(row.start_s < 0 for row in rows[:at]),
        moves=0,
        moved_gpu_s=0.0,
    )


def _job(row: Row, number: int) -> Job:
    hints = Hints(row.predicted_s, max(row.predicted_s, min(row.limit_s, row.predicted_s * HIGH)), "predictor")
    return Job(str(number), row.gpus, row.submit_s, estimate_s=row.predicted_s, limit_s=row.limit_s, hints=hints)
