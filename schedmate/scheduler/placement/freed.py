"""Whether a gang that had no placement has one by the nodes on which something was freed: told from these alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schedmate.scheduler.cluster_types import Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.node_spares import NodeSpare
from schedmate.scheduler.pool_index import HIDDEN, PoolIndex
from schedmate.scheduler.pool_layout import Part


class Rest(NamedTuple):
    """What may be taken of one node: whole GPUs, NICs and amounts, None where the pool does not describe them."""

    gpus: int
    nics: int | None
    cpus_milli: int | None
    memory_mib: int | None
    disk_mib: int | None

    def holds(self, part: Part) -> bool:
        """Whether one replica fits, as `fit.holds` has it for all nodes."""
        return (
            self.gpus >= part.gpus
            and (not part.nics or (self.nics is not None and self.nics >= part.nics))
            and (not part.cpus_milli or self.cpus_milli is None or self.cpus_milli >= part.cpus_milli)
            and (not part.memory_mib or self.memory_mib is None or self.memory_mib >= part.memory_mib)
            and (not part.disk_mib or self.disk_mib is None or self.disk_mib >= part.disk_mib)
        )


def rest_of(index: PoolIndex, node: int, spares: Iterable[Spare]) -> Rest:
    """What may be taken of a node with no more than each of ``spares`` has there, as `PoolIndex.restricted` has it."""
    devices = 0 if index.bucket[node] == HIDDEN else index.free[node]
    nics = None if index.nics is None else index.nics[node]
    cpus_milli, memory_mib, disk_mib = (
        None if amounts is None else int(amounts[node])
        for amounts in (index.cpus_milli, index.memory_mib, index.disk_mib)
    )
    for spare in spares:
        held = spare.get(node)
        if isinstance(held, NodeSpare):
            devices &= ~held.devices
            nics = None if nics is None else nics & ~held.nics
            cpus_milli = None if cpus_milli is None else min(cpus_milli, max(held.cpus_milli, 0))
            memory_mib = None if memory_mib is None else min(memory_mib, max(held.memory_mib, 0))
            disk_mib = None if disk_mib is None else min(disk_mib, max(held.disk_mib, 0))
    return Rest(devices.bit_count(), None if nics is None else nics.bit_count(), cpus_milli, memory_mib, disk_mib)


def fits_by(index: PoolIndex, demand: Demand, rests: Sequence[tuple[int, Rest]]) -> bool | None:
    """Whether a demand that had no placement has one now that so much is left of some nodes, and nothing more than
    before of the others. None if these do not tell: replicas on other nodes count, too, or parts of GPUs do."""
    parts = index.layout.parts(demand)
    if isinstance(parts, str):
        return False
    if not all(part.gpus for part in parts):
        return None
    eligible = index.layout.eligible(demand)
    helps = any(
        (eligible is None or eligible[node]) and any(rest.holds(part) for part in parts) for node, rest in rests
    )
    if not helps:
        return False
    alone = len(parts) == 1 and parts[0].replicas == 1 and not demand.elastic
    return True if alone and demand.level not in ("node", "island") else None
