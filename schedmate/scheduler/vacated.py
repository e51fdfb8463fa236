"""A copy of a pool on which running jobs leave, to see whether a waiting one starts then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import Shares, Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.eviction_rules import Candidate
from schedmate.scheduler.placement import PlacementRule, View, fits


class Victims(NamedTuple):
    """Who is to leave, and where the gang goes then. ``excess``: how much more they hold than it needs; 0 up to twice
    as many GPUs, 1 up to 16 times, and so on.
    """

    chosen: tuple[Candidate, ...]
    shares: Shares
    excess: int = 0

    @property
    def price(self) -> tuple[float, ...]:
        """Least excess, then fewest, then least GPU time lost, then lowest classes, most borrowed, latest started."""
        columns = (math.fsum(column) for column in zip(*(c.price for c in self.chosen), strict=True))
        return self.excess, len(self.chosen), *columns

    @property
    def gpus(self) -> int:
        """What they hold."""
        return sum(each.gpus for each in self.chosen)


class Vacated:
    """One pool as it would be without some of its running jobs, with plans that must be kept withheld."""

    def __init__(
        self,
        index: Index,
        shares: Sequence[Shares | None],
        beside: Sequence[Spare],
        place: PlacementRule,
        demand: Demand,
    ) -> None:
        self.index = index.copy()
        self.demand = demand
        self._shares, self._beside, self._place = shares, beside, place

    def free(self, gone: Iterable[Candidate]) -> None:
        """They have left."""
        self.index.give_many(self._shares[each.slot] or () for each in gone)

    def put_back(self, each: Candidate) -> None:
        """One of them stays after all."""
        self.index.take(self._shares[each.slot] or ())

    def place(self, index: Index) -> Shares | None:
        """A placement of the gang on the pool as ``index`` has it."""
        return self._place(self.view(index), self.demand)

    def fits(self, index: Index) -> bool:
        """Whether the gang has one."""
        return fits(self.view(index), self.demand)

    def view(self, index: Index) -> View:
        """An index of the pool with what plans need withheld."""
        return index.restricted(self._beside) if self._beside else index

    def without(self, gone: Iterable[Candidate]) -> Index:
        """A copy on which they have left as well."""
        index = self.index.copy()
        index.give_many(self._shares[each.slot] or () for each in gone)
        return index

    def shares_of(self, each: Candidate) -> Shares:
        """Where a candidate runs."""
        return self._shares[each.slot] or ()

    def fits_without(self, gone: Sequence[Candidate]) -> Shares | None:
        """A placement if these leave; nothing is changed."""
        self.free(gone)
        view = self.view(self.index)
        found = self._place(view, self.demand) if fits(view, self.demand) else None
        for each in gone:
            self.put_back(each)
        return found
