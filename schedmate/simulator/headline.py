"""One number a metric: what is compared between replays, averaged over shaken ones, and put on a scoreboard."""

from __future__ import annotations

import numpy as np

from schedmate.simulator.metrics import bounded_slowdown
from schedmate.simulator.result import Result

#: What each number is, with its unit.
HEADLINES: dict[str, str] = {
    "jct_mean_s": "mean JCT, seconds",
    "queueing_mean_s": "mean queueing, seconds",
    "queueing_p99_s": "99 % quantile of queueing, seconds",
    "queueing_max_s": "longest queueing, seconds",
    "delay_mean_s": "mean JCT minus runtime, seconds",
    "bounded_slowdown_mean": "mean bounded slowdown",
    "sor": "SOR, share of the schedulable GPU time that was allocated until the last end",
    "sor_while_arriving": "the same until the last submission",
    "gfr": "GFR, time-weighted mean share of nodes allocated in part",
    "makespan_s": "makespan, seconds",
    "evictions": "evictions",
    "lost_gpu_s": "GPU seconds of evicted runs whose work was not saved",
}


def headline(result: Result) -> dict[str, float]:
    """The numbers of `HEADLINES` of a result that has jobs, GFR only where it has a meaning (`Result.can_fragment`);
    the same input always gives the same numbers."""
    if not result.job_ids:
        raise ValueError("a replay without jobs has no metrics")
    waiting_s = result.waiting_s
    return {
        "jct_mean_s": float(result.jct_s.mean()),
        "queueing_mean_s": float(waiting_s.mean()),
        "queueing_p99_s": float(np.quantile(waiting_s, 0.99)),
        "queueing_max_s": float(waiting_s.max()),
        "delay_mean_s": float(result.delay_s.mean()),
        "bounded_slowdown_mean": float(bounded_slowdown(result.jct_s, result.work_s).mean()),
        "sor": result.sor() or 0.0,
        "sor_while_arriving": result.sor(float(result.submit_s[-1])) or 0.0,
        **({"gfr": result.gfr.mean() or 0.0} if result.can_fragment else {}),
        "makespan_s": result.makespan_s,
        "evictions": float(result.evictions),
        "lost_gpu_s": result.lost_gpu_s,
    }
