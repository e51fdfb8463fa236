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
    infinite if it may not be. ``rank`` of its class, and ``since`` when it is in it; number of its ``tenant``."""

    within_s: float
    limit_s: float
    leaves_s: float
    rank: float
    tenant: float
    since: float


class PlanBound(NamedTuple):
    """A plan: when it starts, the rank of its class, whether hard limits alone count against it, whether a promise to
    leave counts as well, and before when jobs of a higher class must have come to be bound by it too."""

    start_s: float
    rank: float
    hard: bool
    takes_promise: bool
    bound_before: float


class Allowed(NamedTuple):
    """By number of a tenant whether it may start something: now, shape (tenants,), and whether it has quota for it
    when each plan begins, shape (plans, tenants)."""

    now: NDArray[np.bool_]
    then: NDArray[np.bool_]


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

    @property
    def has_new(self) -> bool:
        """Whether entries came that no candidates were asked for since."""
        return self._new > 0

    def candidates(
        self,
        plans: Sequence[PlanBound],
        now: float,
        bound: Callable[[int], Bound],
        allowed: Allowed,
        fits: Callable[[int], bool],
    ) -> list[tuple[int, T, list[Entry]]]:
        """Sets of plans (bits) for which ``fits`` says yes, with an owner and those of its entries, in order, that run
        beyond just these and that quota allows.

        With removed entries there may be some too many. ``bound`` is asked for each new slot.
        """
        self._settle(bound)
        within_s, limit_s, leaves_s, rank, tenant, since = self._columns
        late: NDArray[np.int64] = np.zeros(len(self._entries), dtype=np.int64)
        if plans:
            start_s = np.array([plan.start_s for plan in plans])[:, None]
            hard = np.array([plan.hard for plan in plans])[:, None]
            promise = np.array([plan.takes_promise for plan in plans])[:, None]
            beyond = np.where(hard, limit_s, within_s) + now > start_s
            beyond &= ~(promise & (leaves_s + now <= start_s))
            bound_before = np.array([plan.bound_before for plan in plans])[:, None]
            beyond &= (np.array([plan.rank for plan in plans])[:, None] <= rank) | (since < bound_before)
            late = (beyond << np.arange(len(plans), dtype=np.int64)[:, None]).sum(axis=0)
        number = tenant.astype(np.int64)
        may = allowed.now[number]
        if plans:
            may &= (~beyond | allowed.then[:, number]).all(axis=0)
        found: dict[tuple[int, int], tuple[int, T, list[Entry]]] = {}
        refused: list[int] = []
        for code in sorted(set(late[may].tolist()), key=int.bit_count):
            if any(code & other == other for other in refused):
                continue
            if not fits(code):
                refused.append(code)
                continue
            for at in np.flatnonzero(may & (late == code)).tolist():
                owner = self._owners[at]
                found.setdefault((code, id(owner)), (code, owner, []))[2].append(self._entries[at])
        for _, _, entries in found.values():
            entries.sort()
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
