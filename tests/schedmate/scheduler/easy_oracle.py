"""EASY written a second time, plainly and without any of the core's machinery, to check it against.

`flat` is the textbook (Mu'alem and Feitelson, IEEE TPDS 2001) on one pool of GPUs by counts, planning anew every time.
`on_nodes` is the same on nodes, by looking at every node; while the head waits its reservation stands.
`on_nodes` takes exact runtimes. Jobs are (submit, gpus, runtime), runtimes at least 1; the result is a start time for
each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Job = tuple[int, int, int]
Timed = tuple[int, int, int, int]


def _moments(jobs: Sequence[Job | Timed], starts: dict[int, float], now: float) -> list[float]:
    submits = [job[0] for job in jobs]
    ends = [start + jobs[i][2] for i, start in starts.items()]
    return sorted(t for t in submits + ends if t > now)


def _waiting(jobs: Sequence[Job | Timed], starts: dict[int, float], now: float) -> list[int]:
    return sorted((i for i, job in enumerate(jobs) if job[0] <= now and i not in starts), key=lambda i: (jobs[i][0], i))


def by_submission(job: Timed) -> float:
    return 0.0


def by_estimate(job: Timed) -> float:
    return job[3]


def flat(jobs: list[Timed], gpus: int, passing: Callable[[Timed], float] = by_submission) -> list[float]:
    """With estimates, none shorter than its runtime: (submit, gpus, runtime, estimate). Behind the head the smallest by
    ``passing`` goes first."""
    starts: dict[int, float] = {}

    def free_at(moment: float, now: float) -> int:
        running = [i for i, start in starts.items() if start + jobs[i][2] > now]
        return gpus - sum(jobs[i][1] for i in running if starts[i] + jobs[i][3] > moment)

    def may_start(i: int, now: float, head: int) -> bool:
        if jobs[i][1] > free_at(now, now):
            return False
        if i == head:
            return True
        ends = sorted(start + jobs[k][3] for k, start in starts.items())
        shadow = next(t for t in ends if t > now and free_at(t, now) >= jobs[head][1])
        return now + jobs[i][3] <= shadow or jobs[i][1] <= free_at(shadow, now) - jobs[head][1]

    now = min(job[0] for job in jobs)
    while True:
        while waiting := _waiting(jobs, starts, now):
            order = [waiting[0], *sorted(waiting[1:], key=lambda i: (passing(jobs[i]), jobs[i][0], i))]
            chosen = next((i for i in order if may_start(i, now, waiting[0])), None)
            if chosen is None:
                break
            starts[chosen] = now
        later = _moments(jobs, starts, now)
        if not later:
            return [starts[i] for i in range(len(jobs))]
        now = later[0]


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


def on_nodes(jobs: list[Job], nodes: int, capacity: int) -> list[float]:
    starts: dict[int, float] = {}
    where: dict[int, dict[int, int]] = {}
    planned: dict[int, tuple[float, dict[int, int]]] = {}  # head -> shadow time, left over on each reserved node

    def free_at(moment: float) -> list[int]:
        there = [where[i] for i, start in starts.items() if start + jobs[i][2] > moment]
        return [capacity - sum(taken.get(node, 0) for taken in there) for node in range(nodes)]

    def plan(head: int, now: float) -> tuple[float, dict[int, int]]:
        for moment in _moments(jobs, starts, now):
            taken = place(free_at(moment), capacity, jobs[head][1])
            if taken is not None:
                return moment, {node: free_at(moment)[node] - gpus for node, gpus in taken.items()}
        raise AssertionError("an empty cluster holds every job")

    def placement(i: int, now: float, head: int) -> dict[int, int] | None:
        free = free_at(now)
        taken = place(free, capacity, jobs[i][1])
        if i == head or taken is None:
            return taken
        if head not in planned:
            planned[head] = plan(head, now)
        shadow, left = planned[head]
        if now + jobs[i][2] <= shadow:
            return taken
        beside = place([min(free[n], left.get(n, capacity)) for n in range(nodes)], capacity, jobs[i][1])
        for node, gpus in (beside or {}).items():
            if node in left:
                left[node] -= gpus
        return beside

    now = min(job[0] for job in jobs)
    while True:
        started = True
        while started:
            started = False
            waiting = _waiting(jobs, starts, now)
            for i in waiting:
                taken = placement(i, now, waiting[0])
                if taken is not None:
                    starts[i], where[i], started = now, taken, True
                    break
                if i == waiting[0] and i not in planned:
                    planned[i] = plan(i, now)
        later = _moments(jobs, starts, now)
        if not later:
            return [starts[i] for i in range(len(jobs))]
        now = later[0]
