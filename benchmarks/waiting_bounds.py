"""What bounds on waiting cost, and whom they help: large jobs, small ones, and who waits longest.

    python -m benchmarks.waiting_bounds [--generator semantic] [--seeds 8] [--first 1] [--jobs 2000] [--load 0.9]
    python -m benchmarks.waiting_bounds --trace FILE:NODESxGPUS

``core`` bounds waiting twice: a job that has waited for the starvation bound goes before all others, and inside its
tenant and class one goes first that has been passed for so many times what the cluster takes for all that waits
(`Policy.patience`: "backlogs", and 4 h). Here it has other bounds of either kind. It knows the users' limits ("no
hints") or the true runtimes ("perfect").

Without a trace the jobs are synthetic, on 128 GPUs, and arrive at that load (GPU time asked for over GPU time offered
while jobs arrive), or so fast that ``core`` with three days and six backlogs, and no hints, queues for three mean
runtimes; workloads that never queue so long are left out. The last job does not wait for jobs to come: a bound that is
longer than jobs arrive for is only seen to be paid for with many jobs at a moderate load.

Columns: mean JCT as a multiple of that with three days, six backlogs and no hints; mean hours of queueing of jobs below
half of the cluster and of the others; the longest, in hours. Over seeds JCT is a geometric mean, the rest plain means.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean

from analyzers.types import JobRecord
from benchmarks.replay import Case as TraceCase
from benchmarks.semantic_scheduling import CLUSTER, GENERATORS, WANTED_QUEUE, at_queue, load_of
from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec
from schedmate.scheduler.policies import DAY_S, Patience
from schedmate.simulator import Perfect, Requested, Result, simulate
from schedmate.simulator.load import at_load
from schedmate.traces import open_trace
from schedmate.workload import WorkloadSpec
from schedmate.workload.records import record_of

CORE = POLICIES["core"]
SIX_BACKLOGS = Patience(plans=1, longest_s=math.inf)
OF_OLD = replace(CORE, starvation_bound_s=3 * DAY_S, patience=SIX_BACKLOGS)
BOUNDS = {
    "3 days; 6 backlogs, a day at most": replace(OF_OLD, patience=Patience(plans=1)),
    "3 days; 6 backlogs": OF_OLD,
    "3 days; 24 backlogs": CORE,
    "7 days; 24 backlogs": replace(CORE, starvation_bound_s=7 * DAY_S),
    "none; 24 backlogs": replace(CORE, starvation_bound_s=math.inf),
    "none; no patience": replace(CORE, starvation_bound_s=math.inf, patience=None),
}
KNOWS = {"no hints": Requested, "perfect": Perfect}
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds of mean JCT; hours of queueing."""

    jct_s: float
    small_h: float
    large_h: float
    longest_h: float


def waits(result: Result, gpus: int) -> Waits:
    """Of one replay on so many GPUs; 0 of a kind of which there are no jobs."""
    queued_h, large = result.waiting_s / HOUR_S, result.gpus >= gpus / 2
    small_h, large_h = (float(queued_h[which].mean()) if which.any() else 0.0 for which in (~large, large))
    return Waits(float(result.jct_s.mean()), small_h, large_h, float(queued_h.max()))


def synthetic(name: str, seed: int, jobs: int, at: float | None) -> tuple[list[JobRecord], float]:
    """The jobs of a generator at a load, or as fast as ``core`` of old without hints queues for long, and their load.

    `UserError` where they never do.
    """
    generator = GENERATORS[name](WorkloadSpec(seed=seed, jobs=jobs))
    records = [record_of(job.ask, job.truth) for job in generator.jobs()]
    if at is not None:
        return at_load(records, at / load_of(records)), at
    return at_queue(records, WANTED_QUEUE, OF_OLD)


def measured(records: Sequence[JobRecord], cluster: ClusterSpec) -> dict[tuple[str, str], Waits]:
    """By the name of the bound and what is known."""
    return {
        (bound, knows): waits(simulate(records, cluster, policy, KNOWS[knows]()), cluster.gpus)
        for bound, policy in BOUNDS.items()
        for knows in KNOWS
    }


def table(found: Sequence[dict[tuple[str, str], Waits]]) -> Iterator[str]:
    """The rows, over all workloads together."""
    yield "| bounds | known of runtimes | mean JCT | small jobs wait h | large jobs wait h | longest h |"
    yield "|---|---|---|---|---|---|"
    for bound, knows in found[0]:
        own = [each[bound, knows] for each in found]
        jct = geometric_mean(each[bound, knows].jct_s / each["3 days; 6 backlogs", "no hints"].jct_s for each in found)
        hours = (fmean(getattr(each, name) for each in own) for name in ("small_h", "large_h", "longest_h"))
        yield f"| {bound} | {knows} | {jct:.2f} | {' | '.join(f'{value:.1f}' for value in hours)} |"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", choices=tuple(GENERATORS), action="append", help="default: both")
    parser.add_argument("--seeds", type=int, default=8, help="how many (default 8)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs of a workload (default 2000)")
    parser.add_argument("--load", type=float, help="a load in place of the one at which they queue for long")
    parser.add_argument("--trace", type=TraceCase.parse, help="a trace and its cluster, such as itp_c04.csv.gz:80x8")
    asked = parser.parse_args(words)
    if asked.trace is not None:
        print("\n".join(table([measured(list(open_trace(asked.trace.trace)[0]), asked.trace.cluster)])))
        return
    for name in asked.generator or tuple(GENERATORS):
        found = []
        for seed in range(asked.first, asked.first + asked.seeds):
            try:
                records, load = synthetic(name, seed, asked.jobs, asked.load)
            except UserError as error:
                print(f"  {name} seed {seed} left out: {error.what}", file=sys.stderr, flush=True)
                continue
            found.append(measured(records, CLUSTER))
            print(f"  {name} seed {seed} load {load:.2f}", file=sys.stderr, flush=True)
        if found:
            print(f"\n{name}: {len(found)} workloads of {asked.jobs:,} synthetic jobs\n\n" + "\n".join(table(found)))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"waiting_bounds: {error}")
