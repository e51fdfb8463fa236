"""Plays a scenario on the real scheduler, with a tiny event loop for what lasts.

At each moment jobs that end come first, then what the step says (ends, changes, submissions), then one cycle, then
the expectation. A job with a runtime ends by itself, at its hard limit at the latest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from prompts.errors import UserError
from schedmate.scheduler import Decision, Job, Scheduler, Unschedulable
from schedmate.simulator.scenario import setup
from schedmate.simulator.scenario.types import Change, Scenario, ScenarioJob, Step

MOST_MOMENTS = 100_000


@dataclass(slots=True)
class Track:
    """What became of one job. ``run`` counts starts and changes of size; ``slot`` is -1 when gone."""

    job: ScenarioJob
    slot: int = -1
    run: int = 0
    starts_s: list[float] = field(default_factory=list)
    evictions_s: list[float] = field(default_factory=list)
    end_s: float | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """What a cycle left behind: decisions of the jobs present by name, who was started in it and who was evicted, and
    by when those must leave that have been told."""

    at_s: float
    decisions: dict[str, Decision]
    started: tuple[str, ...]
    evicted: tuple[str, ...]
    refused: dict[str, str]
    told: dict[str, float]


class Player:
    """One scenario being played. ``tracks`` tell afterwards what became of every job."""

    def __init__(self, scenario: Scenario, watch: Callable[[Scheduler, float], None] = lambda scheduler, now: None):
        self.scenario = scenario
        self.scheduler = self._new_scheduler()
        self.tracks: dict[str, Track] = {}
        self._names: dict[int, str] = {}
        self._ends: list[tuple[float, str, int]] = []
        self._watch = watch
        self._evicted: list[str] = []

    def play(self, look: Callable[[Step, Moment], None]) -> None:
        """Run to the end; ``look`` is called after the cycle of every step. `UserError` for what can not be played."""
        for job in self.scenario.running:
            self._seat(job)
        steps = list(self.scenario.steps)
        for _ in range(MOST_MOMENTS):
            due_s = self._ends[0][0] if self._ends else math.inf
            step_s = steps[0].at_s if steps else math.inf
            now = min(due_s, step_s)
            if now == math.inf:
                return
            now = min(now, self.scheduler.wake_s)
            self._end_due(now)
            step = steps.pop(0) if step_s == now else None
            if step is not None:
                self._happen(step, now)
            moment = self._cycle(now)
            if step is not None:
                look(step, moment)
        raise UserError(f"{self.scenario.name}: not over after {MOST_MOMENTS} moments", "")

    def _new_scheduler(self) -> Scheduler:
        each = self.scenario
        jobs = [*each.running, *(job for step in each.steps for job in step.submits)]
        spec = each.cluster.in_detail() if any(step.changes for step in each.steps) else each.cluster
        return setup.scheduler(spec, each.policy, each.tenants, jobs)

    def _seat(self, job: ScenarioJob) -> None:
        track = self.tracks[job.name] = Track(job)
        slot = track.slot = self.scheduler.submit(setup.job(job, job.since_s))
        setup.seat(self.scheduler, slot, job)
        self._names[slot] = job.name
        self._started(job.name, job.since_s)

    def _started(self, name: str, at_s: float) -> None:
        self.tracks[name].starts_s.append(at_s)
        self._runs_on(name, at_s)

    def _runs_on(self, name: str, at_s: float) -> None:
        """When the job will end if its size stays: with its work, or at its limit."""
        track, table = self.tracks[name], self.scheduler.state.table
        track.run += 1
        limit_s, runtime_s, slot = track.job.asks.get("limit_s"), track.job.runtime_s, track.slot
        end_s = math.inf if runtime_s is None else table.done_at(slot, runtime_s)
        if limit_s is not None:  # it counts work that is kept
            end_s = min(end_s, table.starts_s[slot] + limit_s - table.done_s[slot])
        if end_s < math.inf:
            heappush(self._ends, (max(at_s, end_s), name, track.run))

    def _end_due(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            _, name, run = heappop(self._ends)
            if self.tracks[name].run == run and self.tracks[name].slot >= 0:
                self._end(name, now)

    def _end(self, name: str, now: float) -> None:
        slot = self.tracks[name].slot
        if self.scheduler.state.table.shares[slot] is None:
            self.scheduler.withdraw(slot)
        else:
            self.scheduler.end(slot, now)
        self._gone(name, now)

    def _gone(self, name: str, now: float) -> None:
        track = self.tracks[name]
        del self._names[track.slot]
        track.slot, track.end_s, track.run = -1, now, track.run + 1

    def _restart(self) -> None:
        """A new scheduler, told what runs and what waits, as after a crash."""
        old = self.scheduler
        new = self.scheduler = self._new_scheduler()
        if old.gate is not None:
            new.recall_gate(old.gate)
        slots = sorted(self._names, key=lambda slot: setup.queue_place(old, slot))
        names, self._names = self._names, {}
        for slot in slots:
            track = self.tracks[names[slot]]
            track.slot = setup.carry_over(old, slot, new)
            self._names[track.slot] = names[slot]
        if old.outlook is not None:
            new.recall(old.outlook)

    def _happen(self, step: Step, now: float) -> None:
        if step.restart:
            self._restart()
        for name in step.ends:
            self._present(name, now)
            self._end(name, now)
        for name in step.evictions:
            slot = self._present(name, now).slot
            if self.scheduler.state.table.shares[slot] is None:
                raise UserError(f"{self.scenario.name}, at {now:g} s: job {name} does not run", "")
            self.scheduler.evict(slot, now)
            self._put_back(name, now)
        for change in step.changes:
            self._change(change, now)
        for job in step.submits:
            self._submit(job, now)

    def _present(self, name: str, now: float) -> Track:
        track = self.tracks.get(name)
        if track is None or track.slot < 0:
            raise UserError(f"{self.scenario.name}, at {now:g} s: there is no job {name}", "")
        return track

    def _change(self, change: Change, now: float) -> None:
        for slot in setup.apply(self.scheduler, change, now):
            self._put_back(self._names[slot], now)
        for slot in self.scheduler.repaired:
            self._runs_on(self._names[slot], now)

    def _submit(self, job: ScenarioJob, now: float) -> None:
        if job.name in self.tracks:
            raise UserError(f"{self.scenario.name}: two jobs are called {job.name}", "names tell jobs apart")
        track = self.tracks[job.name] = Track(job)
        core: Job = setup.job(job, now)
        try:
            track.slot = self.scheduler.submit(core)
        except Unschedulable as error:
            track.refused = str(error)
        else:
            self._names[track.slot] = job.name

    def _put_back(self, name: str, now: float) -> None:
        """The job was evicted: what it has not saved is to be done again."""
        track = self.tracks[name]
        track.run += 1
        track.evictions_s.append(now)
        self._evicted.append(name)

    def _cycle(self, now: float) -> Moment:
        started, evicted = setup.cycle(self.scheduler, now)
        for slot in evicted:
            self._put_back(self._names[slot], now)
        names = [self._names[slot] for slot in started]
        for name in names:
            self._started(name, now)
        for name in [self._names[slot] for slot in self.scheduler.resized if slot in self._names]:
            if name not in names and name not in self._evicted:
                self._runs_on(name, now)
        self._watch(self.scheduler, now)
        gone, self._evicted = tuple(self._evicted), []
        decisions = {name: self.scheduler.decision(slot, now) for slot, name in self._names.items()}
        refused = {name: track.refused for name, track in self.tracks.items() if track.refused is not None}
        told = {self._names[slot]: by_s for slot, by_s in self.scheduler.told_to_leave(now)}
        return Moment(now, decisions, tuple(names), gone, refused, told)
