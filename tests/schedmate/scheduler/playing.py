"""Jobs played on a scheduler by a loop that is not the simulator's."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from schedmate.scheduler import Job, Scheduler


def play(
    scheduler: Scheduler,
    jobs: Sequence[tuple[Job, float]],
    watch: Callable[[Scheduler, float], None] = lambda scheduler, now: None,
) -> list[float]:
    """Start times of jobs, each with its true runtime in seconds; who watches is called after every cycle."""
    starts, number = [-1.0] * len(jobs), {}
    ends: list[tuple[float, int]] = []
    arrivals = sorted(range(len(jobs)), key=lambda i: (jobs[i][0].submit_s, i))
    while arrivals or ends:
        next_s = jobs[arrivals[0]][0].submit_s if arrivals else math.inf
        now = min(next_s, ends[0][0] if ends else math.inf, scheduler.wake_s)
        while ends and ends[0][0] == now:
            scheduler.end(heapq.heappop(ends)[1], now)
        while arrivals and jobs[arrivals[0]][0].submit_s == now:
            i = arrivals.pop(0)
            number[scheduler.submit(jobs[i][0])] = i
        for slot in scheduler.cycle(now):
            starts[number[slot]] = now
            heapq.heappush(ends, (now + jobs[number[slot]][1], slot))
        watch(scheduler, now)
    return starts
