"""How fast traces are replayed, and what comes out, policy by policy.

Run: python benchmarks/replay.py TRACE:NODESxGPUS[:POLICY,...] ... [--estimates perfect] [--repeat 3] [--json]
For example: python benchmarks/replay.py philly_full.csv.gz:72x8:fifo,easy kth_sp2.swf.gz:1x100

The traces measured in the README are public: Microsoft Philly 2017 (Jeon et al., ATC'19, CC-BY-4.0), Microsoft ITP 2021
(ElasticFlow, MIT), KTH SP2 1996 (Parallel Workloads Archive). An event is an arrival or an end; the time is that of the
replay loop, best of the repetitions. Peak memory is of the whole process and never falls from row to row.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec
from schedmate.simulator import Estimates, Hostile, Perfect, Predicted, Requested, Result, simulate
from schedmate.traces import open_trace


@dataclass(frozen=True)
class Case:
    """A trace, a cluster and the policies to replay it under."""

    trace: Path
    cluster: ClusterSpec
    policies: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Case:
        """From ``TRACE:NODESxGPUS[:POLICY,...]``."""
        path, _, rest = text.partition(":")
        size, _, policies = rest.partition(":")
        nodes, times, gpus = size.partition("x")
        if not (path and times and nodes.isdigit() and gpus.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is not TRACE:NODESxGPUS[:POLICY,...]")
        return cls(
            Path(path), ClusterSpec.uniform(int(nodes), int(gpus)), tuple((policies or ",".join(POLICIES)).split(","))
        )


def estimates_named(name: str) -> Estimates:
    """Fresh ones: those that learn are used up by a replay."""
    if name == "predicted":
        from predictors import OnlineDurationPredictor

        return Predicted(OnlineDurationPredictor())
    if name == "hostile":
        return Hostile()
    return Requested() if name == "requested" else Perfect()


def measure(case: Case, estimates: str, repeat: int) -> list[dict[str, Any]]:
    """One row a policy, from the fastest repetition."""
    jobs = sorted(open_trace(case.trace)[0], key=lambda record: record.submit_s)
    rows = []
    for policy in case.policies:
        runs: list[Result] = [simulate(jobs, case.cluster, policy, estimates_named(estimates)) for _ in range(repeat)]
        best = max(runs, key=lambda result: result.events_per_s)
        rows.append(
            {
                "trace": case.trace.name,
                "cluster": "+".join(f"{pool.nodes}x{pool.gpus_per_node}" for pool in case.cluster.pools),
                "policy": policy,
                "estimates": estimates,
                "jobs": len(best.job_ids),
                "events_per_s": round(best.events_per_s),
                "mean_jct_s": round(float(best.jct_s.mean()), 1),
                "mean_queueing_s": round(float(best.waiting_s.mean()), 1),
                "longest_queueing_s": round(float(best.waiting_s.max()), 1),
                "peak_memory_mib": round(best.peak_memory_mib),
            }
        )
    return rows


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Case.parse, metavar="TRACE:NODESxGPUS[:POLICY,...]")
    parser.add_argument("--estimates", default="perfect", choices=("perfect", "requested", "predicted", "hostile"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    try:
        rows = [row for case in wanted.cases for row in measure(case, wanted.estimates, max(1, wanted.repeat))]
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    if wanted.json:
        print(json.dumps({"rows": rows}))
        return 0
    widths = {
        name: max(
            len(name), *(len(f"{row[name]:,}" if isinstance(row[name], int | float) else row[name]) for row in rows)
        )
        for name in rows[0]
    }
    print("  ".join(name.ljust(width) for name, width in widths.items()))
    for row in rows:
        cells = (
            f"{row[n]:,}".rjust(w) if isinstance(row[n], int | float) else row[n].ljust(w) for n, w in widths.items()
        )
        print("  ".join(cells))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
