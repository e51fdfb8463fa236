"""EASY backfilling as it is written on a blackboard, beside the core's, on one flat pool of GPUs.

Run: python -m benchmarks.naive_easy TRACE GPUS [--repeat 3] [--json]
For example: python -m benchmarks.naive_easy philly_full.csv.gz 576

The plain loop keeps lists, sorts the running jobs whenever a head is blocked, and scans the whole queue at every event.
Both get the true runtimes; they have to give the same start to every job. An event is an arrival or an end; best of the
repetitions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import simulate
from schedmate.traces import open_trace


def naive(jobs: Sequence[JobRecord], gpus: int) -> list[float]:
    """Start of every job, in seconds; jobs in order of submission."""
    runtimes = [job.duration_s or 0.0 for job in jobs]
    starts_s = [0.0] * len(jobs)
    running: list[tuple[float, int]] = []  # (end, job)
    queue: list[int] = []
    free, at, now = gpus, 0, 0.0
    while at < len(jobs) or running:
        now = min([end for end, _ in running] + ([jobs[at].submit_s] if at < len(jobs) else []))
        free += sum(jobs[i].gpus for end, i in running if end == now)
        running = [(end, i) for end, i in running if end != now]
        while at < len(jobs) and jobs[at].submit_s == now:
            queue.append(at)
            at += 1
        started = set[int]()
        shadow_s, spare = None, 0
        for i in queue:
            size = jobs[i].gpus
            if shadow_s is None and size > free:  # the head is blocked: when will it fit, and what is left then?
                then = free
                for end, other in sorted(running):
                    then += jobs[other].gpus
                    if then >= size:
                        shadow_s = end
                        break
                # everything else that ends at that very moment is there as well
                then = free + sum(
                    jobs[other].gpus for end, other in running if shadow_s is not None and end <= shadow_s
                )
                spare = then - size
                continue
            if size > free:
                continue
            if shadow_s is not None and now + runtimes[i] > shadow_s:
                if size > spare:
                    continue
                spare -= size
            free -= size
            starts_s[i] = now
            running.append((now + runtimes[i], i))
            started.add(i)
        if started:
            queue = [i for i in queue if i not in started]
    return starts_s


def main() -> int:
    """Print both, and how they compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("gpus", type=int)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    read = sorted(open_trace(wanted.trace)[0], key=lambda record: record.submit_s)
    jobs = [job for job in read if job.duration_s is not None and 0 < job.gpus <= wanted.gpus]
    plain_s, starts_s = float("inf"), list[float]()
    for _ in range(max(1, wanted.repeat)):
        since = perf_counter()
        starts_s = naive(jobs, wanted.gpus)
        plain_s = min(plain_s, perf_counter() - since)
    spec = ClusterSpec.uniform(1, wanted.gpus)
    results = [simulate(jobs, spec, "easy") for _ in range(max(1, wanted.repeat))]
    core_s = min(result.replay_s for result in results)
    row = {
        "trace": wanted.trace.name,
        "jobs": len(jobs),
        "longest_queue": int(results[0].waiting_jobs.max()),
        "naive_events_per_s": round(2 * len(jobs) / plain_s),
        "core_events_per_s": round(2 * len(jobs) / core_s),
        "ratio": round(plain_s / core_s, 1),
        "same_starts": results[0].start_s.tolist() == starts_s,
    }
    print(json.dumps(row) if wanted.json else "  ".join(f"{name} {value}" for name, value in row.items()))
    return 0 if row["same_starts"] else 1


if __name__ == "__main__":
    sys.exit(main())
