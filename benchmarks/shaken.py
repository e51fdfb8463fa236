"""Waiting times of policies over shaken inputs: means over many seeds, and the spread between them.

Run: python -m benchmarks.shaken TRACE:NODESxGPUS[:POLICY,...] ... [--shakes 20] [--within 30] [--estimates perfect]
For example: python -m benchmarks.shaken philly_oct_w1.csv.gz:72x8:fifo,kant itp_c04.csv.gz:80x8:kant

Every submission is moved by a uniform draw (`schedmate.simulator.shaken`), with the seeds 0, 1, 2, ...; ``mean`` and
``p99`` are means over the shakes with twice their standard error, ``longest`` is the median of the longest waits.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from benchmarks.replay import Case, estimates_named
from schedmate.simulator import shaken, simulate
from schedmate.traces import open_trace


def waits(case: Case, policy: str, estimates: str, shakes: int, within_s: float) -> NDArray[np.float64]:
    """Mean, 99 % quantile and maximum of the waiting times in seconds, one row a shake."""
    jobs = list(open_trace(case.trace)[0])
    rows = []
    for seed in range(shakes):
        waiting_s = simulate(shaken(jobs, seed, within_s), case.cluster, policy, estimates_named(estimates)).waiting_s
        rows.append((waiting_s.mean(), np.quantile(waiting_s, 0.99), waiting_s.max()))
    return np.array(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Case.parse, metavar="TRACE:NODESxGPUS[:POLICY,...]")
    parser.add_argument("--shakes", type=int, default=20)
    parser.add_argument("--within", type=float, default=30.0, help="seconds either way")
    parser.add_argument("--estimates", default="perfect", choices=("perfect", "requested", "predicted"))
    wanted = parser.parse_args()
    print(f"{'trace':<24}{'policy':<14}{'mean s':>16}{'p99 s':>18}{'longest s':>12}")
    for case in wanted.cases:
        for policy in case.policies:
            rows = waits(case, policy, wanted.estimates, max(1, wanted.shakes), wanted.within)
            middle = rows.mean(axis=0)
            error = 2 * rows.std(axis=0, ddof=min(1, len(rows) - 1)) / np.sqrt(len(rows))
            mean, p99 = (f"{m:,.1f} +- {e:,.1f}" for m, e in zip(middle[:2], error[:2], strict=True))
            print(f"{case.trace.name:<24}{policy:<14}{mean:>16}{p99:>18}{np.median(rows[:, 2]):>12,.0f}", flush=True)


if __name__ == "__main__":
    main()
