"""One policy's replays: the trace as it is, and the same with shaken submit times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from analyzers.types import JobRecord
from schedmate.scheduler import ClusterSpec, Tenant
from schedmate.simulator import Conditions, Estimates, Result, policy_named, simulate
from schedmate.simulator.detail import detail
from schedmate.simulator.estimates import Noted
from schedmate.simulator.headline import HEADLINES, headline
from schedmate.simulator.shake import SHAKE_S, shaken
from schedmate.simulator.waiters import waiters


def replays(
    jobs: Sequence[JobRecord],
    cluster: ClusterSpec,
    policy: str,
    estimates: Callable[[], Estimates],
    *,
    tenants: Sequence[Tenant] = (),
    conditions: Conditions = Conditions(),
    seeds: Sequence[int] = (),
    detailed: bool = False,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[Result, dict[str, Any]]:
    """The result of the trace as it is, and its summary (docs/json/simulate.md).

    With ``seeds`` the summary has the metrics of as many shaken replays, with ``detailed`` the data of the pictures.
    """
    noted = Noted(estimates()) if detailed else None
    known = noted or estimates()
    around: Any = {"tenants": tenants, "conditions": conditions, "advance": advance}
    result = simulate(jobs, cluster, policy, known, keep_placements=detailed, **around)
    summary = result.summary()
    if (restarts := conditions.restarts_under(policy_named(policy))) is not None:
        summary["restarts"] = asdict(restarts)
    if noted is not None and result.job_ids:
        by_id = {job.job_id: job for job in jobs}
        own = [by_id[job_id] for job_id in result.job_ids]
        summary["detail"] = detail(result, noted.told) | {"waiters": waiters(own, result.waiting_s)}
    if seeds and result.job_ids:
        rows = []
        for seed in seeds:
            moved = shaken(jobs, seed)
            rows.append(headline(simulate(moved, cluster, policy, estimates(), **around)))
        summary["shakes"] = {
            "within_s": SHAKE_S,
            "seeds": list(seeds),
            "metrics": {name: [row[name] for row in rows] for name in HEADLINES if name in rows[0]},
        }
    return result, summary
