"""Several replicas: first the group that holds them all, then inside it the fewest groups and nodes.

The whole gang must fit a group before its first replica is placed there. Among groups that hold it the one with least
free is taken; a gang wider than that fills whole groups first and puts what remains into the tightest broken one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import DeviceShare, Shares
from schedmate.scheduler.demand import Demand, Leaning
from schedmate.scheduler.placement.fit import by_cell, by_node
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Bools, Ints, Part, PoolLayout

Span = tuple[int, int]

_HOUR_S = 3600.0


def place_gang(
    view: PoolIndex, demand: Demand, parts: tuple[Part, ...], eligible: Bools | None, leaning: Leaning
) -> Shares | None:
    """All ``parts`` together, inside one group of the required level if there is one."""
    room = [by_cell(view, part, eligible) for part in parts]
    if any(int(fits.sum()) < part.replicas for fits, part in zip(room, parts, strict=True)):
        return None
    if leaning.fleeting:
        broken = view.cell_free < view.layout.cell_gpus
        shares = _first_group(view, demand, parts, eligible, [fits * broken for fits in room], leaning)
        if shares is not None:
            return shares
    return _first_group(view, demand, parts, eligible, room, leaning)


def levels_to_try(layout: PoolLayout, demand: Demand) -> tuple[str, ...]:
    """Levels at which a group is to hold the whole gang, in order of preference.

    Without a wish from the LeafGroup up; gangs that talk much try a scale-up domain first; a required level is last.
    """
    levels = layout.levels
    asked = demand.level if demand.level in levels else None
    first = levels[0] if demand.heavy or asked == levels[0] or demand.level in ("node", "island") else "leaf"
    if asked is not None and not demand.required:
        first = levels[0] if demand.heavy else asked
    if first not in levels:
        first = next(level for level in levels if level != "hbd")
    last = asked if asked is not None and demand.required else levels[-1]
    return levels[min(levels.index(first), levels.index(last)) : levels.index(last) + 1]


def spans(layout: PoolLayout, level: str) -> list[Span]:
    """The groups of a level as runs of cells (first, end)."""
    starts = layout.groups[level].tolist()
    return list(zip(starts, (*starts[1:], len(layout.bounds)), strict=True))


def _first_group(
    view: PoolIndex,
    demand: Demand,
    parts: tuple[Part, ...],
    eligible: Bools | None,
    room: list[Ints],
    leaning: Leaning,
) -> Shares | None:
    for level in levels_to_try(view.layout, demand):
        for span in _tightest_first(view, level, parts, room, leaning):
            shares = _fill(view, parts, eligible, room, level, span, leaning)
            if shares is not None:
                return shares
    return None


def _tightest_first(
    view: PoolIndex, level: str, parts: tuple[Part, ...], room: list[Ints], leaning: Leaning
) -> Iterator[Span]:
    """The groups of a level that hold every part by itself and all of them by the GPUs."""
    starts = view.layout.groups[level]
    free = np.add.reduceat(view.cell_free, starts)
    holds = free >= sum(part.gpus * part.replicas for part in parts)
    for fits, part in zip(room, parts, strict=True):
        holds &= np.add.reduceat(fits, starts) >= part.replicas
    groups = np.flatnonzero(holds)
    distance = _distance(view, starts, leaning)
    order = np.lexsort((groups, *(() if distance is None else (distance[groups],)), free[groups]))
    found = spans(view.layout, level)
    return (found[group] for group in groups[order].tolist())


def _distance(view: PoolIndex, starts: Ints, leaning: Leaning) -> NDArray[np.float64] | None:
    """Hours between the expected end of the gang and that of what runs in each group; whole hours, to be no finer than
    what is known."""
    if view.exits is None or leaning.end_s is None:
        return None
    exit_s = np.maximum.reduceat(view.exits.exit_s, view.layout.cells[starts])
    hours: NDArray[np.float64] = np.floor(np.minimum(np.abs(leaning.end_s - exit_s), 1e12) / _HOUR_S)
    return hours


def _fill(
    view: PoolIndex,
    parts: tuple[Part, ...],
    eligible: Bools | None,
    room: list[Ints],
    level: str,
    span: Span,
    leaning: Leaning,
) -> Shares | None:
    """The parts one after the other, the largest first, each on what those before it have left."""
    shares = tuple(_assign(view, parts[0], parts[0].replicas, eligible, room[0], level, span, leaning))
    if len(parts) == 1:
        return shares
    ahead = view.copy()
    ahead.take(shares)
    for part, fits in zip(parts[1:], room[1:], strict=True):
        fits_now = np.minimum(fits, by_cell(ahead, part, eligible))
        if int(fits_now[slice(*span)].sum()) < part.replicas:
            return None
        taken = tuple(_assign(ahead, part, part.replicas, eligible, fits_now, level, span, leaning))
        ahead.take(taken)
        shares += taken
    return shares


def _assign(
    view: PoolIndex,
    part: Part,
    replicas: int,
    eligible: Bools | None,
    room: Ints,
    level: str,
    span: Span,
    leaning: Leaning,
) -> Iterator[DeviceShare]:
    """``replicas`` of one part inside a group that has room for them."""
    layout = view.layout
    first, end = span
    if end - first == 1:
        a, b = layout.bounds[first]
        fits = by_node(view, part, eligible, a, b)
        for node, count in split(fits, replicas, view.bucket[a:b]):
            yield from view.share(a + node, part, count)
        return
    tighter = layout.levels[layout.levels.index(level) - 1]
    starts = layout.groups[tighter]
    starts = starts[(starts >= first) & (starts < end)]
    ends = [*starts[1:].tolist(), end]
    offsets = starts - first
    fits = np.add.reduceat(room[first:end], offsets)
    free = np.add.reduceat(view.cell_free[first:end], offsets).astype(np.float64)
    distance = _distance(view, starts, leaning)
    if distance is not None:
        free += 1.0 - 1.0 / (1.0 + distance[: len(free)])
    for child, count in split(fits, replicas, free):
        yield from _assign(view, part, count, eligible, room, tighter, (int(starts[child]), int(ends[child])), leaning)


def split(room: Ints, need: int, key: NDArray[np.generic]) -> Sequence[tuple[int, int]]:
    """(child, how many) over the fewest children: the roomiest are filled, the rest goes to the tightest that holds it;
    among equals the least ``key``. The children have room for ``need``."""
    order = np.lexsort((key, -room)).tolist()
    sizes = room.tolist()
    chosen: list[tuple[int, int]] = []
    for at, child in enumerate(order):
        if sizes[child] >= need:
            last = at
            while last + 1 < len(order) and sizes[order[last + 1]] >= need:
                last += 1
            least = sizes[order[last]]
            while last > at and sizes[order[last - 1]] == least:
                last -= 1
            chosen.append((order[last], need))
            return chosen
        chosen.append((child, sizes[child]))
        need -= sizes[child]
    raise ValueError(f"{need} more replicas than there is room for")
