"""Many waiting jobs of one kind as columns: which is the first that may pass these reservations?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Entry = tuple[float, int, int]

#: Reservations that one call can tell apart: bits of an integer of 64.
MOST_RESERVATIONS = 62

_SPARE = 64


class Columns:
    """Entries of the queue in order, and beside them their bounds: seconds within which each is taken to end.

    ``bounds[f]`` is the column of field f. Removal is a mark in ``live``, shared with the queue, and found out lazily.
    """

    __slots__ = ("_bounds", "_entries", "_gone", "_known_gone", "_live")

    def __init__(
        self, entries: Iterable[Entry], bounds: Iterable[Sequence[float]], fields: int, live: list[Entry | None]
    ) -> None:
        self._entries = list(entries)
        self._live = live
        size = len(self._entries)
        self._bounds: NDArray[np.float64] = np.full((fields, size + _SPARE), np.inf)
        self._bounds[:, :size] = np.array(list(bounds), dtype=np.float64).reshape(size, fields).T
        self._gone: NDArray[np.bool_] = np.zeros(size + _SPARE, dtype=np.bool_)
        self._known_gone = 0

    def __len__(self) -> int:
        """Entries, with those whose removal has not been found out."""
        return len(self._entries)

    def add(self, entry: Entry, bounds: Sequence[float]) -> None:
        """Insert a live entry; putting back one whose removal was a mark only changes nothing."""
        entries, size = self._entries, len(self._entries)
        at = size if not size or entry > entries[-1] else bisect_left(entries, entry)
        if at < size and entries[at] is entry:
            if self._gone[at]:
                self._gone[at] = False
                self._known_gone -= 1
            return
        if size == len(self._gone):
            more = size // 2 + _SPARE
            self._bounds = np.concatenate((self._bounds, np.full((len(self._bounds), more), np.inf)), axis=1)
            self._gone = np.concatenate((self._gone, np.zeros(more, dtype=np.bool_)))
        if at < size:
            self._bounds[:, at + 1 : size + 1] = self._bounds[:, at:size]
            self._gone[at + 1 : size + 1] = self._gone[at:size]
        self._bounds[:, at] = bounds
        self._gone[at] = False
        entries.insert(at, entry)

    def least(self, field: int) -> float:
        """The smallest bound of a field, infinite if nothing waits. Removed entries may still count."""
        size = len(self._entries)
        return float(np.where(self._gone[:size], np.inf, self._bounds[field, :size]).min(initial=np.inf))

    def first(
        self, starts_s: Sequence[tuple[int, float]], now: float, admitted: Callable[[int], bool]
    ) -> tuple[Entry, int] | None:
        """The first entry that is ``admitted`` beside the reservations beyond which it runs, and these, one bit each.

        ``starts_s`` names, for every reservation, the field that counts against it and its start. What is refused
        beside some reservations is refused beside these and others as well. ``ValueError`` above `MOST_RESERVATIONS`.
        """
        if len(starts_s) > MOST_RESERVATIONS:
            raise ValueError(f"{len(starts_s)} reservations")
        if self._known_gone > _SPARE and 2 * self._known_gone > len(self._entries):
            self._compact()
        size = len(self._entries)
        late: NDArray[np.int64] = np.zeros(size, dtype=np.int64)
        for bit, (field, start_s) in enumerate(starts_s):
            late |= (self._bounds[field, :size] + now > start_s).astype(np.int64) << bit
        candidates = ~self._gone[:size]
        while size:
            at = int(candidates.argmax())
            if not candidates[at]:
                break
            entry = self._entries[at]
            if self._live[entry[2]] is not entry:
                self._gone[at] = True
                self._known_gone += 1
                candidates[at] = False
                continue
            beyond = int(late[at])
            if admitted(beyond):
                return entry, beyond
            candidates &= (late & beyond) != beyond
        return None

    def _compact(self) -> None:
        size = len(self._entries)
        kept = np.flatnonzero(~self._gone[:size])
        self._bounds[:, : len(kept)] = self._bounds[:, kept]
        self._entries = [self._entries[at] for at in kept.tolist()]
        self._gone[:size] = False
        self._known_gone = 0
