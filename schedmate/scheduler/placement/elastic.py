"""Which replicas an elastic gang gets more, and which it gives up first."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from schedmate.scheduler.cluster_types import UNLIMITED, WHOLE_MILLI, DeviceShare, NodeShape, Shares
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.devices import choose
from schedmate.scheduler.elastic import counts, minimum
from schedmate.scheduler.placement.fit import by_node
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Bools, Part, PoolLayout


def more(
    view: PoolIndex, demand: Demand, shares: Shares, room_milli: int = UNLIMITED, up_to: Sequence[int] | None = None
) -> Shares:
    """What can be added to the ``shares`` of a gang that are taken on ``view``, ``room_milli`` of GPUs at most: roles
    named first grow first, on the nodes and in the groups that it is on already, then on the fullest others; ``up_to``:
    so many by role in all. Nothing where it must stay inside an island."""
    parts = view.layout.parts(demand)
    if isinstance(parts, str) or (demand.required and demand.level == "island"):
        return ()
    allowed = _allowed(view.layout, demand, shares)
    have, ahead = counts(demand, shares), None
    added: Shares = ()
    for part in sorted(parts, key=lambda part: part.role):
        most = demand.roles[part.role].replicas if up_to is None else up_to[part.role]
        wanted, each_milli = most - have[part.role], part.gpus * WHOLE_MILLI + part.milli
        wanted = min(wanted, room_milli // each_milli) if each_milli else wanted
        if wanted > 0:
            ahead = ahead or view.copy()
            new = _add(ahead, part, wanted, allowed, {share[0] for share in (*shares, *added)})
            room_milli -= each_milli * sum(share.replicas for share in new)
            added = (*added, *new)
    return added


def instead(view: PoolIndex, demand: Demand, kept: Shares, lost: Shares) -> Shares | None:
    """For a gang of packed GPUs that goes on with the shares ``kept``: as many GPUs on other nodes for each share that
    it has ``lost``; None if there are not."""
    if demand.required and demand.level in ("node", "island"):
        return None
    allowed, ahead = _allowed(view.layout, demand, kept), view.copy()
    found: Shares = ()
    for share in sorted(lost, key=lambda share: -share[1]):
        new = _add(ahead, Part(0, 1, share[1]), 1, allowed, {each[0] for each in (*kept, *found)})
        if not new:
            return None
        found = (*found, *new)
    return found


def _allowed(layout: PoolLayout, demand: Demand, shares: Shares) -> Bools | None:
    """The nodes on which the gang may have replicas; None for all."""
    eligible = layout.eligible(demand)
    if not demand.required or demand.level in (None, "pool"):
        return eligible
    nodes = np.array(sorted({share[0] for share in shares}), dtype=np.int64)
    inside = np.zeros(layout.nodes, dtype=np.bool_)
    if demand.level == "node":
        inside[nodes] = True
    else:
        starts = layout.groups[str(demand.level)]
        group_of_cell = np.searchsorted(starts, np.arange(len(layout.bounds)), side="right")
        group_of_node = group_of_cell[layout.cell_of_node]
        inside |= np.isin(group_of_node, group_of_node[nodes])
    return inside if eligible is None else inside & eligible


def _add(
    view: PoolIndex, part: Part, wanted: int, allowed: Bools | None, own: Collection[int]
) -> tuple[DeviceShare, ...]:
    """As many replicas of a part as there is room for, taken on ``view``."""
    room = by_node(view, part, allowed)
    mine = np.zeros(view.layout.nodes, dtype=np.int64)
    mine[list(own)] = 1
    in_own_cell = np.maximum.reduceat(mine, view.layout.cells)[view.layout.cell_of_node]
    nodes = np.flatnonzero(room)
    order = nodes[np.lexsort((nodes, view.bucket[nodes], -in_own_cell[nodes], -mine[nodes]))]
    found: list[DeviceShare] = []
    for node in order.tolist():
        replicas = min(wanted, int(room[node]))
        found.extend(view.share(node, part, replicas))
        wanted -= replicas
        if not wanted:
            break
    view.take(tuple(found))
    return tuple(found)


def shrunk(
    index: PoolIndex, demand: Demand, shares: Shares, keep: Sequence[int], nodes: Collection[int] = ()
) -> Shares:
    """The shares with ``keep`` replicas of each role left: given up are those on ``nodes`` first, then those on the
    nodes where the gang has least, so that whole nodes get free. ``ValueError`` if there are fewer than ``keep``."""
    surplus = [have - kept for have, kept in zip(counts(demand, shares), keep, strict=True)]
    if min(surplus) < 0:
        raise ValueError(f"{counts(demand, shares)} replicas can not shrink to {tuple(keep)}")
    gpus: dict[int, int] = {}
    for share in shares:
        gpus[share[0]] = gpus.get(share[0], 0) + share[1]
    order = sorted(range(len(shares)), key=lambda at: (shares[at][0] not in nodes, gpus[shares[at][0]], -at))
    left = dict(enumerate(shares))
    for at in order:
        share = shares[at]
        if not isinstance(share, DeviceShare) or not surplus[share.role]:
            continue
        given = min(surplus[share.role], share.replicas)
        surplus[share.role] -= given
        if given == share.replicas:
            del left[at]
        else:
            left[at] = _fewer(index.layout.shapes[share.node], share, share.replicas - given)
    return tuple(left.values())


def within(index: PoolIndex, demand: Demand, shares: Shares, room_milli: int) -> Shares:
    """The shares with as many replicas as count ``room_milli`` at most, never fewer than the least: roles named last
    have less first."""
    parts = index.layout.parts(demand)
    have, least = list(counts(demand, shares)), minimum(demand)
    if isinstance(parts, str):
        return shares
    each_milli = {part.role: part.gpus * WHOLE_MILLI + part.milli for part in parts}
    over = sum(each_milli[role] * replicas for role, replicas in enumerate(have)) - room_milli
    for role in reversed(range(len(have))):
        if over > 0 and each_milli[role]:
            fewer = min(have[role] - least[role], -(-over // each_milli[role]))
            have[role] -= fewer
            over -= fewer * each_milli[role]
    return shrunk(index, demand, shares, have)


def _fewer(shape: NodeShape, share: DeviceShare, keep: int) -> DeviceShare:
    """The share of one node with ``keep`` of its replicas."""
    gpus, nics = share.gpus * keep // share.replicas, share.nics.bit_count() * keep // share.replicas
    kept = 0
    for _ in range(nics):
        kept |= (share.nics & ~kept) & -(share.nics & ~kept)
    return share._replace(
        gpus=gpus,
        devices=choose(shape, share.devices, gpus) if gpus else 0,
        nics=kept,
        cpus_milli=share.cpus_milli * keep // share.replicas,
        memory_mib=share.memory_mib * keep // share.replicas,
        disk_mib=share.disk_mib * keep // share.replicas,
        replicas=keep,
    )
