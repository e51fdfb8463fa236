"""The event loop: plays records against the scheduler that a live cluster would use. No policy lives here.

At each moment jobs that end come first, then those that are submitted, then one scheduling cycle. The scheduler sees a
job when it is submitted and its end when it happens; true runtimes stay in this loop.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from time import perf_counter

from analyzers.types import JobRecord
from schedmate.scheduler import Job, OverQuota, Scheduler, Unschedulable
from schedmate.scheduler.elastic import Phase
from schedmate.simulator.estimates import Estimates
from schedmate.simulator.run_log import RunLog, Stay

_CHUNK = 8192
TOO_LARGE = "larger than the cluster, or of a GPU type that it lacks"
NO_QUOTA = "larger than the quota of its tenant"

#: A record and what the scheduler may see of it; None when it must be asked for at the time of submission.
Arrival = tuple[JobRecord, Job | None]


def replay(
    records: Iterable[JobRecord],
    scheduler: Scheduler,
    estimates: Estimates,
    log: RunLog,
    advance: Callable[[int], None] = lambda n: None,
) -> None:
    """Play all records, which must come in order of submission, until the last job has ended.

    ``advance`` is told about every chunk of records read. ``log.replay_s`` is the time of the loop itself: reading and
    checking the records is not in it, the work of estimates that learn is. Raises ``ValueError`` on records out of
    order.
    """
    arrivals = _Arrivals(_chunks(records, estimates, log), advance)
    collecting = gc.isenabled()
    gc.disable()  # the loop makes many small tuples and no cycles; scanning them again and again costs a third
    since = perf_counter()
    try:
        _loop(arrivals, scheduler, estimates, log)
    finally:
        log.replay_s = perf_counter() - since - arrivals.reading_s
        if collecting:
            gc.enable()


class _Arrivals:
    """Hands out chunks of arrivals and keeps the time that reading them takes apart."""

    def __init__(self, chunks: Iterator[list[Arrival]], advance: Callable[[int], None]) -> None:
        self._chunks = chunks
        self._advance = advance
        self.reading_s = 0.0

    def next_chunk(self) -> list[Arrival]:
        """The next arrivals, empty at the end."""
        since = perf_counter()
        chunk = next(self._chunks, [])
        self._advance(len(chunk))
        self.reading_s += perf_counter() - since
        return chunk


def _loop(arrivals: _Arrivals, scheduler: Scheduler, estimates: Estimates, log: RunLog) -> None:
    submit, end, cycle = scheduler.submit, scheduler.end, scheduler.cycle
    cluster, table = scheduler.state.cluster, scheduler.state.table
    all_shares, starts_s, pools, fragmented_nodes = table.shares, table.starts_s, table.pools, cluster.fragmented_nodes
    plans, layer = scheduler.state.ends is not None, scheduler.state.layer
    evicts = layer is not None or scheduler.state.policy.ranking is not None
    learned = estimates.ended if estimates.learns else None
    wakes = evicts or scheduler.state.policy.factors is not None
    note_job, note_moment, places, ids = log.jobs.extend, log.moments.extend, log.places, log.ids
    tenants = log.tenants
    present: list[JobRecord] = []  # by slot
    numbers: list[int] = []  # by slot
    ends: list[tuple[float, int]] = []
    runs = _Runs(scheduler, log, ends, numbers) if evicts else None
    waiting = 0
    chunk = arrivals.next_chunk()
    at, size = 0, len(chunk)
    next_submit = chunk[0][0].submit_s if size else math.inf
    while True:
        now = next_submit
        if ends and ends[0][0] < now:
            now = ends[0][0]
        if wakes or (plans and scheduler.state.reservations):
            now = min(now, scheduler.wake_s)
        if now == math.inf:
            return
        while ends and ends[0][0] == now:
            slot = heappop(ends)[1]
            record, shares = present[slot], all_shares[slot] or ()
            number, pool = numbers[slot], pools[slot]
            start_s = starts_s[slot] if runs is None else runs.end(slot, now)
            note_job((number, record.submit_s, start_s, now, record.gpus, len(shares), pool, record.duration_s or 0.0))
            if places is not None:
                places[number] = (pool, shares)
                if runs is None:
                    log.stays.append(Stay(number, start_s, now, pool, shares))
            end(slot, now)
            if learned is not None:
                learned(record)
        while next_submit == now:
            record, job = chunk[at]
            try:
                slot = submit(job or estimates.job(record))
            except Unschedulable as error:
                log.skip(NO_QUOTA if isinstance(error, OverQuota) else TOO_LARGE, str(error))
            else:
                if slot == len(present):
                    present.append(record)
                    numbers.append(0)
                present[slot] = record
                numbers[slot] = len(ids)
                ids.append(record.job_id)
                if tenants is not None:
                    tenants.append(_tenant(scheduler, slot))
                waiting += 1
            at += 1
            if at == size:
                chunk = arrivals.next_chunk()
                at, size = 0, len(chunk)
            next_submit = chunk[at][0].submit_s if size else math.inf
        started = cycle(now)
        if runs is None:
            for slot in started:
                heappush(ends, (now + (present[slot].duration_s or 0.0), slot))
        else:
            waiting += runs.evict(now)
            for slot in started:
                runs.begin(slot, present[slot], now)
            if scheduler.resized:
                runs.resize(present, now)
        waiting -= len(started)
        note_moment((now, cluster.allocated_gpus, fragmented_nodes(), waiting))


def _tenant(scheduler: Scheduler, slot: int) -> str:
    job = scheduler.state.table.jobs[slot]
    return (job.tenant if job is not None else None) or ""


class _Runs:
    """Runs of jobs that can be evicted: when they began, what of their work is saved, and what is lost."""

    def __init__(
        self, scheduler: Scheduler, log: RunLog, ends: list[tuple[float, int]], numbers: Sequence[int]
    ) -> None:
        self._scheduler, self._table, self._log, self._ends = scheduler, scheduler.state.table, log, ends
        self._first_s: dict[int, float] = {}
        self._began_s: dict[int, float] = {}
        self._done_s: dict[int, float] = {}
        self._phases: dict[int, Phase] = {}
        self._held: dict[int, tuple[float, int]] = {}
        self._numbers = numbers
        self._stays: dict[int, Stay] = {}

    def begin(self, slot: int, record: JobRecord, now: float) -> None:
        """A job starts, or starts again with what it has saved."""
        job = self._table.jobs[slot]
        if self._table.evictions[slot] and job is not None:
            self._log.restart_gpu_s += job.restart_s * self._table.gpus[slot]
        self._first_s.setdefault(slot, now)
        self._began_s[slot], self._done_s[slot] = now, self._table.done_s[slot]
        self._held[slot] = now, self._table.gpus[slot]
        self._stay(slot, now)
        if slot in self._table.phases:
            self._phases[slot] = self._table.phases[slot]
        heappush(self._ends, (self._table.done_at(slot, record.duration_s or 0.0), slot))

    def resize(self, present: list[JobRecord], now: float) -> None:
        """Elastic gangs have changed their size and with it their speed: they end at another time."""
        changed = {slot for slot in self._scheduler.resized if self._table.shares[slot] is not None}
        for slot in changed:
            self._charge(slot, now)
            self._held[slot], self._phases[slot] = (now, self._table.gpus[slot]), self._table.phases[slot]
            self._stay(slot, now)
        self._ends[:] = [each for each in self._ends if each[1] not in changed]
        self._ends += [(self._table.done_at(slot, present[slot].duration_s or 0.0), slot) for slot in sorted(changed)]
        heapify(self._ends)

    def end(self, slot: int, now: float) -> float:
        """A job ends; returns when it was first started."""
        self._charge(slot, now)
        self._phases.pop(slot, None)
        return self._first_s.pop(slot)

    def _stay(self, slot: int, now: float) -> None:
        """From now on a job holds these GPUs."""
        if self._log.places is not None:
            shares = self._table.shares[slot] or ()
            self._stays[slot] = Stay(self._numbers[slot], now, now, self._table.pools[slot], shares)

    def _charge(self, slot: int, now: float) -> None:
        """A run of a job is over, or goes on with other GPUs: note what was held, and what its tenant has had."""
        if self._log.places is not None:
            self._log.stays.append(self._stays.pop(slot)._replace(until_s=now))
        if self._log.tenants is not None:
            tenant, used, (since_s, gpus) = _tenant(self._scheduler, slot), self._log.gpu_s, self._held[slot]
            used[tenant] = used.get(tenant, 0.0) + (now - since_s) * gpus

    def evict(self, now: float) -> int:
        """Take note of the evictions of the last cycle; how many there were."""
        evicted, table = self._scheduler.evicted, self._table
        self._log.moves += len(self._scheduler.migrated)
        if evicted:
            gone = set(evicted)
            self._ends[:] = [each for each in self._ends if each[1] not in gone]
            heapify(self._ends)
            for slot in evicted:
                self._charge(slot, now)
                saved_s, phase = table.done_s[slot] - self._done_s[slot], self._phases.pop(slot, None)
                self._log.evictions += 1
                if phase is None:
                    self._log.lost_gpu_s += (now - self._began_s[slot] - saved_s) * table.gpus[slot]
                else:  # its work is counted at full size
                    self._log.lost_gpu_s += (phase.work_by(now) - saved_s) * table.demands[slot].gpus
        return len(evicted)


def _chunks(records: Iterable[JobRecord], estimates: Estimates, log: RunLog) -> Iterator[list[Arrival]]:
    source = iter(records)
    last_s = -math.inf
    while True:
        batch = list(islice(source, _CHUNK))
        if not batch:
            return
        chunk: list[Arrival] = []
        for record in batch:
            reason = _unusable(record)
            if reason:
                log.skip(reason, f"job {record.job_id}: {reason}")
                continue
            if record.submit_s < last_s:
                raise ValueError(f"job {record.job_id} was submitted before the one that precedes it")
            last_s = record.submit_s
            chunk.append((record, None if estimates.learns else estimates.job(record)))
        if chunk:
            yield chunk


def _unusable(record: JobRecord) -> str | None:
    duration_s = record.duration_s
    if duration_s is None:
        return "no runtime"
    if not 0 <= duration_s < math.inf:
        return "runtime is negative or not finite"
    if not -math.inf < record.submit_s < math.inf:
        return "submit time is not finite"
    if record.gpus < 1:
        return "asks for no GPU"
    return None
