"""What `benchmarks/scheduler.py` measures, phase by phase. Every figure in wall time and in CPU time of the process."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from time import perf_counter, process_time
from typing import Any, TypeVar

import numpy as np

from benchmarks.scheduler_load import Arrival, Load
from schedmate.scheduler import POLICIES, Demand, Job, Scheduler, Unschedulable
from schedmate.scheduler.placement.fit import by_cell
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Part

Row = dict[str, Any]
T = TypeVar("T")

RESERVATIONS = 4
"""Blocked jobs of each pool that have one."""

FULL = 0.985
"""Share of the GPUs up to which a cluster is filled before jobs are ended at random."""


@dataclass
class Clock:
    """Durations in milliseconds, by wall and by CPU."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    collector_ms: list[float] = field(default_factory=list)
    passes_ms: list[float] = field(default_factory=list)
    _since_s: float = 0.0
    _collected_ms: float = 0.0

    def watch(self, phase: str, info: dict[str, int]) -> None:
        """A callback for `gc.callbacks`: notes what each pass of the garbage collector takes, timed or not."""
        if phase == "start":
            self._since_s = process_time()
        else:
            self.passes_ms.append((process_time() - self._since_s) * 1e3)
            self._collected_ms += self.passes_ms[-1]

    def time(self, call: Callable[[], T]) -> T:
        """Call and note how long it took."""
        self._collected_ms = 0.0
        cpu_s, wall_s = process_time(), perf_counter()
        result = call()
        self.wall_ms.append((perf_counter() - wall_s) * 1e3)
        self.cpu_ms.append((process_time() - cpu_s) * 1e3)
        self.collector_ms.append(self._collected_ms)
        return result

    def quantiles(self) -> Row:
        """p50, p99, mean and the longest."""
        row: Row = {"samples": len(self.wall_ms)}
        for name, values in (("wall", self.wall_ms), ("cpu", self.cpu_ms)):
            p50, p99 = np.quantile(values, (0.5, 0.99))
            row |= {
                f"p50_{name}_ms": float(p50),
                f"p99_{name}_ms": float(p99),
                f"mean_{name}_ms": float(np.mean(values)),
                f"max_{name}_ms": float(max(values)),
            }
        return row


class Driver:
    """Plays a load against one scheduler: submits, ends jobs when they are over, keeps the clock."""

    def __init__(self, load: Load, policy: str, seed: int) -> None:
        self.load = load
        self.scheduler = Scheduler(load.spec, replace(POLICIES[policy], reservations=RESERVATIONS), load.tenants())
        self.arrivals: Iterator[Arrival] = load.arrivals(seed)
        self.run_s: dict[int, float] = {}
        self.ends: list[tuple[float, int]] = []
        self.pending = 0
        self.now_s = 0.0
        self.evictions = 0
        self.started_by_wakes = 0
        self.refused = 0

    @property
    def allocated(self) -> float:
        """Share of the GPUs."""
        cluster = self.scheduler.state.cluster
        return cluster.allocated_gpus / cluster.spec.gpus

    def submit(self, arrival: Arrival) -> int:
        """Queue a job."""
        slot = self.scheduler.submit(arrival.job)
        self.run_s[slot] = arrival.run_s
        self.pending += 1
        return slot

    def submit_next(self) -> int:
        """Queue the next job of the load that can ever start."""
        while True:
            try:
                return self.submit(next(self.arrivals))
            except Unschedulable:
                self.refused += 1

    def withdraw(self, slot: int) -> None:
        """A waiting job is taken back by its user."""
        self.scheduler.withdraw(slot)
        self.pending -= 1

    def refill(self, pending: int) -> None:
        """Queue jobs until so many wait."""
        while self.pending < pending:
            self.submit_next()

    def started(self, slots: list[int]) -> None:
        """Note when the jobs that have started will end."""
        evicted = self.scheduler.evicted
        self.evictions += len(evicted)
        self.pending += len(evicted) - len(slots)
        if evicted:
            gone = set(evicted)
            self.ends = [pair for pair in self.ends if pair[1] not in gone]
            heapify(self.ends)
        for slot in slots:
            heappush(self.ends, (self.now_s + self.run_s[slot], slot))

    def cycle(self) -> list[int]:
        """One scheduling cycle."""
        slots = self.scheduler.cycle(self.now_s)
        self.started(slots)
        return slots

    def next_end(self, clock: Clock) -> int:
        """Move the clock to the next end, with the cycles that are due on the way; the slot that is over."""
        while self.scheduler.wake_s < self.ends[0][0]:
            self.now_s = self.scheduler.wake_s
            slots = clock.time(lambda: self.scheduler.cycle(self.now_s))
            self.started(slots)
            self.started_by_wakes += len(slots)
        self.now_s, slot = heappop(self.ends)
        return slot

    def end_and_decide(self, slot: int) -> list[int]:
        """What is measured in steady state: one job ends, decide what follows."""
        self.scheduler.end(slot, self.now_s)
        return self.scheduler.cycle(self.now_s)

    def thin(self, allocated: float, seed: int, most_gpus: int) -> None:
        """End running jobs of up to ``most_gpus`` GPUs at random until no more than that share is allocated."""
        table = self.scheduler.state.table
        slots = [slot for _, slot in self.ends if table.gpus[slot] <= most_gpus]
        random.Random(seed).shuffle(slots)
        gone = set()
        while slots and self.allocated > allocated:
            slot = slots.pop()
            gone.add(slot)
            self.scheduler.end(slot, self.now_s)
        self.ends = [pair for pair in self.ends if pair[1] not in gone]
        heapify(self.ends)


def fill(load: Load, policy: str, jobs: int, seed: int, repeat: int) -> Row:
    """(a) An empty cluster and ``jobs`` pending jobs: submit them all, one cycle. The best repetition by CPU time."""
    rows = []
    for _ in range(repeat):
        driver, submits, decides = Driver(load, policy, seed), Clock(), Clock()
        driver.arrivals = iter([next(driver.arrivals) for _ in range(jobs + jobs // 10)])
        gc.collect()
        submits.time(lambda d=driver: d.refill(jobs))  # type: ignore[misc]
        started = decides.time(driver.cycle)
        rows.append(
            {
                "pending": jobs,
                "started": len(started),
                "allocated": driver.allocated,
                "submit_cpu_s": submits.cpu_ms[0] / 1e3,
                "cycle_cpu_s": decides.cpu_ms[0] / 1e3,
                "cycle_wall_s": decides.wall_ms[0] / 1e3,
                "jobs_per_cpu_s": len(started) / (submits.cpu_ms[0] + decides.cpu_ms[0]) * 1e3,
                "jobs_per_wall_s": len(started) / (submits.wall_ms[0] + decides.wall_ms[0]) * 1e3,
            }
        )
    return max(rows, key=lambda row: row["jobs_per_cpu_s"])


def steady(
    load: Load, policy: str, pending: int, seed: int, warm_up: int, samples: int, told: Callable[[str], None]
) -> Row:
    """(b) ``pending`` jobs wait; one job ends, decide what follows; as many are submitted as have started."""
    driver = Driver(load, policy, seed)
    driver.refill(pending)
    driver.cycle()
    told("steady state: warming up")
    began_s = 0.0
    started_by_sample: list[int] = []
    clock, wakes, starts, allocated, submits = Clock(), Clock(), 0, 0.0, Clock()
    for i in range(warm_up + samples):
        if i == warm_up:
            clock, wakes, starts, allocated, submits = Clock(), Clock(), 0, 0.0, Clock()
            driver.evictions = driver.started_by_wakes = 0
            began_s = driver.now_s
            gc.collect()
            gc.freeze()
            gc.callbacks.append(clock.watch)
        submits.time(lambda: driver.refill(pending))
        slot = driver.next_end(wakes)
        slots = clock.time(lambda s=slot: driver.end_and_decide(s))  # type: ignore[misc]
        driver.started(slots)
        starts += len(slots)
        started_by_sample.append(len(slots))
        allocated += driver.allocated
        if i % 500 == 499:
            told(f"steady state: {i + 1} of {warm_up + samples} ends, {driver.allocated:.1%} allocated")
    gc.callbacks.remove(clock.watch)
    gc.unfreeze()
    total_s = sum(clock.cpu_ms) / 1e3
    woken = wakes.quantiles() if wakes.cpu_ms else {}
    own_ms = np.array(clock.cpu_ms) - np.array(clock.collector_ms)
    by_starts = np.array(started_by_sample[-samples:])
    many = by_starts > 4
    each_ms = own_ms[many] / by_starts[many] if many.any() else np.zeros(1)
    return clock.quantiles() | {
        "p99_without_collector_ms": float(np.quantile(own_ms, 0.99)),
        "collector_mean_ms": float(np.mean(clock.collector_ms)),
        "collector_max_ms": float(max(clock.collector_ms)),
        "between_mean_ms": float(np.sum(clock.passes_ms) - np.sum(clock.collector_ms)) / samples,
        "between_max_ms": max(clock.passes_ms, default=0.0),
        "p99_up_to_4_starts_ms": float(np.quantile(own_ms[~many], 0.99)),
        "share_above_4_starts": float(np.mean(many)),
        "p50_each_above_4_ms": float(np.quantile(each_ms, 0.5)),
        "p99_each_above_4_ms": float(np.quantile(each_ms, 0.99)),
        "most_starts": int(by_starts.max()),
        "pending": pending,
        "running": len(driver.ends),
        "allocated": allocated / samples,
        "started": starts,
        "started_per_cpu_s": starts / total_s,
        "submit_mean_cpu_ms": float(np.sum(submits.cpu_ms)) / max(1, starts),
        "evictions": driver.evictions,
        "wake_samples": len(wakes.cpu_ms),
        "wake_started": driver.started_by_wakes,
        **{f"wake_{name}": value for name, value in woken.items() if name.endswith("_cpu_ms")},
        "cpu_ms_per_end": (sum(clock.cpu_ms) + sum(wakes.cpu_ms)) / samples,
        "reserved": len({plan.slot for plans in driver.scheduler.state.reservations.values() for plan in plans}),
        "clock_moved_s": driver.now_s - began_s,
    }


def _filled(load: Load, policy: str, seed: int, allocated: float, most_gpus: int) -> Driver:
    """A cluster filled until nearly nothing fits, then thinned to the share; nothing waits."""
    driver = Driver(load, policy, seed)
    while driver.allocated < FULL:
        slot = driver.submit_next()
        if not driver.cycle():
            driver.withdraw(slot)
    driver.thin(allocated, seed, most_gpus)
    return driver


def _wide(gpus: int, pool: str, name: str) -> Job:
    return Job(name, gpus, submit_s=-1e6, estimate_s=3600.0, limit_s=7200.0, gpu_type=pool, priority=9)


def gang(load: Load, policy: str, seed: int, gpus: int, samples: int) -> Row:
    """(c) A gang of ``gpus`` GPUs comes to a cluster that is three quarters full and is placed in one cycle."""
    driver, clock = _filled(load, policy, seed, 0.75, 1 << 30), Clock()
    pool = load.spec.pools[0].name
    for i in range(samples):
        job = _wide(gpus, pool, f"gang-{i}")
        started = clock.time(lambda j=job: (driver.scheduler.submit(j), driver.scheduler.cycle(driver.now_s))[1])  # type: ignore[misc]
        if len(started) != 1:
            raise RuntimeError(f"the gang of {gpus} GPUs did not start")
        driver.scheduler.end(started[0], driver.now_s)
    return clock.quantiles() | {"gpus": gpus, "allocated": driver.allocated}


def refusal(load: Load, policy: str, seed: int, samples: int) -> Row:
    """(d) At 95 % a gang comes for which enough GPUs are free, on too few whole nodes: "cannot start now"."""
    driver = _filled(load, policy, seed, 0.95, 4)
    free = _most_free(driver)[1]
    # One GPU less each time: another demand, so that nothing is remembered of the last one.
    jobs = [
        _wide(free // 8 * 8 - i, load.spec.pools[_most_free(driver)[0]].name, f"refused-{i}") for i in range(samples)
    ]
    return _refused(driver, jobs) | {"gpus": free // 8 * 8, "free_gpus": free}


def required(load: Load, policy: str, seed: int, samples: int) -> Row:
    """(e) At 95 % a gang comes for which enough whole nodes are free, but under no one switch of the required level."""
    driver = _filled(load, policy, seed, 0.95, 1 << 30)
    pool, free = _most_free(driver)
    index = driver.scheduler.state.cluster.pools[pool]
    if not isinstance(index, PoolIndex):
        raise TypeError("the pool is not described in detail")
    whole = by_cell(index, Part(0, 1, index.capacity), None)
    jobs = []
    for i in range(samples):
        level = ("leaf", "spine")[i % 2]
        most = int(np.add.reduceat(whole, index.layout.groups[level]).max())
        nodes = most + 1 + i // 2
        if nodes > whole.sum():
            raise RuntimeError(f"{nodes} whole nodes are not free, whatever the topology")
        demand = Demand.of(gpus=nodes * index.capacity, level=level, required=True)
        if nodes <= {"leaf": 32, "spine": 512}[level]:
            jobs.append(replace(_wide(demand.gpus, load.spec.pools[pool].name, f"required-{i}"), demand=demand))
    return _refused(driver, jobs) | {"free_nodes": int(whole.sum()), "free_gpus": free}


def _most_free(driver: Driver) -> tuple[int, int]:
    """The pool with most free GPUs, and how many."""
    pools = driver.scheduler.state.cluster.pools
    pool = max(range(len(pools)), key=lambda p: pools[p].free_gpus)
    return pool, pools[pool].free_gpus


def _refused(driver: Driver, jobs: list[Job]) -> Row:
    """Each of the jobs comes, can not start, is looked at five times more and taken back."""
    first, again = Clock(), Clock()
    for job in jobs:
        slot = driver.scheduler.submit(job)
        started = first.time(lambda: driver.scheduler.cycle(driver.now_s))
        for _ in range(5):
            started += again.time(lambda: driver.scheduler.cycle(driver.now_s))
        if started:
            raise RuntimeError(f"the gang of {job.gpus} GPUs started")
        driver.pending += 1
        driver.withdraw(slot)
    row = {f"first_{name}": value for name, value in first.quantiles().items()}
    row |= {f"again_{name}": value for name, value in again.quantiles().items()}
    return row | {"allocated": driver.allocated}


def reclaim(load: Load, policy: str, seed: int, gpus: int, samples: int) -> Row:
    """(e) One department has lent all its GPUs, then a job of ``gpus`` GPUs of it comes: the cycle that finds its
    victims, evicts them and starts it. Victims go back before the next sample."""
    driver, clock, pool = Driver(load, policy, seed), Clock(), load.spec.pools[0].name
    owner = load.tenants()[0].name
    others = (each for each in driver.arrivals if not str(each.job.tenant).startswith(owner))
    driver.arrivals = others
    refused = 0
    while driver.allocated < FULL and refused < 2000:
        slot = driver.submit_next()
        if not driver.cycle():
            driver.withdraw(slot)
            refused += 1
    allocated, victims = driver.allocated, list[int]()
    for i in range(samples):
        driver.now_s += 3600.0
        job = replace(_wide(gpus - 8 * i, pool, f"owner-{i}"), tenant=owner, priority=0)
        slot = driver.submit(Arrival(job, 1e9))
        started = clock.time(driver.cycle)
        if slot not in started:
            raise RuntimeError(f"{job.gpus} GPUs were not taken back: {driver.scheduler.decision(slot).reason}")
        victims.append(len(driver.scheduler.evicted))
        driver.ends = [pair for pair in driver.ends if pair[1] != slot]
        driver.scheduler.end(slot, driver.now_s)
        driver.cycle()
    return clock.quantiles() | {"gpus": gpus, "allocated": allocated, "victims": float(np.mean(victims))}
