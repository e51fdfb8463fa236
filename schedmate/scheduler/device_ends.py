"""Ends of running jobs on a pool described in detail, by device and by node as well as by time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import DeviceShare, Shares
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.pool_layout import PoolLayout

Times = NDArray[np.float64]
Masks = NDArray[np.bool_]


class DeviceEnds(ExpectedEnds):
    """``device_s``: when what has a device whole will have left it, -inf where nothing has, inf where there is no such
    device; shape (nodes, devices). ``on``: by node, the slots there with their shares.

    A slot has its shares, in the ``shares`` of the job table, when it is added and when it is removed.
    """

    __slots__ = ("_columns", "_shares", "device_s", "layout", "on")

    def __init__(self, layout: PoolLayout, shares: Sequence[Shares | None]) -> None:
        super().__init__()
        self.layout = layout
        self._shares = shares
        self._columns: dict[int, list[int]] = {}
        self.on: list[dict[int, tuple[DeviceShare, ...]]] = [{} for _ in range(layout.nodes)]
        self.device_s: Times = np.where(bits(layout.devices, layout.capacity), -np.inf, np.inf)

    def add(self, slot: int, end_s: float) -> None:
        """A job starts."""
        super().add(slot, end_s)
        on = self.on
        for share in self._shares[slot] or ():
            if isinstance(share, DeviceShare):
                there = on[share.node]
                there[slot] = (*there[slot], share) if slot in there else (share,)
        self._mark(slot, end_s)

    def remove(self, slot: int) -> float:
        """A job is gone; returns when it was expected to end."""
        end_s = super().remove(slot)
        for share in self._shares[slot] or ():
            self.on[share[0]].pop(slot, None)
        self._mark(slot, -np.inf)
        return end_s

    def shares_of(self, slot: int) -> list[DeviceShare]:
        """What the job in ``slot`` has."""
        return [share for share in self._shares[slot] or () if isinstance(share, DeviceShare)]

    def _mark(self, slot: int, end_s: float) -> None:
        device_s = self.device_s
        by_mask: dict[int, list[int]] = {}
        for share in self._shares[slot] or ():
            if isinstance(share, DeviceShare) and not share.milli and share.devices:
                by_mask.setdefault(share.devices, []).append(share.node)
        for mask, nodes in by_mask.items():
            columns = self._columns.get(mask)
            if columns is None:
                columns = self._columns[mask] = [i for i in range(mask.bit_length()) if mask >> i & 1]
            if len(nodes) == 1:
                device_s[nodes[0], columns] = end_s
            else:
                device_s[np.array(nodes)[:, None], columns] = end_s


def bits(masks: Sequence[int], devices: int) -> Masks:
    """Masks as rows of booleans, the lowest bit first; shape (masks, devices)."""
    rows: Masks = (np.array(masks, dtype=np.int64).reshape(-1, 1) >> np.arange(devices)) & 1 > 0
    return rows
