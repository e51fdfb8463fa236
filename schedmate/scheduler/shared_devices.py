"""GPUs that are taken in parts: time shares, or slices of fixed size; one or the other while anyone is on a device.

The parts taken on one node are a tuple of `SharedDevice`, ascending by device; the functions return a new one.
"""

from __future__ import annotations

from typing import NamedTuple

from schedmate.scheduler.cluster_types import WHOLE_MILLI, DeviceShare
from schedmate.scheduler.pool_layout import Part


class SharedDevice(NamedTuple):
    """A device that is taken in parts: what is left of it, and whether in slices (1) or time shares (0)."""

    device: int
    milli: int
    memory_mib: int
    sliced: int


Shared = tuple[SharedDevice, ...]


def take_part(shared: Shared, free: int, share: DeviceShare, whole_mib: int) -> tuple[Shared, int]:
    """Both the shared devices and the mask of free ones after ``share``; ``ValueError`` if there is no room for it."""
    device = share.devices.bit_length() - 1
    part = next((part for part in shared if part.device == device), None)
    if part is None:
        if not share.devices & free:
            raise ValueError(f"node {share.node}: device {device} is not free")
        free ^= share.devices
        part = SharedDevice(device, WHOLE_MILLI, whole_mib, share.sliced)
    left = part._replace(milli=part.milli - share.milli, memory_mib=part.memory_mib - share.device_memory_mib)
    if left.milli < 0 or left.memory_mib < 0 or left.sliced != share.sliced:
        raise ValueError(f"node {share.node}: device {device} has no {share.milli} milli left of that kind")
    return tuple(sorted((*(p for p in shared if p.device != device), left))), free


def give_part(shared: Shared, free: int, share: DeviceShare, bad: int) -> tuple[Shared, int]:
    """Both after ``share`` is given back; a device on which nothing is left is free unless it is ``bad``."""
    device = share.devices.bit_length() - 1
    part = next((part for part in shared if part.device == device), None)
    if part is None or part.milli + share.milli > WHOLE_MILLI:
        raise ValueError(f"node {share.node}: {share.milli} milli of device {device} are given back, not taken")
    others = tuple(p for p in shared if p.device != device)
    if part.milli + share.milli == WHOLE_MILLI:
        return others, free | share.devices & ~bad
    left = part._replace(milli=part.milli + share.milli, memory_mib=part.memory_mib + share.device_memory_mib)
    return tuple(sorted((*others, left))), free


def replicas_on(shared: Shared, free: int, bad: int, part: Part, whole_mib: int) -> int:
    """How many replicas of a part of a GPU a node's devices hold."""
    fits = [_times(each.milli, each.memory_mib, part) for each in shared if _usable(each, bad, part)]
    return sum(fits) + free.bit_count() * _times(WHOLE_MILLI, whole_mib, part)


def choose_parts(
    shared: Shared, free: int, bad: int, part: Part, whole_mib: int, replicas: int, among: int = -1
) -> list[int]:
    """A device for each of ``replicas``, for which there is room: one ``among`` those of the mask if any holds it, the
    one with least left, then the lowest number."""
    left = {each.device: (each.milli, each.memory_mib) for each in shared if _usable(each, bad, part)}
    left |= {device: (WHOLE_MILLI, whole_mib) for device in range(free.bit_length()) if free >> device & 1}
    chosen = []
    for _ in range(replicas):
        _, milli, device = min(
            (not among >> device & 1, milli, device)
            for device, (milli, mib) in left.items()
            if _times(milli, mib, part)
        )
        left[device] = milli - part.milli, left[device][1] - part.device_memory_mib
        chosen.append(device)
    return chosen


def _usable(each: SharedDevice, bad: int, part: Part) -> bool:
    return each.sliced == part.sliced and not bad >> each.device & 1


def _times(milli: int, memory_mib: int, part: Part) -> int:
    held = milli // part.milli
    return min(held, memory_mib // part.device_memory_mib) if part.device_memory_mib else held
