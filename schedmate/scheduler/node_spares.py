"""What a plan leaves unused on the nodes of a pool described in detail."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schedmate.scheduler.cluster_types import DeviceShare, Spare
from schedmate.scheduler.pool_layout import Ints


class NodeSpare(NamedTuple):
    """What a plan leaves unused on a node: masks of the devices and NICs that it needs, amounts that it does not."""

    devices: int
    nics: int
    cpus_milli: int
    memory_mib: int
    disk_mib: int


class NodeSpares(dict[int, NodeSpare]):
    """A `Spare` of this index, which keeps its columns once they were wanted."""

    __slots__ = ("columns",)
    columns: tuple[Ints, ...]


def columns_of(spare: Spare) -> tuple[Ints, ...]:
    """Nodes, NICs, CPUs, memory and disk of a spare, a column each."""
    if isinstance(spare, NodeSpares) and hasattr(spare, "columns"):
        return spare.columns
    rows = np.array([(node, *held[1:]) for node, held in spare.items()], dtype=np.int64).reshape(len(spare), 5)
    columns = tuple(rows.T)
    if isinstance(spare, NodeSpares):
        spare.columns = columns
    return columns


def less_of(held: NodeSpare, share: DeviceShare) -> tuple[int, int, int]:
    """CPUs, memory and disk that are left when a share is taken, too."""
    return held.cpus_milli - share.cpus_milli, held.memory_mib - share.memory_mib, held.disk_mib - share.disk_mib
