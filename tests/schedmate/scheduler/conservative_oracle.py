"""Conservative backfilling written a second time, plainly, to check the core against it (Mu'alem and Feitelson, 2001).

Every job gets, when it is submitted, the earliest start that takes nothing from the reservations there are. When a
job ends early the others are looked at in order: each moves to an earlier start if there is one beside the
reservations of all others as they then are, and so again until nobody moves. Nodes are looked at one by one, time
by time.

Jobs are (submit, gpus, runtime, estimate), none longer than its estimate, all at least 1. The result is a start time
for each.
"""

from __future__ import annotations

from typing import NamedTuple

Timed = tuple[int, int, int, int]


class Plan(NamedTuple):
    start: float
    taken: dict[int, int]


def place(free: list[int], capacity: int, gpus: int) -> dict[int, int] | None:
    """The packing rule, by looking at every node."""
    if gpus <= capacity:
        node = min((n for n in range(len(free)) if free[n] >= gpus), key=lambda n: (free[n], n), default=None)
        return None if node is None else {node: gpus}
    whole = [n for n in range(len(free)) if free[n] == capacity][: gpus // capacity]
    if len(whole) < gpus // capacity:
        return None
    taken = dict.fromkeys(whole, capacity)
    if gpus % capacity:
        others = [n for n in range(len(free)) if n not in taken and free[n] >= gpus % capacity]
        if not others:
            return None
        taken[min(others, key=lambda n: (-free[n], n))] = gpus % capacity
    return taken


def starts(jobs: list[Timed], nodes: int, capacity: int) -> list[float]:
    """When each job starts."""
    plans: dict[int, Plan] = {}
    running: dict[int, Plan] = {}
    started: dict[int, float] = {}

    def free_during(since: float, until: float, but: int) -> list[int]:
        held = [(p.start, p.start + jobs[i][3], p.taken) for i, p in [*plans.items(), *running.items()] if i != but]
        times = [since, *(start for start, _, _ in held if since < start < until)]
        return [
            min(capacity - sum(taken.get(n, 0) for start, end, taken in held if start <= t < end) for t in times)
            for n in range(nodes)
        ]

    def earliest(i: int, now: float) -> Plan:
        ends = [p.start + jobs[k][3] for k, p in [*plans.items(), *running.items()] if k != i]
        for t in sorted({now, *(end for end in ends if end > now)}):
            taken = place(free_during(t, t + jobs[i][3], i), capacity, jobs[i][1])
            if taken is not None:
                return Plan(t, taken)
        raise AssertionError("an empty cluster holds every job")

    order = sorted(range(len(jobs)), key=lambda i: (jobs[i][0], i))
    now = min(job[0] for job in jobs)
    while True:
        ended = [i for i in running if started[i] + jobs[i][2] == now]
        early = any(started[i] + jobs[i][3] > now for i in ended)
        for i in ended:
            del running[i]
        while early:
            early = False
            for i in [i for i in order if i in plans]:
                moved = earliest(i, now)
                if moved.start < plans[i].start:
                    plans[i], early = moved, True
        for i in order:
            if jobs[i][0] == now:
                plans[i] = earliest(i, now)
        for i in [i for i in order if i in plans and plans[i].start == now]:
            running[i] = plans.pop(i)
            started[i] = now
        later = (
            [job[0] for job in jobs] + [p.start for p in plans.values()] + [started[i] + jobs[i][2] for i in running]
        )
        later = [t for t in later if t > now]
        if not later:
            return [started[i] for i in range(len(jobs))]
        now = min(later)
