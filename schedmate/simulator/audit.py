"""An independent bookkeeper: what must hold of a scheduler at any moment, counted from its decisions alone.

It uses no index of the core: it adds up what every running job holds, device by device, and compares that with what
the cluster's description has and with what the job asked for. Last it rebuilds the cluster from what runs and compares.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from schedmate.scheduler import Cluster, Demand, PoolSpec, Queueing, Scheduler
from schedmate.scheduler.claims import SHORTEST_SPAN_S
from schedmate.scheduler.cluster_types import UNLIMITED, WHOLE_MILLI, DeviceShare, NodeShape, Shares
from schedmate.scheduler.transaction import is_there, milli_of
from schedmate.scheduler.trial import Trial

_AMOUNTS = ("cpus_milli", "memory_mib", "disk_mib")


def audit(scheduler: Scheduler) -> list[str]:
    """What is wrong, in words; nothing if all is well."""
    state, table = scheduler.state, scheduler.state.table
    spec = state.cluster.spec
    running = [(slot, table.pools[slot], table.shares[slot] or ()) for slot in table.running()]
    wrong: list[str] = []
    for number, pool in enumerate(spec.pools):
        mine = [(table.demands[slot], shares) for slot, at, shares in running if at == number]
        wrong += _plain_pool(pool, mine) if pool.is_plain else _detailed_pool(pool, mine)
    for slot, number, shares in running:
        job, pool = table.jobs[slot], spec.pools[number]
        name = job.job_id if job is not None else f"slot {slot}"
        wrong += [f"job {name}: {each}" for each in _gang(pool, table.demands[slot], shares)]
        if table.live[slot] is not None:
            wrong.append(f"job {name} runs and waits at once")
    wrong += _quotas(scheduler)
    wrong += _claims(scheduler)
    try:
        rebuilt = Cluster.rebuilt(spec, [(at, shares) for _, at, shares in running], state.cluster.conditions)
    except ValueError as error:
        return [*wrong, f"what runs can not be put on an empty cluster: {error}"]
    if rebuilt != state.cluster:
        wrong.append("the cluster as it is differs from the one rebuilt from what runs")
    return wrong


def stuck(scheduler: Scheduler) -> list[str]:
    """Waiting jobs that an idle pool could take and that nothing will help, in words. To be asked after a cycle;
    nothing for policies without the full queue layer.

    Where nothing runs no quota is in use and no end is to come, so a job that fits beside what is broken has started,
    or the scheduler is woken while there still is a plan to begin on one of its pools. Who may stand behind the blocked
    head of a strict queue has a reason to wait for as long as it takes.
    """
    state, table, layer = scheduler.state, scheduler.state.table, scheduler.state.layer
    if layer is None or (scheduler.evicted and scheduler.wake_s < math.inf):
        return []  # who has made way for others is looked at again in a cycle that is to come
    idle = set(range(len(state.cluster.pools))) - {table.pools[slot] for slot in table.running()}
    empty = Cluster.rebuilt(state.cluster.spec, [], state.cluster.conditions)
    begins_s = {pool: max(plan.start_s for plan in plans) for pool, plans in state.reservations.items() if plans}
    waiting = [(slot, lane) for slot, lane in enumerate(table.queue_lanes) if lane and table.live[slot] is not None]
    wanting = Counter((lane.tenant, pool) for _, lane in waiting for pool in lane.pools)
    wrong = []
    for slot, lane in waiting:
        if scheduler.wake_s <= max(begins_s.get(pool, -math.inf) + SHORTEST_SPAN_S for pool in lane.pools):
            continue
        strict = layer.tree.queueing[lane.tenant] is Queueing.STRICT
        for pool in idle.intersection(lane.pools):
            behind = strict and wanting[lane.tenant, pool] > 1
            if not behind and state.place(empty.pools[pool], table.demands[slot]) is not None:
                name, job = state.cluster.spec.pools[pool].name, table.present(slot)
                wrong.append(f"job {job.job_id} waits for ever and pool {name} is idle")
    return wrong


def idle_before_a_plan(scheduler: Scheduler, now: float) -> list[str]:
    """Pools on which nothing runs although a job that fits has a plan there, in words: the first of the plans is to
    begin now, unless it is a claim, which begins when it was told. To be asked after a cycle without evictions; nothing
    for policies without the full queue layer."""
    state, table = scheduler.state, scheduler.state.table
    if state.layer is None:
        return []
    busy = {table.pools[slot] for slot in table.running()}
    empty = Cluster.rebuilt(state.cluster.spec, [], state.cluster.conditions)
    firsts = [
        min(plans, key=lambda plan: plan.start_s) for pool, plans in state.reservations.items() if pool not in busy
    ]
    return [
        f"job {table.present(first.slot).job_id} is the first of pool {state.cluster.spec.pools[first.pool].name}"
        f", which is idle at {now}, but not before {first.start_s}"
        for first in firsts
        if first.start_s > now
        and not first.victims
        and state.place(empty.pools[first.pool], table.demands[first.slot]) is not None
    ]


def passed_over(scheduler: Scheduler, now: float) -> list[str]:
    """Waiting jobs without a reservation that by the scheduler's own rules could start at once, in words. To be asked
    after a cycle at ``now`` without evictions; nothing for policies without the full queue layer, and none while
    something is left to be given out in the next cycle."""
    state, layer = scheduler.state, scheduler.state.layer
    if layer is None or layer.gained or state.policy.starts_by_plan:
        return []
    trial, table = Trial(state, scheduler.transaction, now), state.table
    waiting = [slot for slot, live in enumerate(table.live) if live is not None and slot not in layer.queue.reserved]
    return [f"job {table.present(slot).job_id} waits and could start at {now}" for slot in waiting if trial.find(slot)]


def _plain_pool(pool: PoolSpec, running: list[tuple[Demand, Shares]]) -> list[str]:
    used: Counter[int] = Counter()
    for _, shares in running:
        for share in shares:
            used[share[0]] += share[1]
    return [
        f"{pool.name}/{node}: {gpus} GPUs in use of {pool.gpus_per_node}"
        for node, gpus in used.items()
        if gpus > pool.gpus_per_node or node >= pool.nodes
    ]


def shapes_of(pool: PoolSpec) -> list[NodeShape]:
    """What each node has, by node number."""
    return [shape for count, shape in pool.shapes for _ in range(count)]


class _Ledger:
    """What is in use on one pool, per (node, device), (node, NIC) and (node, amount)."""

    def __init__(self) -> None:
        self.whole: Counter[tuple[int, int]] = Counter()
        self.milli: Counter[tuple[int, int]] = Counter()
        self.memory_mib: Counter[tuple[int, int]] = Counter()
        self.kinds: dict[tuple[int, int], set[tuple[int, bool]]] = defaultdict(set)
        self.nics: Counter[tuple[int, int]] = Counter()
        self.amounts: Counter[tuple[int, str]] = Counter()

    def enter(self, demand: Demand, share: DeviceShare) -> None:
        """Add what is taken on one node."""
        for device in _bits(share.devices):
            at = share.node, device
            if share.milli:
                self.milli[at] += share.milli
                self.memory_mib[at] += share.device_memory_mib
                self.kinds[at].add((share.sliced, demand.shareable or bool(share.sliced)))
            else:
                self.whole[at] += 1
        self.nics.update((share.node, nic) for nic in _bits(share.nics))
        for name in _AMOUNTS:
            self.amounts[share.node, name] += getattr(share, name)

    def wrong_devices(self, pool: PoolSpec, shapes: list[NodeShape]) -> Iterator[str]:
        """Devices that are given out twice, or that there are not."""
        most = UNLIMITED if pool.gpu_memory_mib is None else pool.gpu_memory_mib
        for at in self.whole.keys() | self.milli.keys():
            where, kinds = f"{pool.name}/{at[0]}/{at[1]}", self.kinds.get(at, set())
            if at[1] >= shapes[at[0]].gpus:
                yield f"{where}: there is no such GPU"
            if self.whole[at] + (at in self.milli) > 1:
                yield f"{where}: given out whole {self.whole[at]} times, and {self.milli[at]} milli"
            if self.milli[at] > WHOLE_MILLI or self.memory_mib[at] > most:
                yield f"{where}: {self.milli[at]} milli and {self.memory_mib[at]} MiB in use"
            if len({sliced for sliced, _ in kinds}) > 1 or (0, False) in kinds:
                yield f"{where}: shared by jobs that do not go together"

    def wrong_amounts(self, pool: PoolSpec, shapes: list[NodeShape]) -> Iterator[str]:
        """NICs given out twice, and more in use than a node has."""
        for (node, nic), times in self.nics.items():
            if times > 1 or nic >= shapes[node].nics:
                yield f"{pool.name}/{node}: NIC {nic} of {shapes[node].nics} given out {times} times"
        for (node, name), amount in self.amounts.items():
            limit = getattr(shapes[node], name)
            if limit is not None and amount > limit:
                yield f"{pool.name}/{node}: {amount} {name} in use of {limit}"


def _detailed_pool(pool: PoolSpec, running: list[tuple[Demand, Shares]]) -> list[str]:
    shapes, ledger = shapes_of(pool), _Ledger()
    for demand, shares in running:
        for share in _device_shares(shares):
            ledger.enter(demand, share)
    return [*ledger.wrong_devices(pool, shapes), *ledger.wrong_amounts(pool, shapes)]


def _gang(pool: PoolSpec, demand: Demand, shares: Shares) -> Iterator[str]:
    """Whether the gang is whole and where it may be."""
    if not demand.roles:
        got = sum(share[1] for share in shares)
        if got != demand.gpus:
            yield f"{got} GPUs instead of {demand.gpus}"
    for number, role in enumerate(demand.roles):
        mine = [share for share in _device_shares(shares) if share.role == number]
        replicas = sum(share.replicas for share in mine)
        if not role.least_replicas <= replicas <= role.replicas:
            yield f"{replicas} replicas of {role.name} instead of {role.replicas}"
        for name, each in (
            ("gpus", demand.whole_gpus(role)),
            ("cpus_milli", role.cpus_milli),
            ("memory_mib", role.memory_mib),
            ("disk_mib", role.disk_mib),
        ):
            if sum(getattr(share, name) for share in mine) != each * replicas:
                yield f"{name} of {role.name} is not {each} for each of {replicas} replicas"
        if sum(share.nics.bit_count() for share in mine) != role.nics * replicas:
            yield f"NICs of {role.name} are not {role.nics} for each of {replicas} replicas"
    if demand.gpu_types and pool.name not in demand.gpu_types:
        yield f"runs on {pool.name}, accepts {', '.join(demand.gpu_types)}"
    if pool.shapes:
        yield from _conditions(pool, demand, shares)


def _conditions(pool: PoolSpec, demand: Demand, shares: Shares) -> Iterator[str]:
    shapes = shapes_of(pool)
    for node in {share[0] for share in shares}:
        shape = shapes[node]
        if not demand.selector <= shape.labels:
            yield f"node {node} lacks a label"
        if not shape.taints <= demand.tolerations:
            yield f"node {node} has a taint that it does not tolerate"
        if shape.zone != demand.zone:
            yield f"node {node} is in zone {shape.zone}, the job in {demand.zone}"
    if demand.required and demand.level is not None:
        groups = _groups(pool, shapes, demand.level, shares)
        if groups > 1:
            yield f"must stay in one {demand.level}, is in {groups}"


def _groups(pool: PoolSpec, shapes: list[NodeShape], level: str, shares: Shares) -> int:
    nodes = {share[0] for share in shares}
    if level == "pool":
        return 1
    if level == "node":
        return len(nodes)
    if level == "island":
        return len(
            {
                (share.node, device * shapes[share.node].islands // shapes[share.node].gpus)
                for share in _device_shares(shares)
                for device in _bits(share.devices)
            }
        )
    starts = pool.topology.starts(level)
    return len({bisect_right(starts, node) for node in nodes})


def _quotas(scheduler: Scheduler) -> list[str]:
    """Tenants that use more than they are guaranteed and may borrow, or others than they lend; all by plain sums."""
    layer, table = scheduler.state.layer, scheduler.state.table
    if layer is None or layer.use is None:
        return []
    tree, wrong = layer.tree, []
    used: Counter[tuple[int, int]] = Counter()
    for slot in table.running():
        lane, pool = table.queue_lanes[slot], table.pools[slot]
        milli = milli_of(table.demands[slot], table.shares[slot] or ())
        for tenant in [0, *tree.path(lane.tenant if lane is not None else 0)]:
            used[tenant, pool] += milli
    for (tenant, pool), milli in used.items():
        most = tree.most[tenant][pool]
        if milli > most:
            wrong.append(
                f"tenant {tree.names[tenant]!r}: {milli} milli-GPU of {tree.pools[pool]} in use, {most} allowed"
            )
    for tenant in range(1, len(tree.names)):
        for pool, whole in enumerate(tree.guaranteed[0]):
            others = used[0, pool] - used[tenant, pool]
            if others > whole - tree.kept[tenant][pool]:
                wrong.append(f"{others} milli-GPU of {tree.pools[pool]} in use by others than {tree.names[tenant]}")
    return wrong


def _claims(scheduler: Scheduler) -> Iterator[str]:
    """Claims that are not sure to be there at their start: when the victims have left, and whoever ends by then. Those
    on pools where something has just broken are looked at in the next cycle."""
    state, table = scheduler.state, scheduler.state.table
    broken = state.layer.broken if state.layer is not None else 0
    for pool, plans in state.reservations.items():
        if broken >> pool & 1:
            continue
        claims = {plan.slot: plan for plan in plans if plan.victims}
        for claim in claims.values():
            before = [other for other in claims.values() if other.start_s <= claim.start_s]
            victims = {victim.slot for other in before for victim in other.victims if is_there(state, victim)}
            stay = [
                table.shares[slot] or ()
                for slot in table.running()
                if table.pools[slot] == pool
                and slot not in victims
                and table.starts_s[slot] + table.assumed[slot].limit_s > claim.start_s
            ]
            claimed = [other.shares for other in before]
            try:
                Cluster.rebuilt(state.cluster.spec, [(pool, shares) for shares in (*stay, *claimed)])
            except ValueError as error:
                job = table.jobs[claim.slot]
                yield f"what job {job.job_id if job else claim.slot} claims is taken: {error}"


def _device_shares(shares: Shares) -> list[DeviceShare]:
    return [DeviceShare(*share) for share in shares]


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
