"""The event loop: plays records against the scheduler that a live cluster would use. No policy lives here.

At each moment jobs that end come first, then what else happens (cancellations, broken hardware), then those that are
submitted, then one scheduling cycle. The scheduler sees a job when it is submitted and its end when it happens; true
runtimes stay in this loop. A job that ran longer than it had asked is ended at that (`limits`).
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import islice
from time import perf_counter

from analyzers.types import JobRecord
from schedmate.scheduler import Job, OverQuota, Scheduler, Unschedulable
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.estimates import Estimates, HearsStarts, ThinksAgain
from schedmate.simulator.limits import within_limit
from schedmate.simulator.mishaps import Attempts, Following, Happenings, cancelled_s
from schedmate.simulator.run_log import NO_ROW, RunLog, Stay
from schedmate.simulator.runs import Runs
from schedmate.simulator.second_thoughts import SecondThoughts
from schedmate.simulator.starts import Starts
from schedmate.simulator.warm_start import WarmStart, known_of, left_of, put_running

_CHUNK = 8192
TOO_LARGE = "larger than the cluster, or of a GPU type that it lacks"
NO_QUOTA = "larger than the quota of its tenant"
NEVER_ENDED = "never ended: too little of the cluster was left"

#: When a record is submitted, the record, and what the scheduler may see of it; None when it must be asked for then.
Arrival = tuple[float, JobRecord, Job | None]


def replay(
    records: Iterable[JobRecord],
    scheduler: Scheduler,
    estimates: Estimates,
    log: RunLog,
    advance: Callable[[int], None] = lambda n: None,
    conditions: Conditions = Conditions(),
) -> None:
    """Play all records, which must come in order of submission, until the last job has ended.

    ``advance`` is told about every chunk of records read. ``log.replay_s`` is the time of the loop itself: reading and
    checking the records is not in it, the work of estimates that learn is. Raises ``ValueError`` on records out of
    order.
    """
    arrivals = _Arrivals(_chunks(records, estimates, log, conditions), advance)
    collecting = gc.isenabled()
    gc.disable()  # the loop makes many small tuples and no cycles; scanning them again and again costs a third
    since = perf_counter()
    try:
        _loop(arrivals, scheduler, estimates, log, conditions)
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


def _loop(arrivals: _Arrivals, scheduler: Scheduler, estimates: Estimates, log: RunLog, conditions: Conditions) -> None:
    submit, end, cycle = scheduler.submit, scheduler.end, scheduler.cycle
    cluster, table, policy = scheduler.state.cluster, scheduler.state.table, scheduler.state.policy
    all_shares, starts_s, pools, fragmented_nodes = table.shares, table.starts_s, table.pools, cluster.fragmented_nodes
    plans, layer = scheduler.state.ends is not None, scheduler.state.layer
    wakes = layer is not None or policy.ranking is not None or policy.factors is not None
    learned = estimates.ended if estimates.learns else None
    note_job, note_moment, places, ids = log.jobs.extend, log.moments.extend, log.places, log.ids
    tenants = log.tenants
    present: list[JobRecord] = []  # by slot
    numbers: list[int] = []  # by slot
    starts = None
    if estimates.learns and isinstance(estimates, HearsStarts):
        starts = Starts(estimates, all_shares, present, numbers)
    thoughts = None
    if estimates.learns and isinstance(estimates, ThinksAgain):
        thoughts = SecondThoughts(estimates, scheduler, present, numbers)
    ends: list[tuple[float, int]] = []
    happens = conditions.cancellations or conditions.faults is not None
    runs = None
    if layer is not None or policy.ranking is not None or happens or conditions.slowdown is not None:
        runs = Runs(scheduler, log, ends, numbers, conditions.slowdown)
    attempts = Attempts(conditions.failures, log) if conditions.failures is not None else None
    around = Happenings(scheduler, log, ends, numbers, runs, attempts, conditions) if happens and runs else None
    again: list[tuple[Following, int]] = []  # runs to be submitted, and the numbers of their jobs
    waiting = 0
    if conditions.warm is not None:
        waiting = _begin_warm(conditions.warm, scheduler, estimates, runs, log, (present, numbers, ends))
        note_moment((conditions.warm.begin_s, cluster.allocated_gpus, fragmented_nodes(), waiting))
    chunk = arrivals.next_chunk()
    at, size = 0, len(chunk)
    next_submit = chunk[0][0] if size else math.inf
    if around is not None:
        around.begin(next_submit if conditions.warm is None else conditions.warm.begin_s)
    while True:
        now = next_submit
        if ends and ends[0][0] < now:
            now = ends[0][0]
        if wakes or (plans and scheduler.state.reservations):
            now = min(now, scheduler.wake_s)
        if around is not None and (waiting or size or (ends and ends[0][0] < math.inf)):
            now = min(now, around.next_s)
        if now == math.inf:
            if waiting:
                log.skipped[NEVER_ENDED] = waiting
            return
        while ends and ends[0][0] == now:
            slot = heappop(ends)[1]
            record, shares = present[slot], all_shares[slot] or ()
            number, pool = numbers[slot], pools[slot]
            start_s = starts_s[slot] if runs is None else runs.end(slot, now)
            if places is not None and runs is None:
                log.stays.append(Stay(number, start_s, now, pool, shares))
            if attempts is not None:
                following = attempts.after(slot, start_s, record)
                if following is not None:
                    end(slot, now)
                    again.append((following, number))
                    continue
                record, start_s = attempts.whole(slot, record, start_s)
            if number >= 0:
                work_s = record.duration_s or 0.0
                note_job((number, record.submit_s, start_s, now, record.gpus, len(shares), pool, work_s))
                if places is not None:
                    places[number] = (pool, shares)
            end(slot, now)
            if starts is not None:
                starts.ended(slot)
            if learned is not None and number >= 0:
                learned(replace(record, start_s=start_s, end_s=now))  # as it was here, whatever the trace tells
                if thoughts is not None:
                    thoughts.ended()
        if around is not None and around.next_s <= now:
            waiting += around.happen(now, present, 0 if size else waiting)
        if again:
            for each, number in again:
                slot = submit(estimates.job(each.record))
                _enter(slot, each.record, number, present, numbers)
                if attempts is not None:
                    attempts.enter_again(slot, each)
            waiting += len(again)
            again.clear()
        while next_submit == now:
            _, record, job = chunk[at]
            run = record if attempts is None else attempts.first(record)
            try:
                slot = submit(job if job is not None and run is record else estimates.job(run))
            except Unschedulable as error:
                _refuse(log, error)
            else:
                if slot == len(present):
                    present.append(run)
                    numbers.append(0)
                present[slot] = run
                numbers[slot] = len(ids)
                ids.append(record.job_id)
                if tenants is not None:
                    tenants.append(_tenant(scheduler, slot))
                if attempts is not None:
                    attempts.enter(slot)
                if around is not None and run.duration_s is None:
                    around.cancel_at(cancelled_s(run) or now, slot)
                waiting += 1
            at += 1
            if at == size:
                chunk = arrivals.next_chunk()
                at, size = 0, len(chunk)
            next_submit = chunk[at][0] if size else math.inf
        if thoughts is not None:
            thoughts.before_cycle(now)
        started = cycle(now)
        if runs is None:
            for slot in started:
                heappush(ends, (now + (present[slot].duration_s or 0.0), slot))
        else:
            waiting += runs.evicted(now)
            for slot in started:
                runs.begin(slot, present[slot], now)
            if scheduler.resized:
                runs.resize(scheduler.resized, present, now)
        if starts is not None:
            starts.cycle(started, now)
        waiting -= len(started)
        note_moment((now, cluster.allocated_gpus, fragmented_nodes(), waiting))


def _enter(slot: int, record: JobRecord, number: int, present: list[JobRecord], numbers: list[int]) -> None:
    if slot == len(present):
        present.append(record)
        numbers.append(number)
    present[slot], numbers[slot] = record, number


def _tenant(scheduler: Scheduler, slot: int) -> str:
    job = scheduler.state.table.jobs[slot]
    return (job.tenant if job is not None else None) or ""


def _refuse(log: RunLog, error: Unschedulable) -> None:
    log.skip(NO_QUOTA if isinstance(error, OverQuota) else TOO_LARGE, str(error))


def _begin_warm(
    warm: WarmStart,
    scheduler: Scheduler,
    estimates: Estimates,
    runs: Runs | None,
    log: RunLog,
    by_slot: tuple[list[JobRecord], list[int], list[tuple[float, int]]],
) -> int:
    """Put on the cluster what ran already; how many of these jobs find no room."""
    present, numbers, ends = by_slot
    found, waiting = list[tuple[JobRecord, Job]](), 0
    for each in warm.running:
        found.append((left_of(each, warm), known_of(each, estimates)))
    slots, waiting = put_running(scheduler, [job for _, job in found], warm.begin_s, partial(_refuse, log))
    for slot, (record, _) in zip(slots, found, strict=True):
        if slot is None:
            continue
        _enter(slot, record, NO_ROW, present, numbers)
        if scheduler.state.table.shares[slot] is not None:
            if runs is not None:
                runs.begin(slot, record, warm.begin_s)
            else:
                heappush(ends, (warm.begin_s + (record.duration_s or 0.0), slot))
    return waiting


def _chunks(
    records: Iterable[JobRecord], estimates: Estimates, log: RunLog, conditions: Conditions
) -> Iterator[list[Arrival]]:
    source, begin_s = iter(records), -math.inf if conditions.warm is None else conditions.warm.begin_s
    last_s = -math.inf
    while True:
        batch = list(islice(source, _CHUNK))
        if not batch:
            return
        chunk: list[Arrival] = []
        for record in batch:
            reason = _unusable(record, conditions.cancellations)
            if reason:
                log.skip(reason, f"job {record.job_id}: {reason}")
                continue
            if record.submit_s < last_s:
                raise ValueError(f"job {record.job_id} was submitted before the one that precedes it")
            last_s = record.submit_s
            record = within_limit(record)
            job = None if estimates.learns else estimates.job(_whole(record))
            chunk.append((max(begin_s, last_s), record, job))
        if chunk:
            yield chunk


def _whole(record: JobRecord) -> JobRecord:
    """The record of which estimates are asked: one that was cancelled would have run until then."""
    if record.duration_s is not None:
        return record
    return replace(record, duration_s=(cancelled_s(record) or record.submit_s) - record.submit_s)


def _unusable(record: JobRecord, cancellations: bool) -> str | None:
    duration_s = record.duration_s
    if duration_s is None:
        if not cancellations or cancelled_s(record) is None:
            return _without_runtime(record)
    elif not 0 <= duration_s < math.inf:
        return "runtime is negative or not finite"
    if not -math.inf < record.submit_s < math.inf:
        return "submit time is not finite"
    if record.gpus < 1:
        return "asks for no GPU"
    return None


def _without_runtime(record: JobRecord) -> str:
    if record.state == "pending":
        return "still waited when the trace was written"
    if record.state in ("running", "suspended"):
        return "still ran when the trace was written, and for how long is not said"
    if record.start_s is None and record.outcome == "cancelled":
        return "cancelled before it ran"
    return "no runtime"
