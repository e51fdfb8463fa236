"""The waiting jobs that may start on one pool by what is known in numbers, class by class.

A *class* is jobs of one group and one lane that run beyond the same plans: for all of them "does it fit" and "is there
quota" have one answer, so that only the first of each is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.pending import Entry

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Kind(NamedTuple):
    """By job: numbers of its ``group``, ``lane`` and ``tenant``, the plans beyond which it runs (bits), and what it
    asks for in thousandths of a GPU. Shape (jobs,)."""

    group: Ints
    late: Ints
    lane: Ints
    tenant: Ints
    asked: Ints


class Standing(NamedTuple):
    """By job, what its place in the order rests on: rank of its class, its entry, what is taken off. Shape (jobs,)."""

    rank: Floats
    order_s: Floats
    shift_s: Floats
    sequence: Floats


class Contenders:
    """By number of a class, of all that are left: ``kind`` and the ``standing`` of the first."""

    __slots__ = ("_ends", "_entries", "_left", "_live", "_next", "_rows", "gone", "kind", "standing")

    def __init__(
        self,
        rows: Ints,
        entries: Sequence[Entry],
        live: Sequence[Entry | None],
        kind: Kind,
        standing: Standing,
        alike: bool,
    ) -> None:
        """For the jobs in some rows of all entries with what they are, of which those are passed that do not wait any
        more; each is a class of its own unless those ``alike`` are to be taken as one."""
        order = np.lexsort((standing.sequence, standing.order_s, kind.lane, kind.group, kind.late))
        kind, standing = Kind(*(each[order] for each in kind)), Standing(*(each[order] for each in standing))
        self._rows: list[int] = rows[order].tolist()
        self._entries, self._live = entries, live
        #: Rows of those that were found not to wait any more.
        self.gone: list[int] = []
        if alike:
            differs = [np.diff(each) != 0 for each in (kind.late, kind.group, kind.lane)]
            starts: Ints = np.flatnonzero(np.concatenate(([True], np.logical_or.reduce(differs))))
        else:
            starts = np.arange(len(order))
        if not len(order):
            starts = starts[:0]
        self._ends: list[int] = [*starts[1:].tolist(), len(order)]
        firsts = [self._alive_from(at, end) for at, end in zip(starts.tolist(), self._ends, strict=False)]
        self._next: Ints = np.array(firsts, dtype=np.int64)
        self._left = self._next < np.array(self._ends[: len(firsts)], dtype=np.int64)
        self.kind = Kind(*(each[starts] for each in kind))
        self.standing = standing

    def _alive_from(self, at: int, end: int) -> int:
        """The first from one on, before another, that waits."""
        rows, entries, live = self._rows, self._entries, self._live
        while at < end:
            entry = entries[rows[at]]
            if live[entry[2]] is entry:
                break
            self.gone.append(rows[at])
            at += 1
        return at

    def first_of(self, number: int) -> Entry:
        """The first job of a class."""
        return self._entries[self._rows[int(self._next[number])]]

    def pass_first(self, number: int) -> None:
        """The first job of a class does not wait any more, or is not to start."""
        self._next[number] = self._alive_from(int(self._next[number]) + 1, self._ends[number])
        if self._next[number] == self._ends[number]:
            self._left[number] = False

    def drop(self, number: int) -> None:
        """Nobody of a class is to start."""
        self._left[number] = False

    def drop_like(self, number: int) -> None:
        """What a class asks for does not fit: all of its group that run beyond the same plans, or those and more, are
        not to start."""
        kind, late = self.kind, self.kind.late[number]
        self._left &= (kind.group != kind.group[number]) | (kind.late & late != late)

    def without_plan(self, number: int) -> None:
        """The plan of a number is gone, and those after it are one before."""
        late = self.kind.late
        self.kind = self.kind._replace(late=(late & ((1 << number) - 1)) | (late >> (number + 1) << number))

    def keep(self, now: Ints, then: Ints) -> None:
        """Drop those for which quota leaves too little: ``now`` by tenant, ``then`` when the plans begin, shape (plans,
        tenants)."""
        left = np.flatnonzero(self._left)
        tenant, late, asked = self.kind.tenant[left], self.kind.late[left], self.kind.asked[left]
        may = now[tenant] >= asked
        for i in range(len(then)):
            may &= (then[i, tenant] >= asked) | (late >> i & 1 == 0)
        self._left[left] = may

    def is_left(self, number: int) -> bool:
        """Whether a class has not been dropped."""
        return bool(self._left[number])

    def left(self) -> Ints:
        """Numbers of the classes that are left."""
        found: Ints = np.flatnonzero(self._left)
        return found

    def places(self, numbers: Ints, standings_s: Floats) -> Floats:
        """Where the first of some classes stand, as `Trial.place_of` has it: rank, seconds, sequence; shape
        (3, numbers). ``standings_s`` by tenant."""
        at, each = self._next[numbers], self.standing
        seconds = each.order_s[at] + standings_s[self.kind.tenant[numbers]] - each.shift_s[at]
        found: Floats = np.array((each.rank[at], seconds, each.sequence[at]))
        return found


#: On a pool that holds nobody more.
NOBODY = Contenders(
    np.zeros(0, dtype=np.int64),
    (),
    (),
    Kind(*np.zeros((5, 0), dtype=np.int64)),
    Standing(*np.zeros((4, 0), dtype=np.float64)),
    alike=True,
)
