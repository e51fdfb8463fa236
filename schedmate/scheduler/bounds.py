"""All jobs that wait for a pool as columns of bounds: beside which plans would any of them run on?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.contenders import NOBODY, Contenders, Ints, Kind, Standing
from schedmate.scheduler.pending import Entry, OrderedEntries

#: Plans that can be told apart: bits of an integer of 64.
MOST_PLANS = 62

_SPARE = 64
_GONE = -1
_NONE: Ints = np.zeros(0, dtype=np.int64)

#: Columns of numbers: those of `Bound`, and of `Standing` behind them.
_BOUNDS = 5
_COLUMNS = _BOUNDS + 3


class Bound(NamedTuple):
    """Seconds of run time of one job: taken to end within ``within_s`` against expected starts, within ``limit_s`` for
    sure; ``leaves_s``: within which it is expected to end with confidence enough to be evicted if it does not,
    infinite if it may not be. ``rank`` of its class, and ``since`` when it is in it; numbers of its ``tenant`` and its
    ``lane``; ``shift_s`` of that."""

    within_s: float
    limit_s: float
    leaves_s: float
    rank: float
    since: float
    tenant: int
    lane: int
    shift_s: float = 0.0


#: What quota left by tenant beside a plan that is gone, and what it leaves beside the one in its place.
Gone = tuple[NDArray[np.int64], NDArray[np.int64] | None]


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

    def binds_no_less(self, other: PlanBound) -> bool:
        """Whether every job that runs beyond another plan runs beyond this one as well."""
        return (
            self.start_s <= other.start_s
            and self.rank <= other.rank
            and self.bound_before >= other.bound_before
            and self.behind == other.behind
            and self.hard >= other.hard
            and self.takes_promise <= other.takes_promise
        )


class Rooms(NamedTuple):
    """What quota leaves, in thousandths of a GPU, by number of a tenant: now, shape (tenants,), and when each plan
    begins, shape (plans, tenants); and what a job asks for, by number of its group, shape (groups,)."""

    now: NDArray[np.int64]
    then: NDArray[np.int64]
    asked: NDArray[np.int64]


class News(NamedTuple):
    """What may let a job start that could not when all were looked at: to whose groups something that was freed
    matters, shape (groups,); what quota left then by tenant, shape (tenants,), and beside each plan that is gone, with
    what it leaves now beside the plan that stands in its place and binds nobody less, if there is one. ``most_left``
    tells the most free GPUs on any node on which something was freed beside some plans (bits), ``needs`` how many a
    node must have to be of use for a group, shape (groups,); None where that is not known."""

    gained: NDArray[np.bool_]
    rooms: NDArray[np.int64]
    gone: Sequence[Gone]
    needs: NDArray[np.int64] | None = None
    most_left: Callable[[int], int] | None = None


def lacked(asked: Ints | int, left: Ints, leaves: Ints | None) -> NDArray[np.bool_]:
    """Whether what was left beside a plan was too little, and that may be otherwise now (see `Gone`)."""
    found: NDArray[np.bool_] = left < asked if leaves is None else (left < asked) & (leaves >= asked)
    return found


class Bounds:
    """Entries with the number of a group each, in no order, and columns of their bounds that are made when they are
    first asked for. Removal is a mark in ``live``, found out later."""

    __slots__ = (
        "_columns", "_compact_at", "_entries", "_groups", "_in_order", "_live", "_numbers", "_seen", "_settled",
    )  # fmt: skip

    def __init__(self, live: list[Entry | None]) -> None:
        self._live = live
        self._entries: list[Entry] = []
        self._groups: list[int] = []
        #: The same entries by group and lane.
        self._in_order: dict[int, dict[int, OrderedEntries]] = {}
        #: So many of the first have columns, so many have been looked at.
        self._settled = self._seen = 0
        self._compact_at = _SPARE
        # Both have room for more rows than there are entries.
        self._columns: NDArray[np.float64] = np.zeros((_COLUMNS, _SPARE))
        #: Of group, tenant and lane.
        self._numbers: Ints = np.zeros((3, _SPARE), dtype=np.int64)

    def add(self, entry: Entry, group: int, lane: int) -> None:
        """A live entry."""
        if len(self._entries) >= self._compact_at:
            self._compact()
        self._entries.append(entry)
        self._groups.append(group)
        lanes = self._in_order.setdefault(group, {})
        ordered = lanes.get(lane)
        if ordered is None:
            ordered = lanes[lane] = OrderedEntries(self._live)
        ordered.add(entry)

    def groups(self) -> list[int]:
        """Numbers of groups: all of which somebody waits, and some others."""
        return list(self._in_order)

    def in_order(self, group: int) -> Mapping[int, OrderedEntries]:
        """Who waits of a group, by number of the lane."""
        lanes = self._in_order.get(group, {})
        for lane in [lane for lane, ordered in lanes.items() if ordered.first() is None]:
            del lanes[lane]
        if not lanes:
            self._in_order.pop(group, None)
        return lanes

    def is_any(self, group: int) -> bool:
        """Whether somebody waits of a group."""
        if any(ordered.first() is not None for ordered in self._in_order.get(group, {}).values()):
            return True
        self._in_order.pop(group, None)
        return False

    def unseen(self, groups: Collection[int]) -> list[Entry]:
        """Who waits of some groups and has not been looked at."""
        live, entries = self._live, self._entries
        new = range(self._seen, len(entries)) if groups else ()
        return [entry for row in new if live[(entry := entries[row])[2]] is entry and self._groups[row] in groups]

    def contenders(
        self,
        news: News | None,
        plans: Sequence[PlanBound] | None,
        now: float,
        bound: Callable[[int], Bound],
        rooms: Rooms,
    ) -> Contenders:
        """The entries for which something may have changed (None: all) that quota allows, now and when the plans begin
        beyond which they run; each by itself where the plans are None, which is not to look at any. ``bound`` is asked
        for each new slot."""
        self._settle(bound)
        at, gained = self._wanted(news, rooms) if self._entries else (_NONE, _NONE)
        if not len(at):
            return NOBODY
        group, tenant, lane = self._numbers
        late = np.zeros(len(at), dtype=np.int64)
        if plans and len(at):
            beyond = self._beyond(at, plans, now)
            may = (~beyond | (rooms.then[:, tenant[at]] >= rooms.asked[group[at]])).all(axis=0)
            weights = 1 << np.arange(len(plans), dtype=np.int64)
            at, late, gained = at[may], (weights @ beyond)[may], gained[may]
            if news is not None and news.most_left is not None and news.needs is not None:
                sets, which = np.unique(late, return_inverse=True)
                most = np.array([news.most_left(plans) for plans in sets.tolist()], dtype=np.int64)
                may = (gained == 0) | (news.needs[group[at]] <= most[which])
                at, late = at[may], late[may]
        rank, standing = self._columns[3, at], self._columns[_BOUNDS:, at]
        kind = Kind(group[at], late, lane[at], tenant[at], rooms.asked[group[at]])
        found = Contenders(at, self._entries, self._live, kind, Standing(rank, *standing), plans is not None)
        self._numbers[0, found.gone] = _GONE
        return found

    def _wanted(self, news: News | None, rooms: Rooms) -> tuple[Ints, Ints]:
        """The rows of those that quota allows now and for whom something may have changed; 1 for those of them for whom
        that is but what was freed."""
        group, tenant, _ = self._numbers[:, : len(self._entries)]
        asked = rooms.asked[group]  # of the last group for those that are gone
        may = (group != _GONE) & (rooms.now[tenant] >= asked)
        if news is None:
            found: Ints = may.nonzero()[0]
            return found, np.zeros_like(found)
        otherwise = news.rooms[tenant] < asked
        otherwise[self._seen :] = True
        for left, leaves in news.gone:
            otherwise |= lacked(asked, left[tenant], None if leaves is None else leaves[tenant])
        found = (may & (otherwise | news.gained[group])).nonzero()[0]
        return found, 1 - otherwise[found]

    def see(self) -> None:
        """All that there are have been looked at."""
        self._seen = len(self._entries)

    def _beyond(self, at: NDArray[np.int64], plans: Sequence[PlanBound], now: float) -> NDArray[np.bool_]:
        """Whether each entry runs beyond each plan, as `Trial.late` has it; shape (plans, entries)."""
        within_s, limit_s, leaves_s, rank, since, order_s, shift_s, sequence = self._columns[:, at]
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
                place_s = order_s - shift_s
                later = (place_s > at_s) | ((place_s == at_s) & (sequence > number))
                bound[row] = (rank > plan.rank) | ((rank == plan.rank) & (self._numbers[1, at] == tenant) & later)
        beyond &= bound
        return beyond

    def _settle(self, bound: Callable[[int], Bound]) -> None:
        """Columns for what is new."""
        entries, live, old = self._entries, self._live, self._settled
        if old == len(entries):
            return
        kept = [row for row in range(old, len(entries)) if live[entries[row][2]] is entries[row]]
        self._keep(old, kept)
        end = old + len(kept)
        if end > self._columns.shape[1]:
            more = ((0, 0), (0, end))
            self._columns, self._numbers = np.pad(self._columns, more), np.pad(self._numbers, more)
        for row in range(old, end):
            entry = self._entries[row]
            each = bound(entry[2])
            self._columns[:, row] = (*each[:_BOUNDS], entry[0], each.shift_s, entry[1])
            self._numbers[:, row] = self._groups[row], each.tenant, each.lane
        self._settled = end

    def _compact(self) -> None:
        """Nothing of what is gone."""
        entries, live, group = self._entries, self._live, self._numbers[0, : self._settled].tolist()
        alive = [row for row, entry in enumerate(entries) if live[entry[2]] is entry]
        alive = [row for row in alive if row >= self._settled or group[row] != _GONE]
        old = bisect_left(alive, self._settled)
        self._columns, self._numbers = self._columns[:, alive[:old]], self._numbers[:, alive[:old]]
        self._keep(0, alive)
        self._settled = old
        for lanes in self._in_order.values():
            for ordered in lanes.values():
                ordered.alive()
        self._compact_at = 2 * len(self._entries) + _SPARE

    def _keep(self, first: int, rows: Sequence[int]) -> None:
        """Some rows only of those from the first one on."""
        self._entries[first:] = [self._entries[row] for row in rows]
        self._groups[first:] = [self._groups[row] for row in rows]
        if self._seen > first:
            self._seen = first + bisect_left(rows, self._seen)
