"""What people and predictors change between two cycles: the hints about a job, the tenant tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedmate.scheduler.classes import ClassQueue
from schedmate.scheduler.elastic import slowest
from schedmate.scheduler.eligible import acceptable, within_quota
from schedmate.scheduler.evictable import Evictable
from schedmate.scheduler.fair_share import FairShare
from schedmate.scheduler.policies import FIRST_S
from schedmate.scheduler.queue_layer import QueueLayer, assumed_again
from schedmate.scheduler.resizing import expected_end_s, note_end
from schedmate.scheduler.running import enters
from schedmate.scheduler.state import State
from schedmate.scheduler.tenants import Tenant, TenantTree, TenantUse
from schedmate.scheduler.transaction import milli_of
from schedmate.scheduler.types import Hints


def change_hints(state: State, slot: int, hints: Hints | None, now: float) -> None:
    """The job in ``slot`` is expected to behave otherwise than was said. Where it may run, its limit and its class stay
    what they are; its place among the waiting, plans for it and plans that rest on its end follow."""
    table = state.table
    job = table.jobs[slot] = replace(table.present(slot), hints=hints)
    full, again_s = state.policy.assume(job), table.still_s(slot)
    table.assumed[slot] = assumed_again(full, table.done_s[slot], again_s, slowest(job, table.demands[slot]))
    if table.shares[slot] is None:
        _wait_as_expected(state, slot)
        return
    end_s = expected_end_s(state, slot, table.starts_s[slot])
    if state.layer is not None:
        ends = state.layer.ends[table.pools[slot]]
        old_s = ends.remove(slot)
        ends.add(slot, end_s)
        note_end(state, state.layer, slot, table.shares[slot] or (), old_s)
    elif state.ends is not None:
        state.ends.remove(slot)
        state.ends.add(slot, end_s)
        state.stale = True


def _wait_as_expected(state: State, slot: int) -> None:
    table, layer, job = state.table, state.layer, state.table.jobs[slot]
    old = table.entries[slot]
    is_first = old[0] <= FIRST_S
    if job is not None and state.early is not None and not table.evictions[slot]:
        job = state.early.again(slot, job)
    key = old[0] if is_first or job is None else state.policy.order(job, state.cluster.spec.gpus)
    state.enqueue(slot, (key, old[1], slot))
    state.gained = state.stale = True
    lane = table.queue_lanes[slot]
    if layer is not None and lane is not None:
        layer.gained |= lane.pool_bits
        plans = [plan for pool in lane.pools for plan in state.reservations.get(pool, ())]
        layer.void |= {(plan.slot, False) for plan in plans if plan.slot == slot and not plan.guaranteed}


def change_tenants(state: State, tenants: Sequence[Tenant], now: float) -> None:
    """Another tenant tree. Nobody is evicted by it: who uses more than is allowed now starts nothing more. Jobs that
    are present may use the pools that it allows them, also such as were closed to them; one that may use none waits for
    the next tree. ``ValueError``, and nothing changed, if it does not fit the cluster or lacks the tenant of a job that
    is present."""
    layer, table, spec = state.layer, state.table, state.cluster.spec
    if layer is None:
        raise ValueError("this policy has no tenants")
    tree = TenantTree(spec, tenants, state.policy.queueing)
    present = [slot for slot, job in enumerate(table.jobs) if job is not None and table.queue_lanes[slot] is not None]
    for slot in present:
        name = _tenant_of(layer, state, slot)
        if name not in tree.numbers:
            job = table.jobs[slot]
            raise ValueError(f"tenant {name} is gone, but its job {job.job_id if job else slot} is not")
    fair = FairShare(spec, tree, state.policy.half_life_s)
    if layer.fair is not None:
        fair.carry_over(layer.fair, now)
    use, empty, queue = TenantUse(tree), TenantUse(tree), ClassQueue(table.live, len(spec.pools))
    could_hold: dict[tuple[object, ...], list[int]] = {}
    layer.evictable, layer.no_victims = Evictable(len(spec.pools)), {}
    queue.reserved = layer.queue.reserved
    for slot in present:
        old, pool = table.queue_lanes[slot], table.pools[slot]
        if old is None:
            continue
        tenant = tree.numbers[_tenant_of(layer, state, slot)]
        job, demand = table.present(slot), table.demands[slot]
        key = job.gpu_type, job.gpu_types, demand, job.hints and job.hints.gpu_memory_mib
        found = could_hold.get(key)
        if found is None:
            found = could_hold[key] = acceptable(state.cluster, job, demand)
        pools = tuple(within_quota(state.cluster, empty, tenant, demand, found) if tenants else found) or old.pools
        lane = table.queue_lanes[slot] = queue.lane(tenant, old.rank, old.shift_s, pools)
        shares, entry = table.shares[slot], table.live[slot]
        if shares is not None:
            use.charge(tenant, pool, milli_of(table.demands[slot], shares))
            fair.charge(tenant, pool, milli_of(table.demands[slot], shares), now)
            enters(state, layer, slot)
        elif entry is not None and slot not in queue.reserved:
            state.add_to_lane(queue, lane, slot)
    layer.tree, layer.queue = tree, queue
    layer.use, layer.fair = (use, fair) if tenants else (None, None)
    layer.barred, layer.standings_s, layer.looked_at = {}, {}, {}
    state.reservations = {
        p: tuple(replace(each, use=None) for each in plans) for p, plans in state.reservations.items()
    }
    everywhere = (1 << len(spec.pools)) - 1
    layer.broken |= everywhere
    layer.gained |= everywhere


def _tenant_of(layer: QueueLayer, state: State, slot: int) -> str:
    lane = state.table.queue_lanes[slot]
    return "" if lane is None else layer.tree.names[lane.tenant]
