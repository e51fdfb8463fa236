"""Runs of jobs that can be stopped: when they began, what of their work is saved, what is lost, and when they end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappush

from analyzers.types import JobRecord
from schedmate.scheduler import Scheduler
from schedmate.scheduler.elastic import Phase
from schedmate.simulator.run_log import RunLog, Stay
from schedmate.simulator.slowdown import Slowdown

#: What would end after this never does: a job that is cancelled before, or whose end the trace does not tell.
ENDLESS_S = float("inf")


def runtime_s(record: JobRecord) -> float:
    """How long the job would run, endless where the trace does not tell."""
    return ENDLESS_S if record.duration_s is None else record.duration_s


class Runs:
    """``ends`` is the heap of (end, slot) that it keeps; ``numbers`` those of the jobs, by slot."""

    def __init__(
        self,
        scheduler: Scheduler,
        log: RunLog,
        ends: list[tuple[float, int]],
        numbers: Sequence[int],
        slowdown: Slowdown | None = None,
    ) -> None:
        self._scheduler, self._table, self._log, self._ends = scheduler, scheduler.state.table, log, ends
        self._slowdown = slowdown
        self._first_s: dict[int, float] = {}
        self._began_s: dict[int, float] = {}
        self._done_s: dict[int, float] = {}
        self._phases: dict[int, Phase] = {}
        self._held: dict[int, tuple[float, int]] = {}
        self._numbers = numbers
        self._stays: dict[int, Stay] = {}
        self._left_s: dict[int, float] = {}
        self._pace: dict[int, float] = {}

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
        heappush(self._ends, (self._end_s(slot, record), slot))

    def _end_s(self, slot: int, record: JobRecord) -> float:
        """When a job that has just started will have done its work. Elastic ones have no pace but that of size."""
        if self._slowdown is None or slot in self._table.phases:
            return self._table.done_at(slot, runtime_s(record))
        pool = self._scheduler.state.cluster.spec.pools[self._table.pools[slot]]
        pace = self._pace[slot] = self._slowdown.factor(pool, self._table.shares[slot] or ())
        left_s = self._left_s.setdefault(slot, runtime_s(record))
        return self._table.starts_s[slot] + self._table.still_s(slot) + left_s * pace

    def resize(self, slots: Iterable[int], present: Sequence[JobRecord], now: float) -> None:
        """Elastic gangs have changed their size and with it their speed: they end at another time."""
        changed = {slot for slot in slots if self._table.shares[slot] is not None}
        for slot in changed:
            self._charge(slot, now)
            self._held[slot], self._phases[slot] = (now, self._table.gpus[slot]), self._table.phases[slot]
            self._stay(slot, now)
        self._ends[:] = [each for each in self._ends if each[1] not in changed]
        self._ends += [(self._table.done_at(slot, runtime_s(present[slot])), slot) for slot in sorted(changed)]
        heapify(self._ends)

    def end(self, slot: int, now: float) -> float:
        """A job ends; returns when it was first started."""
        self._charge(slot, now)
        self._phases.pop(slot, None)
        self._left_s.pop(slot, None)
        return self._first_s.pop(slot)

    def forget(self, slot: int) -> None:
        """A job that waits again is gone before its end: the next one in its slot has not started yet."""
        self._first_s.pop(slot, None)
        self._left_s.pop(slot, None)

    def stop(self, slots: Sequence[int], now: float) -> None:
        """Running jobs had to leave and wait again."""
        if not slots:
            return
        table, gone = self._table, set(slots)
        self._ends[:] = [each for each in self._ends if each[1] not in gone]
        heapify(self._ends)
        for slot in slots:
            self._charge(slot, now)
            saved_s, phase = table.done_s[slot] - self._done_s[slot], self._phases.pop(slot, None)
            if slot in self._left_s:
                self._left_s[slot] = max(0.0, self._left_s[slot] - saved_s / self._pace[slot])
            if phase is None:
                self._log.lost_gpu_s += (now - self._began_s[slot] - saved_s) * table.gpus[slot]
            else:  # its work is counted at full size
                self._log.lost_gpu_s += (phase.work_by(now) - saved_s) * table.demands[slot].gpus

    def evicted(self, now: float) -> int:
        """Take note of the evictions of the last cycle; how many there were."""
        evicted = self._scheduler.evicted
        self._log.moves += len(self._scheduler.migrated)
        self._log.evictions += len(evicted)
        self.stop(evicted, now)
        return len(evicted)

    def _stay(self, slot: int, now: float) -> None:
        """From now on a job holds these GPUs."""
        if self._log.places is not None:
            shares = self._table.shares[slot] or ()
            number = self._numbers[slot]
            self._stays[slot] = Stay(number, now, now, self._table.pools[slot], shares)

    def _charge(self, slot: int, now: float) -> None:
        """A run of a job is over, or goes on with other GPUs: note what was held, and what its tenant has had."""
        if self._log.places is not None:
            self._log.stays.append(self._stays.pop(slot)._replace(until_s=now))
        if self._log.tenants is not None:
            job, used, (since_s, gpus) = self._table.jobs[slot], self._log.gpu_s, self._held[slot]
            tenant = (job.tenant if job is not None else None) or ""
            used[tenant] = used.get(tenant, 0.0) + (now - since_s) * gpus
