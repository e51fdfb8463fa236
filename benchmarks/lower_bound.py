"""How short mean queueing can be at all on a trace: a bound that no schedule without preemption goes below.

Run: python -m benchmarks.lower_bound TRACE:NODESxGPUS[:POLICY,...] ... [--shakes 0] [--step 300] [--iterations 800]
For example: python -m benchmarks.lower_bound philly_oct_w1.csv.gz:72x8:patient,saf itp_c04.csv.gz:80x8:patient,saf

The bound is the Lagrangian dual of the time-indexed relaxation (Dyer and Wolsey, Discrete Applied Mathematics 1990; as
strong as its linear program). A price on a GPU at every time takes the place of the limit on how many there are: then
each job by itself picks the start S >= submission with the least ``S - submission + gpus x price of [S, S + runtime)``,
and the sum over the jobs less the price of all GPUs there are is no more than the sum of the waits of any schedule,
whatever the (non-negative) prices. They are constant in steps, so that the least is at a submission, at an edge of a
step, or a runtime before one: the bound is exact in continuous time, up to rounding. Good prices are searched for;
worse ones only make it weaker.

It knows all runtimes and all that is to come, sees the GPUs as one pool, and may mix several starts of a job. Nodes,
the unknown future, and that a wide job starts whole or not at all are what a real schedule pays on top. So the least
that is possible is somewhere between the bound and the best found.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord
from benchmarks.replay import Case
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Perfect, shaken, simulate
from schedmate.simulator.shake import SHAKE_S
from schedmate.traces import open_trace

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

#: Of the search for prices, in seconds of wait per GPU second; and its two memories.
LENGTH, DECAY, SQUARE_DECAY = 0.02, 0.9, 0.99


@dataclass(frozen=True, slots=True)
class Jobs:
    """One value a job: submission and runtime in seconds, and GPUs."""

    submit_s: Floats
    run_s: Floats
    gpus: Floats

    @classmethod
    def of(cls, records: Sequence[JobRecord], most_gpus: int) -> Jobs:
        """Those that a cluster of so many GPUs can run."""
        fit = [r for r in records if r.duration_s is not None and 1 <= r.gpus <= most_gpus]
        columns = np.array([(r.submit_s, r.duration_s, r.gpus) for r in fit], dtype=np.float64).reshape(-1, 3)
        return cls(*columns.T)


class _Choice(NamedTuple):
    """Seconds of wait plus price, and the start, of each job."""

    cost_s: Floats
    start_s: Floats


class Prices:
    """``per_s[k]`` in seconds of wait per GPU second, from ``from_s + k * step_s`` on for ``step_s``; 0 elsewhere."""

    def __init__(self, from_s: float, step_s: float, per_s: Floats) -> None:
        self.from_s, self.step_s, self.per_s = from_s, step_s, per_s
        self.edges_s: Floats = from_s + step_s * np.arange(per_s.size + 1)
        self._sum: Floats = np.concatenate(([0.0], np.cumsum(per_s) * step_s))

    def until(self, at_s: Floats) -> Floats:
        """Price of one GPU from the beginning until each time."""
        return np.interp(at_s, self.edges_s, self._sum)

    @property
    def all_time(self) -> float:
        """Price of one GPU for all time."""
        return float(self._sum[-1])

    def cheapest(self, jobs: Jobs) -> _Choice:
        """What each job does by itself. No start can be better that waits longer than starting at once costs."""
        best = jobs.gpus * (self.until(jobs.submit_s + jobs.run_s) - self.until(jobs.submit_s))
        start_s = jobs.submit_s.copy()
        at_once = best.copy()
        for before_s in (np.zeros_like(jobs.run_s), jobs.run_s):  # an edge at the start, or at the end
            first = np.ceil((jobs.submit_s + before_s - self.from_s) / self.step_s).astype(np.int64).clip(0)
            last = np.floor((jobs.submit_s + before_s + at_once - self.from_s) / self.step_s).astype(np.int64)
            count = (last.clip(max=self.per_s.size) - first + 1).clip(0)
            owner = np.repeat(np.arange(count.size), count)
            if not owner.size:
                continue
            number = np.arange(owner.size) - np.repeat(np.cumsum(count) - count, count)
            at_s = np.maximum(self.edges_s[first[owner] + number] - before_s[owner], jobs.submit_s[owner])
            cost = at_s - jobs.submit_s[owner]
            cost += jobs.gpus[owner] * (self.until(at_s + jobs.run_s[owner]) - self.until(at_s))
            begins = np.flatnonzero(np.diff(owner, prepend=-1))
            least, whose = np.minimum.reduceat(cost, begins), owner[begins]
            is_least = cost <= np.repeat(least, np.diff(np.append(begins, owner.size)))
            where = np.flatnonzero(is_least)[::-1]
            found_s = np.empty(count.size)
            found_s[owner[where]] = at_s[where]  # the earliest of equals, written last
            better = least < best[whose]
            best[whose[better]], start_s[whose[better]] = least[better], found_s[whose[better]]
        return _Choice(best, start_s)


def used_gpus(jobs: Jobs, start_s: Floats, prices: Prices) -> Floats:
    """Mean GPUs in use in each step if jobs start then."""
    edges = prices.edges_s
    area = np.zeros(edges.size)
    for at_s, sign in ((start_s, 1.0), (start_s + jobs.run_s, -1.0)):
        order = np.argsort(at_s, kind="stable")
        times = at_s[order] - prices.from_s
        gpus = np.concatenate(([0.0], np.cumsum(jobs.gpus[order])))
        moments = np.concatenate(([0.0], np.cumsum(jobs.gpus[order] * times)))
        begun = np.searchsorted(times, edges - prices.from_s, side="right")
        area += sign * (gpus[begun] * (edges - prices.from_s) - moments[begun])
    return np.diff(area) / prices.step_s


def bound_s(jobs: Jobs, prices: Prices, cluster_gpus: int) -> tuple[float, Floats]:
    """Mean wait in seconds that no schedule goes below, by these prices; and how many GPUs more than there are the jobs
    then use, by step: where more, the price is too low."""
    chosen = prices.cheapest(jobs)
    total_s = float(chosen.cost_s.sum()) - cluster_gpus * prices.all_time
    return total_s / chosen.cost_s.size, used_gpus(jobs, chosen.start_s, prices) - cluster_gpus


def best_bound_s(jobs: Jobs, cluster_gpus: int, until_s: float, step_s: float, iterations: int) -> float:
    """The best bound on the mean wait found in so many iterations, with prices until ``until_s``.

    Prices follow the GPUs used beyond those there are, by the rule of Adam (Kingma and Ba, ICLR 2015) with a step that
    fades out.
    """
    from_s = float(jobs.submit_s.min())
    per_s = np.zeros(int(np.ceil((until_s - from_s) / step_s)) + 1)
    best, mean, square = 0.0, np.zeros_like(per_s), np.zeros_like(per_s)
    for i in range(iterations):
        value, beyond = bound_s(jobs, Prices(from_s, step_s, per_s), cluster_gpus)
        best = max(best, value)
        slope = np.where((per_s > 0) | (beyond > 0), beyond, 0.0) / cluster_gpus
        mean = DECAY * mean + (1 - DECAY) * slope
        square = SQUARE_DECAY * square + (1 - SQUARE_DECAY) * slope**2
        length = LENGTH * (1 + math.cos(math.pi * i / iterations)) / 2
        steady = np.sqrt(square / (1 - SQUARE_DECAY ** (i + 1))) + 1e-6
        per_s = np.maximum(0.0, per_s + length * mean / (1 - DECAY ** (i + 1)) / steady)
    return best


def row(case: Case, records: Sequence[JobRecord], step_s: float, iterations: int) -> tuple[float, dict[str, float]]:
    """The bound, and the mean delay (JCT less runtime: the wait, where nobody is evicted) under each policy, with its
    nodes and (``POLICY, flat``) on as many GPUs in one."""
    flat = ClusterSpec.uniform(1, case.cluster.gpus)
    found, ends = {}, []
    for policy in case.policies:
        for name, cluster in ((policy, case.cluster), (f"{policy}, flat", flat)):
            result = simulate(records, cluster, policy, Perfect())
            found[name] = float(result.delay_s.mean())
            ends.append(float(result.end_s.max()))
    jobs = Jobs.of(records, case.cluster.gpus)
    bound = best_bound_s(jobs, case.cluster.gpus, max(ends), step_s, iterations)
    return bound, found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=Case.parse, metavar="TRACE:NODESxGPUS[:POLICY,...]")
    parser.add_argument("--shakes", type=int, default=0, help="means over so many shaken traces instead of the trace")
    parser.add_argument("--within", type=float, default=SHAKE_S, help="seconds either way")
    parser.add_argument("--step", type=float, default=300.0, help="seconds for which a price holds")
    parser.add_argument("--iterations", type=int, default=800)
    wanted = parser.parse_args()
    for case in wanted.cases:
        records = sorted(open_trace(case.trace)[0], key=lambda record: record.submit_s)
        inputs = [shaken(records, seed, wanted.within) for seed in range(wanted.shakes)] or [records]
        rows = [row(case, each, wanted.step, wanted.iterations) for each in inputs]
        print(f"{case.trace.name}: mean queueing of no schedule below {np.mean([bound for bound, _ in rows]):,.0f} s")
        for name in rows[0][1]:
            print(f"  {name:<24}{np.mean([found[name] for _, found in rows]):>10,.0f} s", flush=True)


if __name__ == "__main__":
    main()
