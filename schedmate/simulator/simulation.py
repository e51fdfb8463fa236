"""One trace, one cluster, one policy -> one result."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.scheduler import POLICIES, ClusterSpec, Policy, Scheduler, Tenant
from schedmate.scheduler.policies import GATED, WITH_EARLY
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.estimates import Estimates, Perfect
from schedmate.simulator.of_tenants import OfAccounts, OfOwners, OfTenants, tenant_names
from schedmate.simulator.replay import replay
from schedmate.simulator.result import Result
from schedmate.simulator.run_log import Floats, RunLog


def policy_named(name: str) -> Policy:
    """The policy of that name; with the early-failure lane if ``+early`` follows it, gated if ``+gate`` does, as in
    ``core+early+gate``. Raises `UserError` with the names there are."""
    ungated = name.removesuffix(GATED)
    base = ungated.removesuffix(WITH_EARLY)
    if base not in POLICIES:
        raise UserError(f"no policy named {base!r}", f"known: {', '.join(POLICIES)}")
    policy = POLICIES[base]
    endings = (WITH_EARLY, base != ungated, Policy.with_early), (GATED, ungated != name, Policy.with_gate)
    for ending, asked, add in endings:
        try:
            policy = add(policy) if asked else policy
        except ValueError as error:
            raise UserError(str(error), f"leave out {ending}") from None
    return policy


def simulate(
    jobs: Iterable[JobRecord],
    cluster: ClusterSpec,
    policy: str | Policy = "fifo",
    estimates: Estimates | None = None,
    *,
    tenants: Sequence[Tenant] = (),
    conditions: Conditions = Conditions(),
    keep_placements: bool = False,
    advance: Callable[[int], None] = lambda n: None,
) -> Result:
    """Replay ``jobs`` until the last has ended; the same input always gives the same result.

    Parameters
    ----------
    jobs : records in order of submission, taken one by one; ``duration_s`` is the true runtime. Records that can not
        be played (no runtime, not finite, no GPU, larger than every pool) are left out and counted.
    cluster : its pools; ``ClusterSpec.uniform(nodes, gpus_per_node)`` for equal nodes.
    policy : a name in `schedmate.scheduler.POLICIES`, or a `Policy`.
    estimates : what the policy may know of runtimes; `Perfect` if None. One that learns is used up by one replay.
    tenants : the top of the tenant tree; any policy then has the full queue layer, and a job belongs to the tenant that
        its record names, to nobody if there is no such tenant (`Result.unknown_tenants`).
    conditions : what happens to jobs beside what the policy decides.
    keep_placements : remember the nodes of every job (`Result.placement`).
    advance : told how many records were read, for a progress bar.

    Raises ``ValueError`` for records out of order and for tenants that do not fit the cluster, and `UserError` for an
    unknown policy and for one that knows no tenants where there are some.
    """
    chosen = policy if isinstance(policy, Policy) else policy_named(policy)
    if tenants and not chosen.knows_tenants:
        raise UserError(f"policy {chosen.name} knows no tenants", "take core, or a cluster without tenants")
    oracle = conditions.known(estimates if estimates is not None else Perfect(), chosen)
    if chosen.factors is not None:
        oracle = OfAccounts(oracle)
    if chosen.gated or chosen.early is not None:
        oracle = OfOwners(oracle)
    log = RunLog(places={} if keep_placements else None, tenants=[] if tenants else None)
    owned = OfTenants(oracle, tenants)
    if conditions.faults is not None:
        cluster = cluster.in_detail()
    replay(jobs, Scheduler(cluster, chosen, tenants), owned if tenants else oracle, log, advance, conditions)
    log.close()
    _, submit_s, start_s, end_s, gpus, nodes, pool, work_s = log.job_columns()
    times_s, allocated, fragmented, waiting = _window(log.moment_columns(), submit_s, end_s)
    return Result(
        policy=chosen.name,
        estimates=oracle.name,
        cluster=cluster,
        job_ids=log.ids,
        submit_s=submit_s,
        start_s=start_s,
        end_s=end_s,
        gpus=gpus,
        nodes=nodes,
        pool=pool.astype(np.int64),
        work_s=work_s,
        times_s=times_s,
        allocated_gpus=allocated,
        fragmented_nodes=fragmented,
        waiting_jobs=waiting,
        replay_s=log.replay_s,
        events=2 * len(log.ids),
        peak_memory_mib=_peak_memory_mib(),
        evictions=log.evictions,
        lost_gpu_s=log.lost_gpu_s,
        moves=log.moves,
        restart_gpu_s=log.restart_gpu_s,
        mishaps=log.mishaps,
        skipped=log.skipped,
        examples=tuple(log.examples),
        tenant_names=tuple(tenant_names(tenants)),
        tenants=tuple(log.tenants or ()),
        tenant_gpu_s=log.gpu_s,
        unknown_tenants=owned.unknown,
        _places=log.places,
        _stays=log.stays,
    )


def _window(moments: tuple[Floats, ...], submit_s: Floats, end_s: Floats) -> tuple[Floats, ...]:
    """The moments from the first submission to the last end: jobs that were left out neither begin nor end it."""
    if not submit_s.size:
        return moments
    inside = (moments[0] >= submit_s.min()) & (moments[0] <= end_s.max())
    return tuple(column[inside] for column in moments)


def _peak_memory_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
