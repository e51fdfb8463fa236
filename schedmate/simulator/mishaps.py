"""What happens to jobs in a replay without the scheduler's doing: cancellations, failures, broken hardware."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from analyzers.types import JobRecord
from schedmate.scheduler import Scheduler
from schedmate.scheduler.cluster_types import Health
from schedmate.simulator.audit import shapes_of
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.failures import Failures
from schedmate.simulator.fault_plan import Fault
from schedmate.simulator.run_log import RunLog
from schedmate.simulator.runs import Runs

#: In `Result.skipped`: jobs that counted as failed.
GIVEN_UP = "failed: lost their GPUs to faults again and again without having saved anything"

#: When nothing has run for so long, nothing is to come and jobs wait, the hardware breaks too often for them.
HOPELESS_S = 90 * 86_400.0

_HEALTH = {"cordon": Health.CORDONED, "drain": Health.DRAINING, "down": Health.DOWN, "repair": Health.HEALTHY}


def cancelled_s(record: JobRecord) -> float | None:
    """When a job was cancelled that had not run; None for all others."""
    if record.outcome != "cancelled" or record.duration_s is not None or record.start_s is not None:
        return None
    return record.end_s if record.end_s is not None and record.end_s >= record.submit_s else None


class _Rest(NamedTuple):
    """Of a job that takes several runs: the record of the whole, the runs to come, when the first one began."""

    record: JobRecord
    runs_s: tuple[float, ...]
    first_s: float | None


class Following(NamedTuple):
    """The next run of a job, to be submitted, and what `Attempts` is to know of the job then."""

    record: JobRecord
    rest: _Rest


class Attempts:
    """Jobs that fail and are started again at once: a run that ends is followed by the next one, which waits in the
    place of the job's submission."""

    def __init__(self, failures: Failures, log: RunLog) -> None:
        self._failures, self._log = failures, log
        self._rest: dict[int, _Rest] = {}
        self._next: _Rest | None = None

    def first(self, record: JobRecord) -> JobRecord:
        """The first run of a job that is to be submitted; `enter` says where that is."""
        self._next = None  # whoever was handed out last may have been refused
        if record.duration_s is None:
            return record
        runs_s = self._failures.runs_s(record)
        self._next = _Rest(record, runs_s[1:], None)
        return record if len(runs_s) == 1 else replace(record, duration_s=runs_s[0])

    def enter(self, slot: int) -> None:
        """The job last handed out by `first` has got a slot."""
        if self._next is not None and self._next.runs_s:
            self._rest[slot] = self._next
        self._next = None

    def enter_again(self, slot: int, following: Following) -> None:
        """The next run of a job has got a slot. Several may have ended at one moment, before any got one."""
        self._rest[slot] = following.rest

    def after(self, slot: int, start_s: float, ran: JobRecord) -> Following | None:
        """The run ``ran`` has ended: the next one, to be submitted; None if it was the last."""
        rest = self._rest.get(slot)
        if rest is None or not rest.runs_s:
            return None
        del self._rest[slot]
        self._log.mishaps.failed_runs += 1
        if self._failures.is_lost:
            self._log.mishaps.failed_gpu_s += (ran.duration_s or 0.0) * ran.gpus
        first_s = start_s if rest.first_s is None else rest.first_s
        record = replace(rest.record, duration_s=rest.runs_s[0])
        return Following(record, rest._replace(runs_s=rest.runs_s[1:], first_s=first_s))

    def forget(self, slot: int) -> None:
        """The job in ``slot`` is gone before its end."""
        self._rest.pop(slot, None)

    def whole(self, slot: int, record: JobRecord, start_s: float) -> tuple[JobRecord, float]:
        """The last run of a job has ended: its record, and when it was first started."""
        rest = self._rest.pop(slot, None)
        if rest is None:
            return record, start_s
        return rest.record, start_s if rest.first_s is None else rest.first_s


class Happenings:
    """Cancellations and broken hardware, in order of time. ``next_s``: when something happens next."""

    def __init__(
        self,
        scheduler: Scheduler,
        log: RunLog,
        ends: list[tuple[float, int]],
        numbers: Sequence[int],
        runs: Runs,
        attempts: Attempts | None,
        conditions: Conditions,
    ) -> None:
        plan = conditions.faults
        self._scheduler, self._log, self._ends, self._numbers, self._runs = scheduler, log, ends, numbers, runs
        self._attempts, self._requeues = attempts, Requeues(conditions.requeues)
        self._cancels: list[tuple[float, int, int]] = []
        self._faults: Iterator[Fault] = iter(()) if plan is None else plan.faults(scheduler.state.cluster.spec)
        self._hardware = None if plan is None else _Hardware(scheduler, log)
        self._fault = next(self._faults, None)
        self._from_s = 0.0
        self._idle = -1, 0.0  # how much had been written down when nothing ran any more, and since when

    def begin(self, now: float) -> None:
        """The first submission: times of faults count from here."""
        self._from_s = now

    @property
    def next_s(self) -> float:
        """Infinite if nothing is to come."""
        cancel_s = self._cancels[0][0] if self._cancels else math.inf
        return min(cancel_s, math.inf if self._fault is None else self._from_s + self._fault.at_s)

    def cancel_at(self, at_s: float, slot: int) -> None:
        """The job in ``slot`` will be cancelled then, whether it waits or runs."""
        heappush(self._cancels, (at_s, slot, self._numbers[slot]))

    def happen(self, now: float, present: Sequence[JobRecord], left: int) -> int:
        """All that is due; by how many more jobs wait. ``left``: so many wait and nothing is to come, 0 if it is."""
        waiting = 0
        if left and self._is_hopeless(now):
            self._fault = None
        while self._cancels and self._cancels[0][0] <= now:
            _, slot, number = heappop(self._cancels)
            if self._numbers[slot] == number:
                waiting += self._cancel(slot, now)
        while self._fault is not None and self._from_s + self._fault.at_s <= now:
            if self._hardware is not None:
                lost = self._hardware.apply(self._fault, now)
                self._runs.stop(lost, now)
                self._runs.resize(self._scheduler.repaired, present, now)
                self._log.mishaps.interrupted += len(lost)
                waiting += len(lost) - self._give_up(lost, present)
            self._fault = next(self._faults, None)
        return waiting

    def _is_hopeless(self, now: float) -> bool:
        written, since_s = self._idle
        if self._ends or written != len(self._log.jobs):
            self._idle = len(self._log.jobs), now
            return False
        return now - since_s > HOPELESS_S

    def _cancel(self, slot: int, now: float) -> int:
        table = self._scheduler.state.table
        if table.live[slot] is not None:
            self._withdraw(slot)
            self._log.mishaps.cancelled_waiting += 1
            return -1
        self._log.mishaps.cancelled_running += 1
        self._runs.end(slot, now)
        self._ends[:] = [each for each in self._ends if each[1] != slot]
        heapify(self._ends)
        self._scheduler.end(slot, now)
        return 0

    def _give_up(self, lost: Sequence[int], present: Sequence[JobRecord]) -> int:
        """Of the jobs that have lost their GPUs those that get nowhere leave the queue; how many."""
        done_s, gone = self._scheduler.state.table.done_s, 0
        for slot in lost:
            if self._requeues.is_futile(slot, self._numbers[slot], done_s[slot]):
                self._withdraw(slot)
                self._log.skip(GIVEN_UP, f"job {present[slot].job_id}: {GIVEN_UP}")
                self._log.mishaps.given_up += 1
                gone += 1
        return gone

    def _withdraw(self, slot: int) -> None:
        """A job leaves the queue for good, maybe after it has run."""
        self._scheduler.withdraw(slot)
        self._runs.forget(slot)
        if self._attempts is not None:
            self._attempts.forget(slot)


class Requeues:
    """How often a job was put back into the queue by faults since it last saved anything: ``most`` times, then it is
    futile. None for no bound."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._since: dict[int, tuple[int, float, int]] = {}  # by slot: number of the job, work saved, how often

    def is_futile(self, slot: int, number: int, done_s: float) -> bool:
        """Note that a job has lost its GPUs; whether it is not to be tried again."""
        before = self._since.get(slot)
        again = before is not None and before[0] == number and done_s <= before[1]
        often = 1 + (before[2] if before is not None and again else 0)
        self._since[slot] = number, done_s, often
        return self._most is not None and often > self._most


class _Hardware:
    """What is broken, and how many GPUs and nodes are left: those of nodes that are down, and bad GPUs, are not."""

    def __init__(self, scheduler: Scheduler, log: RunLog) -> None:
        self._scheduler, self._log = scheduler, log
        spec = scheduler.state.cluster.spec
        self._gpus = {(p.name, node): shape.gpus for p in spec.pools for node, shape in enumerate(shapes_of(p))}
        self._down: set[tuple[str, int]] = set()
        self._bad: dict[tuple[str, int], set[int]] = {}
        self._left = sum(self._gpus.values())

    def apply(self, fault: Fault, now: float) -> list[int]:
        """The slots of the jobs that have lost their GPUs."""
        self._log.mishaps.faults += fault.kind in ("down", "bad_gpu")
        at = fault.pool, fault.node
        self._left -= self._gpus_of(at)
        if fault.device is not None:
            is_good = fault.kind == "good_gpu"
            bad = self._bad.setdefault(at, set())
            (bad.discard if is_good else bad.add)(fault.device)
            lost = self._scheduler.set_device_health(fault.pool, fault.node, fault.device, is_good, now)
        else:
            (self._down.add if fault.kind == "down" else self._down.discard)(at)
            lost = self._scheduler.set_node_health(fault.pool, fault.node, _HEALTH[fault.kind], now)
        self._left += self._gpus_of(at)
        self._log.mishaps.capacity.append((now, self._left, len(self._gpus) - len(self._down)))
        return lost

    def _gpus_of(self, at: tuple[str, int]) -> int:
        return 0 if at in self._down else self._gpus[at] - len(self._bad.get(at, ()))
