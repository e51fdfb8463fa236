"""The policy with patience written a second time, plainly: every plan anew at every moment, by looking at every node.

Jobs are (submit, gpus, runtime) with exact runtimes of at least 1; the result is a start time for each.
"""

from __future__ import annotations

from collections.abc import Callable

from schedmate.scheduler.policies import Patience

Job = tuple[int, int, int]
Shares = dict[int, int]
Place = Callable[[list[int], int, int], Shares | None]
Plan = tuple[int, float, Shares]  # job, start, GPUs by node


class Replay:
    """``place`` is the packing rule: free GPUs by node, GPUs of a node, GPUs asked for."""

    def __init__(self, jobs: list[Job], nodes: int, capacity: int, patience: Patience, place: Place) -> None:
        self.jobs, self.nodes, self.capacity, self.patience = jobs, nodes, capacity, patience
        self._place = place
        self.begun: dict[int, float] = {}
        self._where: dict[int, Shares] = {}
        self._promoted: list[int] = []

    def starts(self) -> list[float]:
        """Start times of all jobs."""
        now = float(min(job[0] for job in self.jobs))
        while True:
            self._walk(now)
            later = [job[0] for job in self.jobs] + [self._end(i) for i in self.begun]
            if not (later := [t for t in later if t > now]):
                return [self.begun[i] for i in range(len(self.jobs))]
            now = min(later)

    def _end(self, i: int) -> float:
        return self.begun[i] + self.jobs[i][2]

    def _usable(self, plans: list[Plan], from_s: float, until_s: float) -> list[int]:
        """Per node, what is free all the time from one moment until another, when all plans take place."""
        moments = {from_s, *(start_s for _, start_s, _ in plans if from_s < start_s < until_s)}
        usable = [self.capacity] * self.nodes
        for moment in moments:
            there = [self._where[i] for i in self.begun if self._end(i) > moment]
            there += [shares for i, start_s, shares in plans if start_s <= moment < start_s + self.jobs[i][2]]
            for node in range(self.nodes):
                free = self.capacity - sum(shares.get(node, 0) for shares in there)
                usable[node] = min(usable[node], free)
        return usable

    def _placed(self, i: int, plans: list[Plan], at_s: float) -> Shares | None:
        return self._place(self._usable(plans, at_s, at_s + self.jobs[i][2]), self.capacity, self.jobs[i][1])

    def _plan(self, i: int, plans: list[Plan], now: float) -> Plan:
        moments = {now, *map(self._end, self.begun), *(start_s + self.jobs[k][2] for k, start_s, _ in plans)}
        for moment in sorted(t for t in moments if t >= now):
            shares = self._placed(i, plans, moment)
            if shares is not None:
                return i, moment, shares
        raise AssertionError("an empty cluster holds every job")

    def _bound_s(self, waiting: list[int]) -> float:
        backlog = sum(self.jobs[k][1] * self.jobs[k][2] for k in waiting if k not in self.begun)
        return self.patience.bound_s(backlog / (self.nodes * self.capacity))

    def _walk(self, now: float) -> None:
        plans: list[Plan] = []
        waiting = [i for i, job in enumerate(self.jobs) if job[0] <= now and i not in self.begun]
        order = sorted(waiting, key=lambda i: (self.jobs[i][1] * self.jobs[i][2], self.jobs[i][0], i))
        self._promoted = [i for i in self._promoted if i in waiting]
        for i in sorted(order, key=lambda i: self.jobs[i][0]):
            waited_s, there = now - self.jobs[i][0], len(self._promoted) < self.patience.promoted
            if i in self._promoted:
                continue
            if not there or waited_s < self._bound_s(waiting):
                break
            self._promoted.append(i)
        tentative = 0
        for i in [*self._promoted, *(i for i in order if i not in self._promoted)]:
            shares = self._placed(i, plans, now)
            if shares is not None:
                self.begun[i], self._where[i] = now, shares
            elif i in self._promoted:
                plans.append(self._plan(i, plans, now))
            elif now - self.jobs[i][0] >= self.patience.after_s and tentative < self.patience.plans:
                plan = self._plan(i, plans, now)
                plans.append(plan)
                wait_s = plan[1] - self.jobs[i][0]
                is_late = wait_s >= self._bound_s(waiting)
                if is_late and len(self._promoted) < self.patience.promoted:
                    self._promoted.append(i)
                else:
                    tentative += 1
