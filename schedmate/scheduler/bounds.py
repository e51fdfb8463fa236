"""All jobs that wait for a pool as columns of bounds: beside which plans would any of them run on?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.pending import Entry

#: Plans that can be told apart: bits of an integer of 64.
MOST_PLANS = 62

_SPARE = 64
_GONE = -1
_TIMES = 7


class Bound(NamedTuple):
    """Seconds of run time of one job: taken to end within ``within_s`` against expected starts, within ``limit_s`` for
    sure; ``leaves_s``: within which it is expected to end with confidence enough to be evicted if it does not,
    infinite if it may not be. ``rank`` of its class, and ``since`` when it is in it; ``place_s`` and ``sequence`` are
    where it stands there; numbers of its ``tenant`` and its ``lane``."""

    within_s: float
    limit_s: float
    leaves_s: float
    rank: float
    since: float
    place_s: float
    sequence: float
    tenant: int
    lane: int


class PlanBound(NamedTuple):
    """A plan: when it starts, the rank of its class, whether hard limits alone count against it, whether a promise to
    leave counts as well, and before when jobs of a higher class must have come to be bound by it too. A tentative one
    binds of its own class only those of one tenant that stand behind it: ``behind`` is that place and tenant."""

    start_s: float
    rank: float
    hard: bool
    takes_promise: bool
    bound_before: float
    behind: tuple[float, float, int] | None = None


class Rooms(NamedTuple):
    """What quota leaves, in thousandths of a GPU, by number of a tenant: now, shape (tenants,), and when each plan
    begins, shape (plans, tenants); and what a job asks for, by number of its group, shape (groups,)."""

    now: NDArray[np.int64]
    then: NDArray[np.int64]
    asked: NDArray[np.int64]


class Alike(NamedTuple):
    """Entries in order of one group and one lane that run beyond just the plans ``late`` (bits)."""

    group: int
    late: int
    lane: int
    entries: list[Entry]


class Bounds:
    """Entries with their bounds and the number of a group each, in no order. Removal is a mark in ``live``, found out
    later."""

    __slots__ = ("_columns", "_compact_at", "_entries", "_groups", "_lanes", "_live", "_new", "_tenants")

    def __init__(self, live: list[Entry | None]) -> None:
        self._live = live
        self._entries: list[Entry] = []
        self._new: list[int] = []
        self._compact_at = _SPARE
        self._columns: NDArray[np.float64] = np.zeros((_TIMES, 0))
        self._tenants: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._lanes: list[int] = []
        self._groups: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def add(self, entry: Entry, group: int) -> None:
        """A live entry."""
        self._entries.append(entry)
        self._new.append(group)

    def candidates(
        self,
        groups: Sequence[int],
        plans: Sequence[PlanBound],
        now: float,
        bound: Callable[[int], Bound],
        rooms: Rooms,
        fits: Callable[[int, int], bool],
    ) -> list[Alike]:
        """Of some groups those entries that quota allows and for which ``fits`` (group, set of plans as bits) says yes.

        ``bound`` is asked for each new slot. What does not fit beside some plans does not beside these and others.
        """
        self._settle(bound)
        wanted = np.zeros(len(rooms.asked) + 1, dtype=np.bool_)  # the last one stands for `_GONE`
        wanted[list(groups)] = True
        of = self._groups
        at = np.flatnonzero(wanted[of])
        at = at[rooms.now[self._tenants[at]] >= rooms.asked[of[at]]]
        late = np.zeros(len(at), dtype=np.int64)
        if plans and len(at):
            beyond = self._beyond(at, plans, now)
            may = (~beyond | (rooms.then[:, self._tenants[at]] >= rooms.asked[of[at]])).all(axis=0)
            weights = 1 << np.arange(len(plans), dtype=np.int64)
            at, late = at[may], (weights @ beyond)[may]
        order = np.lexsort((late, of[at]))
        at, late = at[order], late[order]
        changes = np.flatnonzero((np.diff(late) != 0) | (np.diff(of[at]) != 0)) + 1
        spans = list(pairwise([0, *changes.tolist(), len(at)])) if len(at) else []
        keys = [(int(late[first]), int(of[at[first]]), at[first:end].tolist()) for first, end in spans]
        refused: dict[int, list[int]] = {}
        found: list[Alike] = []
        for code, group, rows in sorted(keys, key=lambda key: (key[0].bit_count(), key[:2])):
            known = refused.setdefault(group, [])
            if any(code & other == other for other in known) or not self._any_alive(rows):
                continue
            if fits(group, code):
                found.extend(self._by_lane(group, code, rows))
            else:
                known.append(code)
        return found

    def _any_alive(self, rows: list[int]) -> bool:
        """Whether one of the entries still waits; those before it that do not are not looked at again."""
        live, entries = self._live, self._entries
        for row in rows:
            entry = entries[row]
            if live[entry[2]] is entry:
                return True
            self._groups[row] = _GONE
        return False

    def _by_lane(self, group: int, late: int, rows: list[int]) -> Iterator[Alike]:
        """Those of the entries that still wait, in order."""
        live, entries, lanes = self._live, self._entries, self._lanes
        by_lane: dict[int, list[Entry]] = {}
        for row in rows:
            entry = entries[row]
            if live[entry[2]] is entry:
                by_lane.setdefault(lanes[row], []).append(entry)
            else:
                self._groups[row] = _GONE
        for lane, alive in by_lane.items():
            alive.sort()
            yield Alike(group, late, lane, alive)

    def _beyond(self, at: NDArray[np.int64], plans: Sequence[PlanBound], now: float) -> NDArray[np.bool_]:
        """Whether each entry runs beyond each plan, as `Trial.late` has it; shape (plans, entries)."""
        within_s, limit_s, leaves_s, rank, since, place_s, sequence = self._columns[:, at]
        start_s = np.array([plan.start_s for plan in plans])[:, None]
        hard = np.array([plan.hard for plan in plans])[:, None]
        promise = np.array([plan.takes_promise for plan in plans])[:, None]
        beyond: NDArray[np.bool_] = np.where(hard, limit_s, within_s) + now > start_s
        beyond &= ~(promise & (leaves_s + now <= start_s))
        bound_before = np.array([plan.bound_before for plan in plans])[:, None]
        bound = (np.array([plan.rank for plan in plans])[:, None] <= rank) | (since < bound_before)
        for row, plan in enumerate(plans):
            if plan.behind is not None:
                at_s, number, tenant = plan.behind
                later = (place_s > at_s) | ((place_s == at_s) & (sequence > number))
                bound[row] = (rank > plan.rank) | ((rank == plan.rank) & (self._tenants[at] == tenant) & later)
        beyond &= bound
        return beyond

    def _settle(self, bound: Callable[[int], Bound]) -> None:
        """Columns for what is new, and none for what is gone when there is much of it."""
        entries, live, old = self._entries, self._live, len(self._entries) - len(self._new)
        if self._new:
            kept = [row for row in range(old, len(entries)) if live[entries[row][2]] is entries[row]]
            bounds = [bound(entries[row][2]) for row in kept]
            added = np.array([each[:_TIMES] for each in bounds], dtype=np.float64).reshape(len(kept), _TIMES).T
            self._columns = np.concatenate((self._columns, added), axis=1)
            self._tenants = np.concatenate((self._tenants, np.array([each.tenant for each in bounds], dtype=np.int64)))
            self._lanes += [each.lane for each in bounds]
            groups = np.array([self._new[row - old] for row in kept], dtype=np.int64)
            self._groups = np.concatenate((self._groups, groups))
            self._entries = entries[:old] + [entries[row] for row in kept]
            self._new = []
        if len(self._entries) > self._compact_at:
            self._compact()

    def _compact(self) -> None:
        entries, live = self._entries, self._live
        rest = [row for row, entry in enumerate(entries) if live[entry[2]] is entry and self._groups[row] != _GONE]
        self._columns, self._groups, self._tenants = self._columns[:, rest], self._groups[rest], self._tenants[rest]
        self._entries, self._lanes = [entries[row] for row in rest], [self._lanes[row] for row in rest]
        self._compact_at = 2 * len(rest) + _SPARE
