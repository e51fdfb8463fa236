"""A plain simulator of whole-node gangs and small jobs on equal nodes: reference queues and placements for one cluster.

It shares no code with the scheduler it is compared with. Jobs below a node's size live on one node; larger ones take
whole free nodes. Time-weighted GFR and SOR are measured from the end of the warm-up to the end of submissions.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

SCAN_DEPTH = 50
"""How many jobs of one size a backfill pass looks at."""


@dataclass(eq=False)
class Job:
    """A job in the simulator; times in seconds. `predicted_s` is what placement may know besides the limit.

    `movable`: it can be restarted elsewhere from a checkpoint; `moved_s`: when it last was, -1 when never.
    """

    submit_s: float
    gpus: int
    duration_s: float
    limit_s: float
    predicted_s: float
    movable: bool = False
    moved_s: float = -1.0
    start_s: float = -1.0
    nodes: tuple[int, ...] = ()

    @property
    def limit_end_s(self) -> float:
        """Latest end of a started job."""
        return self.start_s + self.limit_s

    def predicted_end_s(self, now_s: float) -> float:
        """Expected end of a started job; one past its prediction is given half of what it has run again."""
        end_s = self.start_s + self.predicted_s
        if end_s > now_s:
            return end_s
        return min(self.limit_end_s, now_s + max(60.0, 0.5 * (now_s - self.start_s)))


@dataclass
class Cluster:
    """Equal nodes. `by_free[f]`: those with f GPUs free; `limit_end_s`: when each is surely free again, 0 when free."""

    nodes: int
    gpus_per_node: int
    nodes_per_leaf: int
    free: list[int] = field(init=False)
    by_free: list[set[int]] = field(init=False)
    running: list[list[Job]] = field(init=False)
    limit_end_s: np.ndarray[tuple[int], np.dtype[np.float64]] = field(init=False)
    allocated: int = 0

    def __post_init__(self) -> None:
        self.free = [self.gpus_per_node] * self.nodes
        self.by_free = [set() for _ in range(self.gpus_per_node)] + [set(range(self.nodes))]
        self.running = [[] for _ in range(self.nodes)]
        self.limit_end_s = np.zeros(self.nodes)

    def partly_used(self) -> int:
        """Nodes with some but not all GPUs allocated."""
        return sum(len(self.by_free[f]) for f in range(1, self.gpus_per_node))

    def free_nodes(self) -> set[int]:
        """Nodes with nothing on them."""
        return self.by_free[self.gpus_per_node]

    def start(self, job: Job, nodes: Sequence[int], now_s: float) -> None:
        """Put the job on the nodes; each gives the job's GPUs, or all it has to a gang."""
        job.start_s, job.nodes = now_s, tuple(nodes)
        for node in nodes:
            self._set_free(node, self.free[node] - min(job.gpus, self.gpus_per_node))
            self.running[node].append(job)
            self.limit_end_s[node] = max(self.limit_end_s[node], job.limit_end_s)
        self.allocated += job.gpus

    def end(self, job: Job) -> None:
        """Take the job off its nodes."""
        for node in job.nodes:
            self._set_free(node, self.free[node] + min(job.gpus, self.gpus_per_node))
            self.running[node].remove(job)
            self.limit_end_s[node] = max((other.limit_end_s for other in self.running[node]), default=0.0)
        self.allocated -= job.gpus

    def move(self, job: Job, node: int) -> None:
        """Put a running small job on another node."""
        start_s = job.start_s
        self.end(job)
        self.start(job, [node], start_s)

    def _set_free(self, node: int, free: int) -> None:
        if not 0 <= free <= self.gpus_per_node:
            raise ValueError(f"node {node} would have {free} GPUs free")
        self.by_free[self.free[node]].discard(node)
        self.by_free[free].add(node)
        self.free[node] = free


Allowed = Callable[[int], bool]
Place = Callable[[Cluster, Job, float, Allowed], int | None]
"""(cluster, small job, now, may this node be used) -> node, or None to wait."""

Move = tuple[Job, int]
Consolidate = Callable[[Cluster, float], Sequence[Move]]
"""(cluster, now) -> running small jobs to move, and where to."""


def no_moves(cluster: Cluster, now_s: float) -> Sequence[Move]:
    """Running jobs stay where they are."""
    return ()


@dataclass(frozen=True)
class Reservation:
    """The blocked head's nodes and the time at which all are surely free."""

    nodes: frozenset[int]
    shadow_s: float


NO_RESERVATION = Reservation(frozenset(), float("inf"))


@dataclass
class Outcome:
    """What one run gives. GFR and SOR in per cent; waits (seconds) of jobs submitted in the window, by size bucket.

    `goodput`: SOR without the GPU time lost to moves (work since the last checkpoint, and starting up again). `series`:
    nodes partly used from each time on. Of the whole run: `done_gpu_s`, useful work by the end of each day, and
    `delay_s`, how much later than at once a GPU second of it was done on average (see `benchmarks.work`).
    """

    gfr: float
    sor: float
    waits_s: dict[str, list[float]]
    unstarted: int
    moves: int
    moved_gpu_s: float
    goodput: float = float("nan")
    series: list[tuple[float, int]] = field(default_factory=list)
    done_gpu_s: list[float] = field(default_factory=list)
    delay_s: float = float("nan")


def bucket(gpus: int) -> str:
    """Size bucket of the waiting-time table."""
    return "1-4" if gpus <= 4 else "8-64" if gpus <= 64 else "65-512" if gpus <= 512 else ">512"


@dataclass
class Simulation:
    """One run. `queue` is "strict" (a blocked head blocks all), "best-effort" (anything that fits starts) or "backfill"
    (EASY: what fits starts unless it could, by its limit, delay the head). `recheck_s`: how often held
    jobs are looked at. A move costs the job `move_cost_s` of run time (work since the checkpoint, and starting anew).
    """

    cluster: Cluster
    place: Place
    queue: str
    recheck_s: float | None = None
    consolidate: Consolidate = no_moves
    move_cost_s: float = 300.0
    waiting: dict[int, deque[Job]] = field(default_factory=dict)
    ends: list[tuple[float, int, Job]] = field(default_factory=list)
    started: int = 0
    moves: int = 0
    moved_gpu_s: float = 0.0

    def run(self, jobs: Sequence[Job], warm_up_s: float, until_s: float) -> Outcome:
        """Feed the jobs, ends before arrivals at the same time, and measure the window."""
        cluster, arrivals, clock = self.cluster, deque(jobs), 0.0
        partly_s = used_s = 0.0
        series: list[tuple[float, int]] = []
        next_check = float("inf")
        while clock < until_s:
            next_end = self.ends[0][0] if self.ends else float("inf")
            next_arrival = arrivals[0].submit_s if arrivals else float("inf")
            now = min(next_end, next_arrival, next_check, until_s)
            counted_s = max(0.0, now - max(clock, warm_up_s))
            partly_s += counted_s * cluster.partly_used()
            used_s += counted_s * cluster.allocated
            clock = now
            while self.ends and self.ends[0][0] <= now:
                end_s, _, ended = heapq.heappop(self.ends)
                if ended.start_s + ended.duration_s <= end_s:
                    cluster.end(ended)
            while arrivals and arrivals[0].submit_s <= now:
                job = arrivals.popleft()
                self.waiting.setdefault(job.gpus, deque()).append(job)
            self.schedule(now)
            for job, node in self.consolidate(cluster, now):
                self._move(job, node, now, now >= warm_up_s)
            series.append((now, cluster.partly_used()))
            held = self.recheck_s is not None and any(self.waiting.values())
            next_check = now + self.recheck_s if held and self.recheck_s is not None else float("inf")
        window_s = until_s - warm_up_s
        waits: dict[str, list[float]] = {}
        for job in jobs:
            if job.start_s >= 0 and job.submit_s >= warm_up_s:
                waits.setdefault(bucket(job.gpus), []).append(job.start_s - job.submit_s)
        return Outcome(
            gfr=100 * partly_s / window_s / cluster.nodes,
            sor=100 * used_s / window_s / (cluster.nodes * cluster.gpus_per_node),
            waits_s=waits,
            unstarted=sum(len(queue) for queue in self.waiting.values()),
            moves=self.moves,
            moved_gpu_s=self.moved_gpu_s,
            goodput=100 * (used_s - self.moved_gpu_s) / window_s / (cluster.nodes * cluster.gpus_per_node),
            series=series,
        )

    def schedule(self, now_s: float) -> None:
        """Start what the queue lets start, oldest first; within a size in order of submission."""
        reservation, blocked_above = NO_RESERVATION, float("inf")
        heap = [(queue[0].submit_s, gpus, 0) for gpus, queue in self.waiting.items() if queue]
        heapq.heapify(heap)
        while heap:
            _, gpus, index = heapq.heappop(heap)
            queue = self.waiting[gpus]
            if index >= len(queue) or index >= SCAN_DEPTH:
                continue
            job = queue[index]
            if self._try(job, now_s, reservation):
                del queue[index]
            elif gpus >= self.cluster.gpus_per_node and reservation is NO_RESERVATION:
                if self.queue == "strict":
                    return
                if self.queue == "best-effort":
                    blocked_above = min(blocked_above, gpus)
                    continue
                reservation = self._reserve(job)
                index += 1
            elif self.queue == "strict":
                return
            else:
                index += 1
            if gpus < blocked_above and index < len(queue):
                heapq.heappush(heap, (queue[index].submit_s, gpus, index))

    def _reserve(self, job: Job) -> Reservation:
        count = -(-job.gpus // self.cluster.gpus_per_node)
        ends = self.cluster.limit_end_s
        first = np.argpartition(ends, count - 1)[:count]
        return Reservation(frozenset(first.tolist()), float(ends[first].max()))

    def _try(self, job: Job, now_s: float, reservation: Reservation) -> bool:
        cluster = self.cluster
        harmless = now_s + job.limit_s <= reservation.shadow_s
        if job.gpus < cluster.gpus_per_node:
            node = self.place(cluster, job, now_s, lambda n: harmless or n not in reservation.nodes)
            nodes = None if node is None else [node]
        else:
            nodes = self._whole_nodes(job, reservation, harmless)
        if nodes is None:
            return False
        cluster.start(job, nodes, now_s)
        self.started += 1
        heapq.heappush(self.ends, (now_s + job.duration_s, self.started, job))
        return True

    def _move(self, job: Job, node: int, now_s: float, counts: bool) -> None:
        job.duration_s += self.move_cost_s
        job.limit_s += self.move_cost_s
        job.predicted_s += self.move_cost_s
        job.moved_s = now_s
        self.cluster.move(job, node)
        self.started += 1
        heapq.heappush(self.ends, (job.start_s + job.duration_s, self.started, job))
        self.moves += counts
        self.moved_gpu_s += counts * self.move_cost_s * job.gpus

    def _whole_nodes(self, job: Job, reservation: Reservation, harmless: bool) -> list[int] | None:
        count = -(-job.gpus // self.cluster.gpus_per_node)
        free = self.cluster.free_nodes()
        if len(free) < count:
            return None
        usable = free if harmless else free - reservation.nodes
        return sorted(usable)[:count] if len(usable) >= count else None
