"""The scheduler core on the job stream of `benchmarks.kant_like`, measured as its references are."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import work
from benchmarks.baselines.gang_cluster import Job as Row
from benchmarks.baselines.gang_cluster import Outcome, bucket
from schedmate.scheduler import ClusterSpec, Hints, Job, Policy, PoolSpec, Scheduler
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.topology import Topology

HIGH = math.exp(1.2816 * 0.8)
"""90 % quantile over median of a predictor whose error is log-normal with the spread of the mix."""

CHECKPOINT_S = 600.0
"""A movable job saves its state so often: what it has done since is lost when it is moved, 300 s on average."""

RESTART_S = 120.0
"""A moved job takes so long to start up again and load its checkpoint."""


def run(rows: Sequence[Row], cluster: dict[str, int], policy: Policy, warm_up_s: float, until_s: float) -> Outcome:
    """One run on a cluster of ``nodes`` nodes of ``gpus_per_node`` GPUs under LeafGroups of ``nodes_per_leaf``."""
    topology = Topology.regular(cluster["nodes"], {"leaf": cluster["nodes_per_leaf"]})
    shapes = ((cluster["nodes"], NodeShape(cluster["gpus_per_node"])),)
    spec = ClusterSpec((PoolSpec.detailed("gpu", shapes, topology),))
    return _Run(rows, Scheduler(spec, policy), warm_up_s, until_s).outcome()


@dataclass
class _Run:
    """The event loop. ``ends`` are (time, slot, run): of a job that was moved only the last run counts."""

    rows: Sequence[Row]
    scheduler: Scheduler
    warm_up_s: float
    until_s: float
    present: dict[int, Row] = field(default_factory=dict)
    ends: list[tuple[float, int, int]] = field(default_factory=list)
    runs: dict[int, int] = field(default_factory=dict)
    began: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    moves: int = 0
    evictions: int = 0
    lost_gpu_s: float = 0.0
    partly_s: float = 0.0
    used_s: float = 0.0
    series: list[tuple[float, int]] = field(default_factory=list)
    done: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    thrown_gpu_s: float = 0.0
    now: float = 0.0
    at: int = 0

    def outcome(self) -> Outcome:
        """Play all and measure; then let all end, to know when the work was done."""
        spec, rows = self.scheduler.state.cluster.spec, self.rows
        while self.now < self.until_s:
            self._step(self.until_s)
        window_s = self.until_s - self.warm_up_s
        waits: dict[str, list[float]] = {}
        for row in rows:
            if row.start_s >= 0 and row.submit_s >= self.warm_up_s:
                waits.setdefault(bucket(row.gpus), []).append(row.start_s - row.submit_s)
        found = Outcome(
            gfr=100 * self.partly_s / window_s / spec.nodes,
            sor=100 * self.used_s / window_s / spec.gpus,
            waits_s=waits,
            unstarted=sum(row.start_s < 0 for row in rows[: self.at]),
            moves=self.moves,
            moved_gpu_s=self.lost_gpu_s,
            goodput=100 * (self.used_s - self.lost_gpu_s) / window_s / spec.gpus,
            series=list(self.series),
        )
        while self.ends or self.scheduler.wake_s < math.inf:
            self._step(math.inf)
        found.done_gpu_s = work.done_by_day(self.done, self.until_s / work.DAY_S)
        found.delay_s = work.mean_delay_s(rows, self.done)
        return found

    def _step(self, until_s: float) -> None:
        """On to the next moment at which something happens, and what the scheduler decides there."""
        rows, scheduler = self.rows, self.scheduler
        state = scheduler.state.cluster
        next_submit = rows[self.at].submit_s if self.at < len(rows) else math.inf
        now = min(self.ends[0][0] if self.ends else math.inf, next_submit, scheduler.wake_s, until_s)
        counted_s = max(0.0, now - max(self.now, self.warm_up_s))
        self.partly_s += counted_s * state.fragmented_nodes()
        self.used_s += counted_s * state.allocated_gpus
        self.done.append((now, self.done[-1][1] + (now - self.now) * state.allocated_gpus - self.thrown_gpu_s))
        self.thrown_gpu_s = 0.0
        self.now = now
        while self.ends and self.ends[0][0] <= now:
            _, slot, run = heapq.heappop(self.ends)
            if self.runs.get(slot) == run:
                self.runs[slot] += 1
                scheduler.end(slot, now)
        while self.at < len(rows) and rows[self.at].submit_s <= now:
            self.present[scheduler.submit(_job(rows[self.at], self.at))] = rows[self.at]
            self.at += 1
        self._take_note(scheduler.cycle(now), now)
        self.series.append((now, state.fragmented_nodes()))

    def _take_note(self, started: Sequence[int], now: float) -> None:
        """Of evictions, then of starts; a job that is started again first starts up, which is lost as well."""
        table, counts = self.scheduler.state.table, now >= self.warm_up_s
        for slot in self.scheduler.evicted:
            began_s, done_s, starting_s = self.began[slot]
            lost_s = now - began_s - (table.done_s[slot] - done_s) - starting_s
            self.lost_gpu_s += counts * lost_s * table.gpus[slot]
            self.thrown_gpu_s += lost_s * table.gpus[slot]
            self.evictions += 1
            self.runs[slot] += 1
        self.moves += counts * len(self.scheduler.migrated)
        for slot in started:
            row, again = self.present[slot], table.evictions[slot] > 0
            if not again:
                row.start_s = now
            starting_s = RESTART_S if again else 0.0
            self.lost_gpu_s += counts * starting_s * table.gpus[slot]
            self.thrown_gpu_s += starting_s * table.gpus[slot]
            self.began[slot] = now, table.done_s[slot], starting_s
            self.runs[slot] = self.runs.get(slot, 0) + 1
            end_s = now + row.duration_s - table.done_s[slot] + starting_s
            heapq.heappush(self.ends, (end_s, slot, self.runs[slot]))


def _job(row: Row, number: int) -> Job:
    hints = Hints(row.predicted_s, max(row.predicted_s, min(row.limit_s, row.predicted_s * HIGH)), "predictor")
    return Job(
        str(number), row.gpus, row.submit_s, estimate_s=row.predicted_s, limit_s=row.limit_s, hints=hints,
        preemptible=row.movable, checkpoint_s=CHECKPOINT_S if row.movable else None,
        restart_s=RESTART_S if row.movable else 0.0,
    )  # fmt: skip
