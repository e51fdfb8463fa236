"""An independent eye on preemption: told what happened before and after every cycle, it says what should not have been.

It knows the rules (see docs/scheduler-guarantees.md) and the job table, and none of the code that chooses victims.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from schedmate.scheduler import Job, Preemption, Scheduler
from schedmate.scheduler.transaction import is_there, milli_of

_EPSILON_S = 1e-6


class _Run(NamedTuple):
    """A job that ran when a cycle began."""

    job: Job
    pool: int
    start_s: float
    work_s: float
    done_s: float
    preemptions: int


@dataclass
class PreemptionWatch:
    """Call `before` and `after` around every cycle, `broken` when hardware has broken, `gone` for every job that has
    ended or was taken back. ``due_s``: for whom others have been told to leave, and when it starts."""

    due_s: dict[int, float] = field(default_factory=dict)
    count: int = 0
    _runs: dict[int, _Run] = field(default_factory=dict)

    def broken(self) -> None:
        """Hardware has broken: what was promised to those for whom others leave may not hold."""
        self.due_s.clear()

    def gone(self, slot: int) -> None:
        """The job in ``slot`` has ended or was taken back."""
        self.due_s.pop(slot, None)

    def before(self, scheduler: Scheduler, now: float) -> None:
        """What runs as a cycle begins."""
        table = scheduler.state.table
        self._runs = {
            slot: _Run(
                job,
                table.pools[slot],
                table.starts_s[slot],
                table.work_s(slot, now),
                table.done_s[slot],
                table.preemptions[slot],
            )
            for slot in table.running()
            if (job := table.jobs[slot]) is not None
        }

    def after(self, scheduler: Scheduler, now: float, started: list[int]) -> list[str]:
        """What is wrong with the cycle, in words."""
        wrong = list[str]()
        for each in scheduler.preemptions:
            self.count += 1
            for victim in each.victims:
                wrong += self._victim(scheduler, each, victim, now)
            if each.start_s <= now:
                if each.slot not in started:
                    wrong.append(f"slots {each.victims} were evicted for slot {each.slot}, which did not start")
                missing = set(each.victims) - set(scheduler.evicted)
                wrong += [f"slot {slot} was to make room and stays" for slot in missing]
            else:
                self.due_s[each.slot] = each.start_s
        for slot in [slot for slot in self.due_s if slot in started]:
            del self.due_s[slot]
        wrong += [
            f"slot {slot} was to start at {due_s}, when others have left for it, and waits at {now}"
            for slot, due_s in self.due_s.items()
            if due_s <= now
        ]
        for slot in set(scheduler.evicted) - set(scheduler.migrated):
            wrong += self._evicted(scheduler, slot, bool(started))
        return [*wrong, *self._deserved(scheduler), *self._services(scheduler)]

    def _victim(self, scheduler: Scheduler, taken: Preemption, slot: int, now: float) -> list[str]:
        """Whether a victim was one that may be evicted, for the one that it is evicted for."""
        policy, other = scheduler.state.policy, scheduler.state.table.jobs[taken.slot]
        run = self._runs.get(slot)
        if run is None or other is None:
            return [f"slot {slot} is to leave for slot {taken.slot}, but did not run"]
        job, name = run.job, f"job {run.job.job_id}"
        ran_s = max(now, taken.start_s) - run.start_s
        wrong = [] if job.preemptible else [f"{name} is not preemptible, and is evicted"]
        if ran_s < max(job.min_run_s, policy.min_run_s) - _EPSILON_S:
            wrong.append(f"{name} is evicted after {ran_s} s")
        if run.preemptions >= policy.most_preemptions and ran_s < policy.spared_s - _EPSILON_S:
            wrong.append(f"{name} is evicted for the {run.preemptions + 1}th time after {ran_s} s")
        if job.priority >= other.priority and (job.tenant == other.tenant or other.tenant is None):
            wrong.append(f"{name} of class {job.priority} is evicted for job {other.job_id} of {other.priority}")
        return wrong

    def _evicted(self, scheduler: Scheduler, slot: int, anybody_started: bool) -> list[str]:
        """Whether an evicted job keeps what it has saved and its place, and made room for somebody."""
        table, run = scheduler.state.table, self._runs.get(slot)
        if run is None:
            return [f"slot {slot} was evicted and did not run"]
        wrong = []
        if not table.demands[slot].elastic:
            saved_s = table.done_s[slot] - run.done_s
            told = slot not in scheduler.put_back
            if not math.isclose(saved_s, run.job.saved_s(run.work_s, told), abs_tol=_EPSILON_S):
                wrong.append(f"job {run.job.job_id} worked {run.work_s} s and keeps {saved_s} s of it")
        if table.preemptions[slot] > run.preemptions and not anybody_started:
            wrong.append(f"job {run.job.job_id} made room and nobody started")
        policy = scheduler.state.policy
        if slot in scheduler.put_back:
            return wrong + self._put_back(scheduler, slot, run, anybody_started)
        if policy.ranking is None and table.live[slot] is not None and table.entries[slot][0] != -math.inf:
            wrong.append(f"job {run.job.job_id} was evicted and lost its place")
        return wrong

    def _put_back(self, scheduler: Scheduler, slot: int, run: _Run, anybody_started: bool) -> list[str]:
        """Whether a job that was tried early was one to be tried, for long enough, and made room for somebody."""
        policy, table, job, wrong = scheduler.state.policy, scheduler.state.table, run.job, list[str]()
        hints, ran_s = job.hints, run.work_s
        if hints is None or hints.fails_early is None or policy.early is None:
            return [f"job {job.job_id} was put back, and nobody said that it fails early"]
        if not job.preemptible or table.evictions[slot] != 1:
            wrong.append(f"job {job.job_id} may not be put back, or was evicted before")
        if ran_s < max(hints.early_s, job.min_run_s, policy.min_run_s) - _EPSILON_S:
            wrong.append(f"job {job.job_id} is put back after {ran_s} s")
        if not anybody_started:
            wrong.append(f"job {job.job_id} was put back and nobody started")
        return wrong

    def _deserved(self, scheduler: Scheduler) -> list[str]:
        """Tenants that have lost to others what they are guaranteed."""
        layer, table = scheduler.state.layer, scheduler.state.table
        if layer is None or layer.use is None:
            return []
        tree, lost, own = layer.tree, dict[tuple[int, int], str](), set[int]()
        for each in scheduler.preemptions:
            lane = table.queue_lanes[each.slot]
            theirs = set(tree.path(lane.tenant if lane is not None else 0))
            for slot in each.victims:
                run, lane = self._runs[slot], table.queue_lanes[slot]
                path = tree.path(lane.tenant if lane is not None else 0)
                own.update(node for node in path if node in theirs)
                lost |= {(node, run.pool): run.job.job_id for node in path if node not in theirs}
        held, leaving = Counter[tuple[int, int]](), _leaving(scheduler)
        for slot in table.running():
            lane = table.queue_lanes[slot]
            for node in tree.path(lane.tenant if lane is not None else 0) if slot not in leaving else ():
                held[node, table.pools[slot]] += milli_of(table.demands[slot], table.shares[slot] or ())
        return [
            f"tenant {tree.names[node]} has {held[node, pool]} of {tree.guaranteed[node][pool]} milli-GPU without {job}"
            for (node, pool), job in lost.items()
            if node not in own and held[node, pool] < tree.guaranteed[node][pool]
        ]

    def _services(self, scheduler: Scheduler) -> list[str]:
        """Services of which fewer replicas run, or will, than are to be kept."""
        table, kept = scheduler.state.table, Counter[str]()
        leaving = _leaving(scheduler)
        for slot in table.running():
            job = table.jobs[slot]
            if job is not None and job.service is not None and slot not in leaving:
                kept[job.service] += 1
        wrong = []
        for each in scheduler.preemptions:
            for slot in each.victims:
                job = self._runs[slot].job
                if job.service is not None and kept[job.service] < job.least_replicas:
                    wrong.append(f"service {job.service} is left with {kept[job.service]} replicas")
        return wrong


def _leaving(scheduler: Scheduler) -> set[int]:
    """Running jobs that are to make room for others."""
    state = scheduler.state
    plans = [plan for plans in state.reservations.values() for plan in plans]
    return {victim.slot for plan in plans for victim in plan.victims if is_there(state, victim)}
