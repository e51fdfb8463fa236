"""Which GPUs and NICs of a node a replica gets: few islands and NUMA domains broken, NICs near the GPUs.

Devices are bits of a mask. Choices depend on little (what is free, how many), so they are remembered.
"""

from __future__ import annotations

from functools import lru_cache

from schedmate.scheduler.cluster_types import NodeShape


def runs(count: int, parts: int) -> tuple[int, ...]:
    """``count`` devices cut into ``parts`` runs of equal length, as masks."""
    length = count // parts
    return tuple(((1 << length) - 1) << (i * length) for i in range(parts))


@lru_cache(maxsize=1 << 16)
def choose(shape: NodeShape, free: int, gpus: int) -> int:
    """``gpus`` of the ``free`` devices (there are enough): as few islands as possible, then NUMA domains; the tightest
    that hold them, so that whole ones stay whole. Lowest numbers first."""
    coarse, fine = sorted((shape.islands, shape.numa))
    levels = tuple(runs(shape.gpus, parts) for parts in dict.fromkeys((coarse, fine)) if parts > 1)
    return _choose(levels, free, gpus)


def _choose(levels: tuple[tuple[int, ...], ...], free: int, gpus: int) -> int:
    if gpus == free.bit_count():
        return free
    if not levels:
        return _lowest(free, gpus)
    domains = [domain & free for domain in levels[0] if domain & free]
    chosen = 0
    while gpus:
        holding = [domain for domain in domains if domain.bit_count() >= gpus]
        if holding:
            return chosen | _choose(levels[1:], min(holding, key=int.bit_count), gpus)
        largest = max(domains, key=int.bit_count)
        domains.remove(largest)
        chosen |= largest
        gpus -= largest.bit_count()
    return chosen


def islands_with(shape: NodeShape, free: int, gpus: int) -> list[int]:
    """The devices of each island that has ``gpus`` free ones, the tightest first."""
    holding = [island for island in runs(shape.gpus, shape.islands) if (island & free).bit_count() >= gpus]
    return sorted(holding, key=lambda island: (island & free).bit_count())


def near_nics(shape: NodeShape, devices: int) -> int:
    """The NICs nearest to the devices."""
    nics, rest = 0, devices if shape.nics else 0
    while rest:
        low = rest & -rest
        nics |= 1 << ((low.bit_length() - 1) * shape.nics // shape.gpus)
        rest ^= low
    return nics


@lru_cache(maxsize=1 << 16)
def choose_with_nics(shape: NodeShape, free: int, gpus: int, free_nics: int, nics: int) -> tuple[int, int]:
    """Devices and ``nics`` of the ``free_nics`` (there are enough): devices whose nearest NIC is free if that many are,
    and the NICs nearest to them, then in the same NUMA domains, then any."""
    served = sum(1 << i for i in range(shape.gpus) if near_nics(shape, 1 << i) & free_nics and free >> i & 1)
    devices = choose(shape, served if served.bit_count() >= gpus else free, gpus) if gpus else 0
    chosen = _lowest(near_nics(shape, devices) & free_nics, nics)
    domains = sum(domain for domain in runs(shape.gpus, shape.numa) if domain & devices)
    for candidates in (near_nics(shape, domains), -1):
        chosen |= _lowest(candidates & free_nics & ~chosen, nics - chosen.bit_count())
    return devices, chosen


def _lowest(mask: int, count: int) -> int:
    chosen = 0
    while count > 0 and mask:
        low = mask & -mask
        chosen |= low
        mask ^= low
        count -= 1
    return chosen
