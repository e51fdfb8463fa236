"""Waiting jobs of one demand as columns of bounds: beside which plans would any of them run on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.pending import Entry

#: Plans that can be told apart: bits of an integer of 64.
MOST_PLANS = 62

T = TypeVar("T")


class Bound(NamedTuple):
    """Seconds of run time of one job: taken to end within ``within_s`` against expected starts, within ``limit_s`` for
    sure; ``leaves_s``: within which it is expected to end with confidence enough to be evicted if it does not,
    infinite if it may not be. ``rank`` of its class; number of its ``tenant``."""

    within_s: float
    limit_s: float
    leaves_s: float
    rank: float
    tenant: float


class PlanBound(NamedTuple):
    """A plan: when it starts, the rank of its class, whether hard limits alone count against it, and whether a promise
    to leave counts as well."""

    start_s: float
    rank: float
    hard: bool
    takes_promise: bool


class Allowed(NamedTuple):
    """By number of a tenant whether its quota has room: at all, and beside all plans. Shape (tenants,)."""

    now: NDArray[np.bool_]
    beside_plans: NDArray[np.bool_]


class Bounds(Generic[T]):
    """Entries with their bounds and an owner each, in no order. Removal is a mark in ``live``, found out later."""

    __slots__ = ("_columns", "_entries", "_live", "_new", "_owners")

    def __init__(self, live: list[Entry | None]) -> None:
        self._live = live
        self._entries: list[Entry] = []
        self._owners: list[T] = []
        self._new = 0
        self._columns: NDArray[np.float64] = np.zeros((len(Bound._fields), 0))

    def add(self, entry: Entry, owner: T) -> None:
        """A live entry."""
        self._entries.append(entry)
        self._owners.append(owner)
        self._new += 1

    def owners(
        self,
        plans: Sequence[PlanBound],
        now: float,
        bound: Callable[[int], Bound],
        allowed: Allowed,
        fits: Callable[[int], bool],
    ) -> list[T]:
        """The owners of entries that quota allows and for which ``fits`` says yes, asked for each set of plans (bits)
        beyond which some of them run.

        With removed entries there may be some too many. ``bound`` is asked for each new slot.
        """
        self._settle(bound)
        within_s, limit_s, leaves_s, rank, tenant = self._columns
        late: NDArray[np.int64] = np.zeros(len(self._entries), dtype=np.int64)
        if plans:
            start_s = np.array([plan.start_s for plan in plans])[:, None]
            hard = np.array([plan.hard for plan in plans])[:, None]
            promise = np.array([plan.takes_promise for plan in plans])[:, None]
            beyond = np.where(hard, limit_s, within_s) + now > start_s
            beyond &= ~(promise & (leaves_s + now <= start_s))
            beyond &= np.array([plan.rank for plan in plans])[:, None] <= rank
            late = (beyond << np.arange(len(plans), dtype=np.int64)[:, None]).sum(axis=0)
        number = tenant.astype(np.int64)
        may = np.where(late > 0, allowed.beside_plans[number], allowed.now[number])
        found: dict[int, T] = {}
        refused: list[int] = []
        for code in sorted(set(late[may].tolist()), key=int.bit_count):
            if any(code & other == other for other in refused):
                continue
            if not fits(code):
                refused.append(code)
                continue
            for at in np.flatnonzero(may & (late == code)).tolist():
                found[id(self._owners[at])] = self._owners[at]
        return list(found.values())

    def _settle(self, bound: Callable[[int], Bound]) -> None:
        """Columns for what is new, without what is gone."""
        size, live = len(self._entries), self._live
        kept = [at for at in range(size) if live[self._entries[at][2]] is self._entries[at]] if self._new else []
        if not self._new:
            return
        old = size - self._new
        keep_old = [at for at in kept if at < old]
        rows = [bound(self._entries[at][2]) for at in kept[len(keep_old) :]]
        added = np.array(rows, dtype=np.float64).reshape(len(rows), len(Bound._fields)).T
        self._columns = np.concatenate((self._columns[:, keep_old], added), axis=1)
        self._entries = [self._entries[at] for at in kept]
        self._owners = [self._owners[at] for at in kept]
        self._new = 0
