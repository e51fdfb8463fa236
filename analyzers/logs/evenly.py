"""Finds what keeps coming at even distances among other things that come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_TERMS = 6
#: Places nearer to each other than so many tolerances are no distance.
_FEWEST_TOLERANCES = 2.5


@dataclass(frozen=True, slots=True)
class Even:
    """Places (ascending), each known to ``within``. Nothing is known of what came before ``since``; with ``from_zero``
    even distances are multiples of themselves, as those of steps are."""

    places: Sequence[float]
    within: float
    since: float
    from_zero: bool

    def due(self, here: float) -> list[int]:
        """The places (as indices) that make another one due ``here``: three evenly spaced ones that lead to it, or all
        that there can have been since the run's begin."""
        found: set[int] = set()
        for index in range(len(self.places) - 1, -1, -1):
            apart = here - self.places[index]
            if apart <= _FEWEST_TOLERANCES * self.within:
                continue
            terms = self._walk(index, -apart)
            if self._leads_to(terms, apart) and self._is_enough(terms, apart):
                found.update(terms)
        return sorted(found)

    def _leads_to(self, terms: Sequence[int], apart: float) -> bool:
        """Whether the places before are as far apart as the last of them is from here, and what they make due has not
        come already."""
        last = self.places[terms[0]]
        mean = (last - self.places[terms[-1]]) / (len(terms) - 1) if len(terms) > 1 else self._from_zero(last, apart)
        off = abs(apart - mean)
        has_come = terms[0] < len(self.places) - 1 and abs(self.places[-1] - last - mean) < off
        return not has_come and off <= self.within * (1 + 1 / max(1, len(terms) - 1))

    def _from_zero(self, place: float, apart: float) -> float:
        """About ``apart``, so that ``place`` is a multiple of it."""
        times = round(place / apart)
        return place / times if self.from_zero and times else apart

    def keeps_coming(self, index: int) -> bool:
        """Whether the place is one of several that are evenly spaced."""
        here = self.places[index]
        for place in self.places:
            apart = abs(here - place)
            if apart <= _FEWEST_TOLERANCES * self.within:
                continue
            before, after = self._walk(index, -apart), self._walk(index, apart)
            terms = [*after[:0:-1], *before]
            if len(terms) >= 2 and self._is_enough(terms, apart):
                return True
        return False

    def _is_enough(self, terms: Sequence[int], apart: float) -> bool:
        """``terms`` from the last to the first."""
        if len(terms) >= 3:
            return True
        first = self.places[terms[-1]]
        is_multiple = abs(first - round(first / apart) * apart) <= self.within
        return self.from_zero and is_multiple and first - apart <= self.since + self.within

    def _walk(self, index: int, apart: float) -> list[int]:
        """The places from that of ``index`` on, each ``apart`` from the one before."""
        found: list[int] = []
        wanted = self.places[index]
        while len(found) < _MOST_TERMS:
            near = self._nearest(wanted)
            if abs(self.places[near] - wanted) > self.within:
                break
            found.append(near)
            wanted = self.places[near] + apart
        return found

    def _nearest(self, wanted: float) -> int:
        at = bisect_left(self.places, wanted)
        around = [index for index in (at - 1, at) if 0 <= index < len(self.places)]
        return min(around, key=lambda index: abs(self.places[index] - wanted))
