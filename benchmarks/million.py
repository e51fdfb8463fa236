"""A million jobs on ten thousand nodes: how long a replay takes, and how much memory, without a standing backlog.

Run: python -m benchmarks.million [--jobs 1000000] [--nodes 10000] [--load 0.7] [--policy core] [--json]

The jobs are synthetic and made while they are read: Poisson arrivals; sizes from 1 to 512 GPUs, most of them small;
log-normal runtimes (median 10 min, mean about an hour), longer for larger jobs; asked-for times of up to three times
that, which the policy knows. So much is offered that a part `--load` of the GPUs is busy.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Requested, simulate

#: GPUs of a job, and how many of a hundred have so many.
SIZES = ((1, 50), (2, 12), (4, 12), (8, 18), (16, 4), (32, 2), (64, 1.2), (128, 0.5), (256, 0.2), (512, 0.1))
MEDIAN_S = 600.0
SIGMA = 1.9


@dataclass(frozen=True, slots=True)
class Mix:
    """``jobs`` for a cluster of so many GPUs, offering ``load`` of it; the same seed gives the same jobs."""

    jobs: int
    gpus: int
    load: float
    seed: int = 1

    def records(self) -> Iterator[JobRecord]:
        """One by one, in order of submission."""
        draw, now = random.Random(self.seed), 0.0
        sizes, weights = zip(*SIZES, strict=True)
        mean_s = MEDIAN_S * math.exp(SIGMA**2 / 2)
        total = sum(weights)
        mean_gpu_s = sum(w / total * size * mean_s * _longer(size) for size, w in SIZES)
        rate = self.load * self.gpus / mean_gpu_s
        for number in range(self.jobs):
            now += draw.expovariate(rate)
            size = draw.choices(sizes, weights)[0]
            runtime_s = min(30 * 86400.0, draw.lognormvariate(math.log(MEDIAN_S), SIGMA) * _longer(size))
            yield JobRecord(str(number), now, runtime_s, size, requested_s=runtime_s * draw.uniform(1.0, 3.0))


def _longer(size: int) -> float:
    return 1.0 + 0.2 * math.log2(size)


def main() -> int:
    """Print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--policy", default="core")
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    cluster, since = ClusterSpec.uniform(wanted.nodes), process_time()
    result = simulate(Mix(wanted.jobs, cluster.gpus, wanted.load).records(), cluster, wanted.policy, Requested())
    row = {
        "policy": wanted.policy,
        "jobs": len(result.job_ids),
        "nodes": wanted.nodes,
        "cpu_s": round(process_time() - since, 1),
        "replay_s": round(result.replay_s, 1),
        "events_per_s": round(result.events_per_s),
        "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "sor_while_arriving": round(result.gar.until(float(result.submit_s[-1])).mean() or 0.0, 3),
        "longest_queue": int(result.waiting_jobs.max()),
        "mean_queueing_s": round(float(result.waiting_s.mean()), 1),
        "longest_queueing_s": round(float(result.waiting_s.max()), 1),
    }
    print(json.dumps(row) if wanted.json else "  ".join(f"{name} {value}" for name, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
