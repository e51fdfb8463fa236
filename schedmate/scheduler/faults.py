"""Hardware that breaks under running gangs: a gang is repaired at once, or released whole.

Which gangs can be repaired: elastic ones, as long as their least replicas run, and rigid ones that say that they are
`Job.repairable`. What they have lost is placed elsewhere ahead of anybody who waits, even where plans of others had
counted on it: hardware that fails excuses those. A repaired gang goes on from its last checkpoint. All others leave
their GPUs whole and wait at the head of their class. So no newcomer ever keeps a gang below its minimum.

A node on which something broke is suspected for a while: the count of its faults halves every
`Policy.suspect_half_life_s`. Long and wide jobs avoid it from `SUSPECT` on, all others from `VERY_SUSPECT` on; it is
still used where nothing else fits.
"""

from __future__ import annotations

from schedmate.scheduler.cluster_types import Shares
from schedmate.scheduler.elastic import counts
from schedmate.scheduler.placement.elastic import instead, more
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction
from schedmate.scheduler.types import Job

#: One fault within a half-life.
SUSPECT = 0.5

#: Two, or a fresh one and an older one.
VERY_SUSPECT = 1.25

#: What points at a node counts as no more faults at once: enough never to be forgiven by anybody alive.
MOST_FAULTS = 1e6

#: A job that is expected to take longer is a long one.
LONG_S = 3600.0


def struck(state: State, pool: int, node: int, devices: int) -> list[int]:
    """The running jobs that have something on a node, or on these of its devices (a mask, -1 for the node itself); in
    the order in which they are served: by class, then by place in the queue."""
    table = state.table
    found = [
        slot
        for slot in table.running()
        if table.pools[slot] == pool and any(_is_hit(share, node, devices) for share in table.shares[slot] or ())
    ]
    return sorted(found, key=lambda slot: (_rank(state, slot), table.entries[slot]))


def _is_hit(share: tuple[int, ...], node: int, devices: int) -> bool:
    return share[0] == node and (devices < 0 or len(share) < 3 or bool(share[2] & devices))


def _rank(state: State, slot: int) -> float:
    lane = state.table.queue_lanes[slot]
    return 0.0 if lane is None else lane.rank


def repair_or_release(
    state: State, tx: Transaction, slots: list[int], node: int, devices: int, now: float
) -> tuple[list[int], list[int]]:
    """Those that wait again, and those that go on. What is broken is known to the cluster already."""
    lost, repaired, found = [], [], dict[int, Shares]()
    for slot in slots:  # what is lost is free, or out of order, for everybody before anybody is served
        kept = tuple(share for share in state.table.shares[slot] or () if not _is_hit(share, node, devices))
        if not _can_be_repaired(state, slot):
            lost.append(slot)
        else:
            found[slot] = kept
    for slot in lost:
        _release(state, tx, slot, now)
    for slot, kept in found.items():
        shares = _repaired(state, slot, kept)
        if shares is None:
            lost.append(slot)
            _release(state, tx, slot, now)
        else:
            repaired.append(slot)
            tx.repair(slot, shares, now)
    return lost, repaired


def _can_be_repaired(state: State, slot: int) -> bool:
    job, table = state.table.jobs[slot], state.table
    is_known = isinstance(state.cluster.pools[table.pools[slot]], PoolIndex)
    return state.layer is not None and is_known and job is not None and (table.demands[slot].elastic or job.repairable)


def _release(state: State, tx: Transaction, slot: int, now: float) -> None:
    state.table.since[slot] = state.cycles
    tx.evict(slot, now, state.table.saved_s(slot, now, told=False))


def _repaired(state: State, slot: int, kept: Shares) -> Shares | None:
    """Where the gang goes on: on what it kept, with as much in place of what it lost as there is; None if that is too
    little."""
    table = state.table
    demand, had, index = table.demands[slot], table.shares[slot] or (), state.cluster.pools[table.pools[slot]]
    if not isinstance(index, PoolIndex):
        return None
    view = index.copy()
    view.give(tuple(share for share in had if share not in kept))
    if not demand.roles:
        new = instead(view, demand, kept, tuple(share for share in had if share not in kept))
        return None if new is None else (*kept, *new)
    shares = (*kept, *more(view, demand, kept, up_to=counts(demand, had)))
    least = [role.least_replicas if demand.elastic else role.replicas for role in demand.roles]
    enough = all(n >= low for n, low in zip(counts(demand, shares), least, strict=True))
    return shares if enough else None


def mend(state: State, tx: Transaction, now: float) -> None:
    """An action: gangs that go on with fewer replicas since something broke get them back before anybody starts, beside
    what is planned."""
    layer, table = state.layer, state.table
    if layer is None or not layer.hurt:
        return
    for slot in layer.hurt:
        pool, demand, shares = table.pools[slot], table.demands[slot], table.shares[slot] or ()
        index, plans, own = state.cluster.pools[pool], state.reservations.get(pool, ()), table.phases[slot].own
        if not isinstance(index, PoolIndex) or slot in layer.leaving.ends_s:
            continue
        view = index.restricted([plan.spare for plan in plans]) if plans else index
        added = more(view, demand, shares, up_to=own)
        if added:
            tx.resize(slot, (*shares, *added), now)
            tx.take_from_plans(slot, pool, added)
        have = counts(demand, table.shares[slot] or ())
        if all(n >= wanted for n, wanted in zip(have, own, strict=True)):
            layer.hurt = tuple(other for other in layer.hurt if other != slot)


def is_long_or_wide(job: Job | None, within_s: float, gpus: int, gpus_per_node: int) -> bool:
    """Whether a fault would cost much."""
    return job is not None and (gpus > gpus_per_node or within_s > LONG_S)
