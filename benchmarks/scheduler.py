"""How fast the scheduler core decides on a cluster of 100,000 GPUs.

One process, one thread (NumPy works on integers here, for which it has no threads). The cluster (12,500 nodes of 8 GPUs
in 391 LeafGroups, three GPU types) and the mix of jobs are synthetic and written down in
benchmarks/data/scheduler_mix.yaml. Rows:

  fill      10,000 jobs are submitted to an empty cluster and decided in one cycle
  steady    10,000 jobs wait; one job ends, decide what follows (the end and the cycle are timed, submissions are not)
  gang      a gang of 2,048 GPUs is submitted to a cluster that is 75 % allocated, and placed
  refusal   at 95 % a gang comes for which enough GPUs are free, but not on whole nodes: the first verdict, and the next
  required  as refusal, but whole nodes are free in number, only not under one switch of the level that is required
  reclaim   a tenant has lent everything and a job of 4,000 GPUs of it comes: victims found, evicted, the job started
  growth    a decision in steady state on 12,500 nodes against one on 1,250, with as many pending

Beside wall time stands the CPU time of the process, which a busy machine disturbs less. The garbage collector runs as
usual. Scheduler.cycle keeps it out of a decision, so that it makes up for that afterwards: collector_* is what it takes
inside what is timed, between_* outside of it, per decision and the longest pass. Before steady state is measured it is
run once, and what exists then is set aside (gc.freeze), once: what comes later is collected again and again.

Between two ends the scheduler is woken when a plan, a rest or an expected end says so: wake_* are these cycles, which
are no decisions about an end, and cpu_ms_per_end is all that is computed for one end, with them. Evictions and starts
are those of the part that is measured.

When a wide gang ends many jobs may start in one decision: p99_up_to_4_starts_ms is of decisions that start no more than
4, p50 and p99_each_above_4_ms are the time per start of those that start more, all without the collector.

For comparison: KAI-Scheduler's published scale test reports about 10 single-GPU jobs/s at 500 nodes, 48.7 s to place a
gang of 512 pods and 249.5 s to declare a wide job unschedulable. That is with Kubernetes around it: every pod passes an
API server, binding included. Here the core alone is measured, so the figures do not compare like with like.

Example: python -m benchmarks.scheduler
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from typing import Any

from benchmarks import scheduler_phases as phases
from benchmarks.scheduler_load import FULL_NODES, load

PHASES = ("fill", "steady", "gang", "refusal", "required", "reclaim", "growth")
TARGETS = {
    "fill jobs_per_cpu_s": (">=", 5000.0),
    "steady p99_cpu_ms": ("<", 10.0),
    "gang max_cpu_ms": ("<", 50.0),
    "refusal first_max_cpu_ms": ("<", 10.0),
    "refusal again_p50_cpu_ms": ("<", 0.1),
    "required first_max_cpu_ms": ("<", 10.0),
    "required again_p50_cpu_ms": ("<", 0.1),
    "reclaim max_cpu_ms": ("<", 1000.0),
    "growth ratio_of_means": ("<=", 2.0),
    "memory peak_mib": ("<", 1536.0),
}


def told(text: str) -> None:
    """Progress, on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run(wanted: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """One row a phase."""
    full = load(wanted.nodes)
    rows: dict[str, dict[str, Any]] = {}
    for phase in wanted.phase or PHASES:
        told(phase)
        if phase == "fill":
            rows[phase] = phases.fill(full, wanted.policy, wanted.pending, wanted.seed, wanted.repeat)
        elif phase == "steady":
            rows[phase] = _steady(wanted, wanted.nodes)
        elif phase == "gang":
            rows[phase] = phases.gang(full, wanted.policy, wanted.seed, 2048, 20)
        elif phase == "refusal":
            rows[phase] = phases.refusal(full, wanted.policy, wanted.seed, 20)
        elif phase == "required":
            rows[phase] = phases.required(full, wanted.policy, wanted.seed, 20)
        elif phase == "reclaim":
            rows[phase] = phases.reclaim(full, wanted.policy, wanted.seed, wanted.nodes * 8 // 25, 5)
        else:
            large, small = rows.get("steady") or _steady(wanted, wanted.nodes), _steady(wanted, wanted.nodes // 10)
            rows[phase] = {f"small_{name}": value for name, value in small.items()} | {
                "ratio_of_means": large["mean_cpu_ms"] / small["mean_cpu_ms"],
                "ratio_of_medians": large["p50_cpu_ms"] / small["p50_cpu_ms"],
            }
    rows["memory"] = {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    return rows


def _steady(wanted: argparse.Namespace, nodes: int) -> dict[str, Any]:
    return phases.steady(load(nodes), wanted.policy, wanted.pending, wanted.seed, wanted.warm_up, wanted.samples, told)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=FULL_NODES)
    parser.add_argument("--policy", default="core")
    parser.add_argument("--pending", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="of fill; the best counts")
    parser.add_argument("--warm-up", type=int, default=2000, help="ends before steady state is measured")
    parser.add_argument("--samples", type=int, default=3000, help="ends measured in steady state")
    parser.add_argument("--phase", action="append", choices=PHASES, help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    wanted = parser.parse_args()
    rows = run(wanted)
    if wanted.json:
        print(json.dumps({"nodes": wanted.nodes, "policy": wanted.policy, "seed": wanted.seed, "rows": rows}))
        return 0
    print(
        f"{wanted.nodes} nodes x 8 GPUs, policy {wanted.policy}, seed {wanted.seed}, Python {platform.python_version()}"
    )
    for name, row in rows.items():
        print(f"\n{name}")
        for key, value in row.items():
            print(f"  {key:<24}{value:>14,.3f}{_target(name, key, value)}")
    return 0


def _target(phase: str, key: str, value: float) -> str:
    if f"{phase} {key}" not in TARGETS:
        return ""
    sign, bound = TARGETS[f"{phase} {key}"]
    met = {"<": value < bound, "<=": value <= bound, ">=": value >= bound}[sign]
    return f"   target {sign} {bound:g}: {'met' if met else 'MISSED'}"


if __name__ == "__main__":
    raise SystemExit(main())
