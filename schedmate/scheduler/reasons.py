"""Why a job of the full queue layer waits, in words."""

from __future__ import annotations

import math

from schedmate.scheduler.placement import why_not
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import Queueing
from schedmate.scheduler.transaction import Transaction, asked_milli
from schedmate.scheduler.trial import Trial


def why_waiting(state: State, tx: Transaction, slot: int, now: float) -> str:
    """One reason a pool, asked of the state as the last cycle left it."""
    layer, table = state.layer, state.table
    lane, demand = table.queue_lanes[slot], table.demands[slot]
    if layer is None or lane is None:
        return ""
    reasons = []
    for pool in lane.pools:
        spec = state.cluster.spec.pools[pool]
        quota = layer.use.why_not(lane.tenant, pool, asked_milli(demand, spec)) if layer.use is not None else ""
        index = state.cluster.pools[pool]
        barred = layer.barred.get((lane.tenant, pool), math.inf) <= lane.rank
        behind = _behind(state, slot, lane.tenant) if barred else ""
        if behind and (quota or state.place(index, demand) is not None):
            reasons.append(behind)
        elif quota:
            reasons.append(quota)
        elif state.place(index, demand) is None:
            reasons.append(why_not(spec, index, demand))
        else:
            plans = state.reservations.get(pool, ())
            late = Trial(state, tx, now).late(slot, plans)[0]
            delayed = dict.fromkeys(plan.slot for i, plan in enumerate(plans) if late >> i & 1)
            names = [job.job_id for each in delayed if (job := table.jobs[each]) is not None]
            if names:
                reasons.append(f"would delay the reserved start of job {', '.join(names[:3])}")
    none = "waits for its reserved start" if slot in layer.queue.reserved else "no cycle has run since it was submitted"
    return "; ".join(dict.fromkeys(reasons)) or none


def _behind(state: State, slot: int, tenant: int) -> str:
    """That the head of the job's own strict queue is blocked; empty if it is that head itself."""
    layer = state.layer
    if layer is None or slot in layer.queue.reserved or slot in state.blocked:
        return ""
    return f"stands behind {_head(state, tenant)}in the strict queue {_name(state, tenant)}"


def _head(state: State, tenant: int) -> str:
    for slot in state.blocked:
        lane, job = state.table.queue_lanes[slot], state.table.jobs[slot]
        if lane is not None and lane.tenant == tenant and job is not None:
            return f"job {job.job_id} "
    return ""


def _name(state: State, tenant: int) -> str:
    tree = state.layer.tree if state.layer is not None else None
    if tree is None or tree.queueing[tenant] is not Queueing.STRICT or not tree.names[tenant]:
        return "of the cluster"
    return f"of tenant {tree.names[tenant]}"
