"""EASY backfilling as it is written on a blackboard, beside the core's: what the indexes are worth.

Run: python -m benchmarks.naive_easy TRACE:NODESxGPUS ... [--repeat 3] [--json]
For example: python -m benchmarks.naive_easy philly_full.csv.gz:72x8 philly_full.csv.gz:1x576

The plain loop keeps lists: at every event it scans the whole queue, looks at every node for every job that could fit,
and plans for a blocked head by letting the running jobs end one after the other. Both get the true runtimes and have to
give the same start to every job. An event is an arrival or an end; the time is that of the processor, best of the
repetitions, for the core with all that its replay notes down.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from time import process_time

from analyzers.types import JobRecord
from benchmarks.replay import Case
from schedmate.simulator import simulate
from schedmate.traces import open_trace

Taken = dict[int, int]


def place(free: Sequence[int], capacity: int, gpus: int) -> Taken | None:
    """The packing rule by looking at every node: the fullest one that holds the gang, or whole ones and the emptiest
    for the rest."""
    if gpus <= capacity:
        best = -1
        for node, left in enumerate(free):
            if left >= gpus and (best < 0 or left < free[best]):
                best = node
        return None if best < 0 else {best: gpus}
    whole, rest = divmod(gpus, capacity)
    nodes = [node for node, left in enumerate(free) if left == capacity][:whole]
    if len(nodes) < whole:
        return None
    taken = dict.fromkeys(nodes, capacity)
    if rest:
        others = [node for node, left in enumerate(free) if left >= rest and node not in taken]
        if not others:
            return None
        taken[max(others, key=lambda node: (free[node], -node))] = rest
    return taken


def plan(
    free: Sequence[int], capacity: int, gpus: int, running: Sequence[tuple[float, int]], where: Mapping[int, Taken]
) -> tuple[float, Taken]:
    """When a blocked head starts, and what is left then on the nodes that it takes."""
    ahead, ends = list(free), sorted(running)
    at = 0
    while at < len(ends):
        end_s = ends[at][0]
        while at < len(ends) and ends[at][0] == end_s:
            for node, held in where[ends[at][1]].items():
                ahead[node] += held
            at += 1
        taken = place(ahead, capacity, gpus)
        if taken is not None:
            return end_s, {node: ahead[node] - held for node, held in taken.items()}
    raise ValueError(f"a job of {gpus} GPUs fits no empty cluster")


def naive(jobs: Sequence[JobRecord], nodes: int, capacity: int) -> list[float]:
    """Start of every job, in seconds; jobs in order of submission."""
    runs_s = [job.duration_s or 0.0 for job in jobs]
    starts_s, where = [0.0] * len(jobs), dict[int, Taken]()
    free, running, queue = [capacity] * nodes, list[tuple[float, int]](), list[int]()
    planned: tuple[int, float, Taken] | None = None
    at = 0
    while at < len(jobs) or running:
        now = min(jobs[at].submit_s if at < len(jobs) else float("inf"), running[0][0] if running else float("inf"))
        while running and running[0][0] == now:
            for node, held in where.pop(heappop(running)[1]).items():
                free[node] += held
        while at < len(jobs) and jobs[at].submit_s == now:
            queue.append(at)
            at += 1
        waiting, idle = list[int](), sum(free)
        for i in queue:
            gpus = jobs[i].gpus
            taken = place(free, capacity, gpus) if gpus <= idle else None
            if waiting and taken is not None and planned is not None:
                _, shadow_s, left = planned
                if now + runs_s[i] > shadow_s:
                    beside = [min(have, left.get(node, capacity)) for node, have in enumerate(free)]
                    taken = place(beside, capacity, gpus)
                    for node, held in (taken or {}).items():
                        if node in left:
                            left[node] -= held
            if taken is None:
                if not waiting and (planned is None or planned[0] != i):
                    planned = (i, *plan(free, capacity, gpus, running, where))
                waiting.append(i)
                continue
            for node, held in taken.items():
                free[node] -= held
            idle -= gpus
            starts_s[i], where[i] = now, taken
            heappush(running, (now + runs_s[i], i))
        queue = waiting
    return starts_s


def measure(case: Case, repeat: int) -> dict[str, object]:
    """One row."""
    pool = case.cluster.pools[0]
    read = sorted(open_trace(case.trace)[0], key=lambda record: record.submit_s)
    jobs = [job for job in read if job.duration_s is not None and 0 < job.gpus <= pool.gpus]
    plain_s = core_s = float("inf")
    for _ in range(repeat):
        since = process_time()
        starts_s = naive(jobs, pool.nodes, pool.gpus_per_node)
        plain_s, since = min(plain_s, process_time() - since), process_time()
        result = simulate(jobs, case.cluster, "easy")
        core_s = min(core_s, process_time() - since)
    return {
        "trace": case.trace.name,
        "cluster": f"{pool.nodes}x{pool.gpus_per_node}",
        "jobs": len(jobs),
        "longest_queue": int(result.waiting_jobs.max()),
        "naive_events_per_s": round(2 * len(jobs) / plain_s),
        "core_events_per_s": round(2 * len(jobs) / core_s),
        "ratio": round(plain_s / core_s, 1),
        "same_starts": result.start_s.tolist() == starts_s,
    }


def main() -> int:
    """Print both, and how they compare; 1 if any job starts at another time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Case.parse, metavar="TRACE:NODESxGPUS")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    rows = [measure(case, max(1, wanted.repeat)) for case in wanted.cases]
    if wanted.json:
        print(json.dumps({"rows": rows}))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    return 0 if all(row["same_starts"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
