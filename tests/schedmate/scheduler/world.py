"""A small world around one scheduler: time passes, jobs come and end, hardware breaks, and after every cycle all that
must hold is checked. The state machine and the long run drive it; the log of what happened can be played again."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedmate.scheduler import ClusterSpec, Job, Policy, Scheduler, Unschedulable
from schedmate.scheduler.cluster_types import DeviceShare
from schedmate.scheduler.device_ends import DeviceEnds
from schedmate.simulator.audit import audit, idle_before_a_plan, passed_over, stuck
from schedmate.simulator.preemption_watch import PreemptionWatch
from schedmate.simulator.scenario import setup
from schedmate.simulator.scenario.types import Change

EPSILON_S = 1e-6


@dataclass
class Track:
    """A job that is present. ``promised_s``: the earliest guaranteed start it was told that still binds.

    ``left_s`` is the work left at ``since_s``, in seconds at full size; it goes on at ``speed``. It counts from 0 when
    the job starts again after ``restart_s``; ``ends_by_s`` is its limit.
    """

    job: Job
    slot: int
    runtime_s: float
    left_s: float
    start_s: float | None = None
    since_s: float = 0.0
    speed: float = 1.0
    ends_by_s: float = math.inf
    promised_s: float = math.inf
    number: int = 0
    starves: bool = False
    evictions: int = 0
    moves: int = 0
    done_s: float = 0.0

    @property
    def due_s(self) -> float:
        """When it ends: its work is done, or its limit is reached."""
        return min(self.since_s + self.left_s / self.speed, self.ends_by_s)


class World:
    """``twice`` plays every cycle on a copy too, which must decide the same. Raises ``AssertionError``."""

    def __init__(self, spec: ClusterSpec, policy: Policy, tenants: Any = None, twice: bool = False) -> None:
        self.spec, self.policy, self.tenants = spec, policy, tenants
        self.scheduler = setup.scheduler(spec, policy, tenants)
        self.twice = twice
        self.now = 0.0
        self.number = 0
        self.tracks: dict[int, Track] = {}
        self.sick: dict[tuple[str, int], str] = {}
        self.bad: dict[tuple[str, int], set[int]] = {}
        self.watch = PreemptionWatch()
        self.events = 0
        self.moved: list[tuple[float, float]] = []
        self.history: list[tuple[float, list[str], list[str]]] = []

    # What may happen -----------------------------------------------------------------------------------------------

    def submit(self, runtime_s: float, **asks: Any) -> bool:
        """A job comes; it will run for ``runtime_s``, or until its limit."""
        self.events += 1
        job = Job(f"j{self.number}", submit_s=self.now, **asks)
        self.number += 1
        try:
            slot = self.scheduler.submit(job)
        except Unschedulable:
            return False
        assert slot not in self.tracks, "a slot in use was given out again"
        limit_s = math.inf if job.limit_s is None else job.limit_s
        self.tracks[slot] = Track(job, slot, min(runtime_s, limit_s), min(runtime_s, limit_s), number=self.number)
        self._forgive(lambda other: other.priority < job.priority)
        return True

    def withdraw(self, which: int) -> None:
        """One of the waiting jobs is taken back."""
        self.events += 1
        waiting = [track for track in self.tracks.values() if track.start_s is None]
        if waiting:
            track = waiting[which % len(waiting)]
            self.scheduler.withdraw(track.slot)
            self.watch.gone(track.slot)
            del self.tracks[track.slot]

    def evict(self, which: int) -> None:
        """An operator evicts one of the running jobs."""
        self.events += 1
        running = self.running()
        if running and (self.scheduler.state.layer is not None or self.policy.ranking is not None):
            track = running[which % len(running)]
            self.scheduler.evict(track.slot, self.now)
            self._back(track.slot)
            self._forgive(lambda other: other.priority < track.job.priority, track.starves)

    def end(self, which: int) -> None:
        """One of the running jobs ends before its time."""
        self.events += 1
        running = self.running()
        if running:
            self._end(running[which % len(running)])

    def cycle(self) -> None:
        """A cycle without anything having happened, or after it has."""
        self.events += 1
        self._cycle()

    def advance(self, seconds: float) -> None:
        """Time passes; jobs end at their time, the scheduler is woken when it asked for it."""
        self.events += 1
        self._cycle()
        until = self.now + seconds
        while True:
            due_s = min((t.due_s for t in self.running()), default=math.inf)
            now = min(due_s, self.scheduler.wake_s)
            if now > until:
                break
            self.now = max(now, self.now)
            for track in self.running():
                if track.due_s <= self.now + EPSILON_S:
                    self._end(track)
            self._cycle()
        self.now = until
        self._cycle()

    def change(self, kind: str, pool: str, node: int, device: int | None = None) -> None:
        """Hardware breaks or is repaired."""
        self.events += 1
        change = Change(kind, (pool, node, device))
        at = pool, node
        if kind in ("cordon", "drain", "down"):
            self.sick[at] = kind
        elif kind == "repair":
            self.sick.pop(at, None)
        elif device is not None and kind == "bad_gpu":
            self.bad.setdefault(at, set()).add(device)
        elif device is not None:
            self.bad.get(at, set()).discard(device)
        for slot in setup.apply(self.scheduler, change, self.now):
            self._back(slot)
        for slot in self.scheduler.repaired:
            self._repaired(self.tracks[slot])
        for track in self.tracks.values():
            track.promised_s = math.inf
        self.watch.broken()
        self._check()

    def rehearse(self) -> None:
        """A cycle, and running jobs stopped, all discarded: nothing may remain of it."""
        self.events += 1
        twin = copy.deepcopy(self.scheduler)
        setup.rehearse(self.scheduler, self.now)
        self._same(twin, "after a discarded cycle")
        started, evicted = setup.cycle(twin, self.now)
        assert (started, evicted) == self._cycle(), "a discarded cycle changed the next one"
        self._same(twin, "one cycle after a discarded one")
        assert self.scheduler.wake_s == twin.wake_s

    def _forgive(self, may_wait: Callable[[Job], bool], starves: bool = False) -> None:
        """Promises that no longer hold: to jobs of a lower class than one that came or was evicted. One that
        ``starves`` is of a higher class than all that do not."""
        for track in self.tracks.values():
            if may_wait(track.job) or (starves and not track.starves):
                track.promised_s = math.inf

    def _starving(self) -> list[Track]:
        bound_s = self.scheduler.state.policy.starvation_bound_s
        late = [t for t in self.tracks.values() if t.start_s is None and t.job.submit_s + bound_s <= self.now]
        for track in late:
            track.starves = True
        return sorted(late, key=lambda track: track.number)

    # What follows --------------------------------------------------------------------------------------------------

    def running(self) -> list[Track]:
        """Tracks of the running jobs, by slot."""
        return [self.tracks[slot] for slot in sorted(self.tracks) if self.tracks[slot].start_s is not None]

    def _end(self, track: Track) -> None:
        self.scheduler.end(track.slot, self.now)
        self.watch.gone(track.slot)
        del self.tracks[track.slot]

    def _back(self, slot: int) -> None:
        track = self.tracks[slot]
        assert track.start_s is not None, f"{track.job.job_id} was evicted but did not run"
        done_s = self.scheduler.state.table.done_s[slot]
        track.left_s = track.runtime_s - done_s
        track.evictions += 1
        track.done_s = done_s
        track.start_s, track.promised_s = None, math.inf

    def _cycle(self) -> tuple[list[int], list[int]]:
        self._starving()
        twin = copy.deepcopy(self.scheduler) if self.twice else None
        self.watch.before(self.scheduler, self.now)
        started, evicted = setup.cycle(self.scheduler, self.now)
        if twin is not None:
            assert setup.cycle(twin, self.now) == (started, evicted), "the same state decided differently"
        wrong = self.watch.after(self.scheduler, self.now, started)
        assert not wrong, "\n".join(["", *wrong])
        self._moves(started, evicted)
        for slot in evicted:
            self._back(slot)
        self._starving()  # who was evicted may have waited too long, and have started again by that
        for slot in started:
            self._start(self.tracks[slot])
        for slot in self.scheduler.resized:
            self._resize(self.tracks[slot])
        self._promises()
        self._check()
        idle = stuck(self.scheduler) + (
            idle_before_a_plan(self.scheduler, self.now) + passed_over(self.scheduler, self.now) if not evicted else []
        )
        assert not idle, "\n".join(["", *idle])
        if not (
            self.scheduler.preemptions or self.scheduler.put_back
        ):  # else the next cycle sees who is the first to be helped now
            self._helped(self._starving(), evicted)
        name = [self.tracks[slot].job.job_id for slot in (*started, *evicted)]
        self.history.append((self.now, name[: len(started)], name[len(started) :]))
        return started, evicted

    def _moves(self, started: list[int], evicted: list[int]) -> None:
        """Who is moved goes on at once, may be moved, and the budget holds; called before the evictions are noted."""
        limits, table, gpus = self.policy.defragment, self.scheduler.state.table, self.spec.gpus
        for slot in self.scheduler.migrated:
            track, job = self.tracks[slot], self.tracks[slot].job
            assert limits is not None
            assert slot in evicted, f"{job.job_id} was moved but not taken off its place"
            assert slot in started, f"{job.job_id} was moved but not put on another"
            assert job.preemptible, f"{job.job_id} may not be moved"
            assert job.checkpoint_s is not None, f"{job.job_id} saves nothing by itself"
            assert track.start_s is not None
            assert self.now - track.start_s >= max(limits.rest_s if track.moves else 0.0, job.min_run_s), (
                f"{job.job_id} has not rested"
            )
            track.moves += 1
            assert track.moves <= limits.moves_per_job, f"{job.job_id} was moved {track.moves} times"
            starting_s = job.restart_s if track.evictions else 0.0
            lost_s = self.now - track.start_s - starting_s - (table.done_s[slot] - track.done_s) + job.restart_s
            assert lost_s <= job.checkpoint_s + job.restart_s + EPSILON_S, f"{job.job_id} lost {lost_s} s"
            self.moved.append((self.now, lost_s * table.demands[slot].gpu_milli / 1000))
        if limits is not None:
            hour = [gpu_s for at_s, gpu_s in self.moved if at_s > self.now - 3600.0]
            assert len(hour) <= limits.moves_per_hour(gpus), f"{len(hour)} moves in an hour"
            assert sum(hour) <= limits.lost_share * gpus * 3600.0 + EPSILON_S, f"{sum(hour)} GPU s lost in an hour"

    def _start(self, track: Track) -> None:
        job, shares = track.job, self.scheduler.state.table.shares[track.slot] or ()
        assert track.start_s is None, f"{job.job_id} was started twice"
        track.start_s = self.now
        track.since_s = self.now + (job.restart_s if track.evictions else 0.0)
        track.speed = self._speed(track)
        done_s = self.scheduler.state.table.done_s[track.slot]
        track.ends_by_s = math.inf
        if job.limit_s is not None:
            track.ends_by_s = track.since_s + max(0.0, job.limit_s - done_s)
        assert self.now <= track.promised_s + EPSILON_S, (
            f"{job.job_id} was promised a start by {track.promised_s}, starts at {self.now}"
        )
        pool = self.spec.pools[self.scheduler.state.table.pools[track.slot]].name
        for share in shares:
            at = pool, share[0]
            assert at not in self.sick, f"{job.job_id} starts on {pool}/{share[0]}, which is {self.sick.get(at)}"
            devices = share[2] if len(share) > 2 else 0
            assert not any(devices >> device & 1 for device in self.bad.get(at, ())), f"{job.job_id} got a bad GPU"

    def _speed(self, track: Track) -> float:
        """As many of its replicas run, so fast it goes; only those with GPUs count where there are any."""
        demand, shares = track.job.demand, self.scheduler.state.table.shares[track.slot] or ()
        if demand is None or not demand.elastic:
            return 1.0
        roles = [n for n, r in enumerate(demand.roles) if r.gpus or r.milli_gpu or r.profile]
        roles = roles or list(range(len(demand.roles)))
        now = sum(DeviceShare(*share).replicas for share in shares if DeviceShare(*share).role in roles)
        return (max(1, now) / sum(demand.roles[n].replicas for n in roles)) ** track.job.scaling

    def _resize(self, track: Track) -> None:
        """Its work goes on from here, after it has stood still for as long as a start takes."""
        if track.start_s is not None:
            assert track.job.demand is not None
            assert track.job.demand.elastic, f"{track.job.job_id} is rigid and was resized"
            track.left_s -= max(0.0, self.now - track.since_s) * track.speed
            track.since_s, track.speed = self.now + track.job.restart_s, self._speed(track)

    def _repaired(self, track: Track) -> None:
        """It goes on from its last checkpoint: what it has done since is to be done again."""
        job, demand = track.job, track.job.demand
        assert track.start_s is not None
        assert job.repairable or (demand is not None and demand.elastic), f"{job.job_id} can not be repaired"
        ran_s = max(0.0, self.now - track.since_s)
        track.left_s -= job.saved_s(ran_s, told=False) * track.speed
        track.since_s, track.speed = self.now + job.restart_s, self._speed(track)

    def _promises(self) -> None:
        waiting = {slot: track for slot, track in self.tracks.items() if track.start_s is None}
        decisions = {slot: self.scheduler.decision(slot, self.now) for slot in self.tracks}
        assert all(decision.reason for decision in decisions.values()), "every decision has a reason"
        for slot, track in waiting.items():
            decision = decisions[slot]
            if decision.guaranteed_start_s is not None:
                track.promised_s = min(track.promised_s, decision.guaranteed_start_s)
            assert self.now <= track.promised_s + EPSILON_S, (
                f"{track.job.job_id} was promised a start by {track.promised_s} and waits at {self.now}: {decision}"
            )

    def _helped(self, starving: list[Track], evicted: Collection[int]) -> None:
        """Whoever has waited too long, the first of them at least, has a reservation if there is one to be had. Who was
        evicted in this very cycle may have one, but need not."""
        if all(track.slot in evicted for track in starving) or self.sick or any(self.bad.values()) or self.tenants:
            return
        decisions = [self.scheduler.decision(track.slot, self.now) for track in starving]
        assert any(each.verdict == "reserved" for each in decisions), f"nothing is reserved for any of {decisions}"

    def _check(self) -> None:
        wrong = audit(self.scheduler)
        assert not wrong, "\n".join(["", *wrong])
        table = self.scheduler.state.table
        assert sorted(table.running()) == [track.slot for track in self.running()]
        for track in self.running():
            pool = self.spec.pools[table.pools[track.slot]].name
            for share in table.shares[track.slot] or ():
                assert self.sick.get((pool, share[0])) != "down", f"{track.job.job_id} runs on a node that is down"
        self._ends_by_device()

    def _ends_by_device(self) -> None:
        """What is kept by device and by node about ends equals that of a new table of all that runs."""
        layer, table = self.scheduler.state.layer, self.scheduler.state.table
        for ends in () if layer is None else (*layer.ends, *(layer.limits or ())):
            if isinstance(ends, DeviceEnds):
                made_anew = DeviceEnds(ends.layout, table.shares)
                for end_s, slot in ends.order:
                    made_anew.add(slot, end_s)
                assert np.array_equal(made_anew.device_s, ends.device_s)
                assert made_anew.on == ends.on

    def _same(self, twin: Scheduler, when: str) -> None:
        mine, theirs = self.scheduler, twin
        assert mine.state.cluster == theirs.state.cluster, when
        assert mine.state.queue.slots() == theirs.state.queue.slots(), when
        for slot in self.tracks:
            assert mine.decision(slot, self.now) == theirs.decision(slot, self.now), when
