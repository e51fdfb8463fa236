"""What the pictures of a replay are drawn from, as plain data whose size does not grow with the trace.

Jobs that were evicted count as waiting until their first start only; what they held is counted for every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedmate.simulator.estimates import Told
from schedmate.simulator.metrics import SERIES_POINTS, SIZE_BUCKETS, Steps, bounded_slowdown
from schedmate.simulator.result import Result
from schedmate.simulator.run_log import NO_ROW

Floats = NDArray[np.float64]

#: Shares of jobs at which waiting times are given: every per cent, and finer where the longest waits are.
CDF_SHARES = (*np.linspace(0, 0.99, 100).round(2).tolist(), 0.995, 0.999, 1.0)
MOST_NODE_ROWS = 96
MOST_OWNERS = 16
MOST_PREDICTED = 800
#: Of the time from the first submission to the last start so much is shown after it.
TAIL = 0.05
OTHERS = "others"
NOBODY = "(nobody)"


def detail(result: Result, told: Mapping[str, Told]) -> dict[str, Any]:
    """The data of docs/json/simulate.md, "detail", for a result that kept its placements and has jobs.

    ``told`` is what `Noted` estimates said, by job id.
    """
    edges = shown_edges(result.submit_s, result.start_s, result.end_s)
    return {
        "start_s": edges[:-1].tolist(),
        "end_s": float(edges[-1]),
        "gar": _means(result.gar, edges),
        "gfr": _means(result.gfr, edges),
        "waiting_gpus": waiting_gpus(result.gpus, result.submit_s, result.start_s, edges),
        "waiting_cdf": waiting_cdf(result.gpus, result.waiting_s),
        "occupancy": _occupancy(result, edges),
        "owners": _owners(result, told),
        "predicted": _predicted(result, told),
    }


def shown_edges(submit_s: Floats, start_s: Floats, end_s: Floats) -> Floats:
    """Edges of the stretches that are drawn, of jobs with these times: from the first submission until a little after
    the last start, as a few long jobs at the end would leave no room."""
    first_s, last_s = float(submit_s.min()), float(end_s.max())
    busy_s = max(float(submit_s.max()), float(start_s.max()))
    last_s = min(last_s, busy_s + TAIL * (busy_s - first_s))
    return np.linspace(first_s, last_s if last_s > first_s else first_s + 1.0, SERIES_POINTS + 1)


def _means(steps: Steps, edges: Floats) -> list[float]:
    area = np.concatenate(([0.0], np.cumsum(steps.values[:-1] * np.diff(steps.times_s))))
    means = np.diff(np.interp(edges, steps.times_s, area)) / np.diff(edges)
    return [round(each, 4) for each in means.tolist()]


def held(from_s: Floats, until_s: Floats, amount: Floats, edges: Floats) -> Floats:
    """Time-weighted mean, in each stretch between edges, of the sum of amounts that are held from and until a time."""
    first_s, area = edges[0], np.zeros(edges.size)
    edges = edges - first_s  # sums of products with a clock that began in 1970 would lose digits
    for at_s, sign in ((from_s, 1.0), (until_s, -1.0)):
        order = np.argsort(at_s, kind="stable")
        times, cumulated = at_s[order] - first_s, np.concatenate(([0.0], np.cumsum(amount[order])))
        moments = np.concatenate(([0.0], np.cumsum(amount[order] * times)))
        begun = np.searchsorted(times, edges, side="right")
        area += sign * (cumulated[begun] * edges - moments[begun])
    return np.maximum(np.diff(area) / np.diff(edges), 0.0)


def waiting_gpus(gpus: Floats, submit_s: Floats, start_s: Floats, edges: Floats) -> dict[str, list[float]]:
    """GPUs that waiting jobs ask for, by size of job; the arrays are one value a job."""
    found = {}
    for name, least, most in SIZE_BUCKETS:
        own = (gpus >= least) & (gpus <= most)
        if own.any():
            series = held(submit_s[own], start_s[own], gpus[own], edges)
            found[name] = series.round(2).tolist()
    return found


def waiting_cdf(gpus: Floats, waiting_s: Floats) -> dict[str, Any]:
    """Waiting times at `CDF_SHARES` of the jobs, for all and by size; both arrays are one value a job."""
    found = {}
    for name, least, most in (("all", 1, np.inf), *SIZE_BUCKETS):
        waits = waiting_s[(gpus >= least) & (gpus <= most)]
        if waits.size:
            found[name] = {
                "jobs": int(waits.size),
                "share": list(CDF_SHARES),
                "wait_s": np.quantile(waits, CDF_SHARES).round(3).tolist(),
            }
    return found


def _occupancy(result: Result, edges: Floats) -> list[dict[str, Any]]:
    """By pool: nodes in at most `MOST_NODE_ROWS` rows of neighbours, per cent of their GPUs allocated by stretch."""
    found = []
    for number, pool in enumerate(result.cluster.pools):
        per_row = -(-pool.nodes // MOST_NODE_ROWS)
        rows = -(-pool.nodes // per_row)
        parts = [
            (share[0] // per_row, stay.from_s, stay.until_s, share[1] + (share[3] / 1000 if len(share) > 3 else 0.0))
            for stay in result.stays()
            if stay.pool == number
            for share in stay.shares
        ]
        table = np.array(parts, dtype=np.float64).reshape(-1, 4)
        gpus = np.bincount(np.arange(pool.nodes) // per_row, _gpus_of_nodes(result, number), rows)
        percent = []
        for row in range(rows):
            from_s, until_s, amount = table[table[:, 0] == row, 1:].T
            share = held(from_s, until_s, amount, edges) / max(1.0, gpus[row])
            percent.append(np.minimum(100, 100 * share).round().astype(int).tolist())
        found.append(
            {
                "pool": pool.name,
                "nodes": pool.nodes,
                "nodes_per_row": per_row,
                "percent": percent,
            }
        )
    return found


def _gpus_of_nodes(result: Result, number: int) -> Floats:
    pool = result.cluster.pools[number]
    if not pool.shapes:
        return np.full(pool.nodes, float(pool.gpus_per_node))
    return np.array([shape.gpus for count, shape in pool.shapes for _ in range(count)], dtype=np.float64)


def _owners(result: Result, told: Mapping[str, Told]) -> dict[str, Any]:
    """Use and waiting by owner, the largest users of GPU time first; the rest together."""
    names = np.array([told[job_id].owner or NOBODY for job_id in result.job_ids])
    kinds, owner = np.unique(names, return_inverse=True)
    gpu_s = np.zeros(len(result.job_ids))
    for stay in result.stays():
        gpus = sum(share[1] + (share[3] / 1000 if len(share) > 3 else 0.0) for share in stay.shares)
        if stay.job != NO_ROW:
            gpu_s[stay.job] += gpus * (stay.until_s - stay.from_s)
    slowdown = bounded_slowdown(result.jct_s, result.work_s)
    by_gpu_s = np.bincount(owner, gpu_s)
    order = np.argsort(-by_gpu_s, kind="stable")
    shown, rest = order[:MOST_OWNERS], order[MOST_OWNERS:]
    groups = [(str(kinds[i]), owner == i) for i in shown]
    if rest.size:
        groups.append((f"{rest.size} {OTHERS}", np.isin(owner, rest)))
    mean_slowdown = np.bincount(owner, slowdown) / np.bincount(owner)
    return {
        "count": len(kinds),
        "known": bool(kinds.size > 1 or kinds[0] != NOBODY),
        "jain_index": float(mean_slowdown.sum() ** 2 / (kinds.size * (mean_slowdown**2).sum())),
        "rows": [
            {
                "owner": name,
                "jobs": int(own.sum()),
                "gpu_s": float(gpu_s[own].sum()),
                "queueing_mean_s": float(result.waiting_s[own].mean()),
                "bounded_slowdown_mean": float(slowdown[own].mean()),
            }
            for name, own in groups
        ],
    }


def _predicted(result: Result, told: Mapping[str, Told]) -> dict[str, Any] | None:
    """What was said at submission against the runtime; None where nothing was said of any job."""
    said = [told[job_id] for job_id in result.job_ids]
    known = np.array([each.expected_s is not None for each in said])
    if not known.any():
        return None
    number = np.flatnonzero(known)
    expected = np.array([said[i].expected_s for i in number], dtype=np.float64)
    high = np.array([said[i].high_s if said[i].high_s is not None else np.nan for i in number], dtype=np.float64)
    actual = (result.end_s - result.start_s)[number]
    factor = np.maximum(expected, 1.0) / np.maximum(actual, 1.0)
    with_high = ~np.isnan(high)
    sample = np.unique(np.linspace(0, number.size - 1, min(number.size, MOST_PREDICTED)).astype(int))
    return {
        "jobs": int(number.size),
        "median_error_factor": float(np.exp(np.median(np.abs(np.log(factor))))),
        "within_high": float((actual[with_high] <= high[with_high]).mean()) if with_high.any() else None,
        "points": [
            [round(float(actual[i]), 1), round(float(expected[i]), 1), None if np.isnan(high[i]) else round(high[i], 1)]
            for i in sample
        ],
    }
