"""Several replicas: first the group that holds them all, then inside it the fewest groups and nodes.

The whole gang must fit a group before its first replica is placed there. Among groups that hold it the one with least
free is taken; a gang wider than that fills whole groups first and puts what remains into the tightest broken one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import DeviceShare, Shares
from schedmate.scheduler.demand import Demand, Leaning
from schedmate.scheduler.placement.fit import by_cell, by_node
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.pool_layout import Bools, Ints, Part, PoolLayout

Span = tuple[int, int]

_HOUR_S = 3600.0


class _Ask(NamedTuple):
    """What stays the same while a gang is placed. ``room[p]``: replicas of part p that each cell holds."""

    demand: Demand
    parts: tuple[Part, ...]
    room: tuple[Ints, ...]
    eligible: Bools | None
    leaning: Leaning


def place_gang(
    view: PoolIndex, demand: Demand, parts: tuple[Part, ...], eligible: Bools | None, leaning: Leaning
) -> Shares | None:
    """All ``parts`` together, inside one group of the required level if there is one."""
    room = tuple(by_cell(view, part, eligible) for part in parts)
    if any(int(fits.sum()) < part.replicas for fits, part in zip(room, parts, strict=True)):
        return None
    ask = _Ask(demand, parts, room, eligible, leaning)
    if leaning.fleeting:
        broken = view.cell_free < view.layout.cell_gpus
        shares = _first_group(view, ask._replace(room=tuple(fits * broken for fits in room)))
        if shares is not None:
            return shares
    return _first_group(view, ask)


def levels_to_try(layout: PoolLayout, demand: Demand) -> tuple[str, ...]:
    """Levels at which a group is to hold the whole gang, in order of preference.

    Without a wish from the LeafGroup up; gangs that talk much try a scale-up domain first; a required level is last.
    """
    levels = layout.levels
    asked = demand.level if demand.level in levels else None
    if demand.heavy or demand.level in ("node", "island"):
        first = levels[0]
    elif asked is not None and (not demand.required or asked == levels[0]):
        first = asked
    else:
        first = next(level for level in levels if level != "hbd")
    last = asked if asked is not None and demand.required else levels[-1]
    return levels[min(levels.index(first), levels.index(last)) : levels.index(last) + 1]


def _first_group(view: PoolIndex, ask: _Ask) -> Shares | None:
    for level in levels_to_try(view.layout, ask.demand):
        for span in _tightest_first(view, level, ask):
            shares = _fill(view, ask, level, span)
            if shares is not None:
                return shares
    return None


def _tightest_first(view: PoolIndex, level: str, ask: _Ask) -> Iterator[Span]:
    """The groups of a level that hold every part by itself and all of them by the GPUs, as runs of cells."""
    starts = view.layout.groups[level]
    free = np.add.reduceat(view.cell_free, starts)
    holds = free >= sum(part.gpus * part.replicas for part in ask.parts)
    for fits, part in zip(ask.room, ask.parts, strict=True):
        holds &= np.add.reduceat(fits, starts) >= part.replicas
    groups = np.flatnonzero(holds)
    keys = [groups, _distance(view, starts, ask.leaning)[groups], free[groups]]
    ends = (*starts[1:].tolist(), len(view.layout.bounds))
    return ((int(starts[group]), ends[group]) for group in groups[np.lexsort(keys)].tolist())


def _distance(view: PoolIndex, starts: Ints, leaning: Leaning) -> NDArray[np.float64]:
    """Hours between the expected end of the gang and that of what runs in each group that begins at the cells
    ``starts``; whole hours, to be no finer than what is known. 0 where nothing is known."""
    if leaning.end_s is None or not view.exits.known:
        return np.zeros(len(starts))
    exit_s = np.maximum.reduceat(view.exits.exit_s, view.layout.cells[starts])
    hours: NDArray[np.float64] = np.floor(np.minimum(np.abs(leaning.end_s - exit_s), 1e12) / _HOUR_S)
    return hours


def _fill(view: PoolIndex, ask: _Ask, level: str, span: Span) -> Shares | None:
    """The parts one after the other, the largest first, each on what those before it have left."""
    parts, room = ask.parts, ask.room
    shares = tuple(_assign(view, ask, parts[0], parts[0].replicas, room[0], level, span))
    if len(parts) == 1:
        return shares
    ahead = view.copy()
    ahead.take(shares)
    for part, fits in zip(parts[1:], room[1:], strict=True):
        fits_now = np.minimum(fits, by_cell(ahead, part, ask.eligible))
        if int(fits_now[slice(*span)].sum()) < part.replicas:
            return None
        taken = tuple(_assign(ahead, ask, part, part.replicas, fits_now, level, span))
        ahead.take(taken)
        shares += taken
    return shares


def _assign(
    view: PoolIndex, ask: _Ask, part: Part, replicas: int, room: Ints, level: str, span: Span
) -> Iterator[DeviceShare]:
    """``replicas`` of one part inside a group that has room for them."""
    layout = view.layout
    first, end = span
    if end - first == 1:
        a, b = layout.bounds[first]
        for node, count in fewest(by_node(view, part, ask.eligible, a, b), replicas, view.bucket[a:b]):
            yield from view.share(a + node, part, count)
        return
    tighter = layout.levels[layout.levels.index(level) - 1]
    starts = layout.groups[tighter]
    starts = starts[(starts >= first) & (starts < end)]
    ends = (*starts[1:].tolist(), end)
    fits = np.add.reduceat(room[first:end], starts - first)
    free = np.add.reduceat(view.cell_free[first:end], starts - first)
    hours = _distance(view, layout.groups[tighter], ask.leaning)[np.searchsorted(layout.groups[tighter], starts)]
    key = free + 1.0 - 1.0 / (1.0 + hours)
    # Scale-up domains that are whole are kept for gangs that talk much; the others fill broken ones.
    choose = most_broken if tighter == "hbd" and not ask.demand.heavy else fewest
    for child, count in choose(fits, replicas, key):
        yield from _assign(view, ask, part, count, room, tighter, (int(starts[child]), int(ends[child])))


def fewest(room: Ints, need: int, key: NDArray[np.generic]) -> Sequence[tuple[int, int]]:
    """(child, how many) over the fewest children: the roomiest are filled, the rest goes to the tightest that holds it;
    among equals the least ``key``. The children have room for ``need``."""
    order = np.lexsort((key, -room)).tolist()
    sizes = room.tolist()
    chosen: list[tuple[int, int]] = []
    for at, child in enumerate(order):
        if sizes[child] >= need:
            least = min(size for size in sizes if size >= need)
            return [*chosen, (next(other for other in order[at:] if sizes[other] == least), need)]
        chosen.append((child, sizes[child]))
        need -= sizes[child]
    raise ValueError(f"{need} more replicas than there is room for")


def most_broken(room: Ints, need: int, key: NDArray[np.generic]) -> Sequence[tuple[int, int]]:
    """(child, how many) from the least ``key`` on. The children have room for ``need``."""
    sizes = room.tolist()
    chosen: list[tuple[int, int]] = []
    for child in np.argsort(key, kind="stable").tolist():
        count = min(sizes[child], need)
        if count:
            chosen.append((child, count))
            need -= count
    if need:
        raise ValueError(f"{need} more replicas than there is room for")
    return chosen
