"""Finds what keeps coming at even distances among other things that come."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MOST_TERMS = 6
_SURE = 3
#: Places nearer to each other than so many tolerances are no distance.
_FEWEST_TOLERANCES = 2.5
#: Of so many earlier places that an even distance asks for, this share at least must have come.
_LOOKED_BACK = 12
_KEPT_TO = 0.6
#: A place is the first of a usual distance where it lies so far from the begin (as a share of the distance); nearer,
#: where another follows it, as little is known of what a run does before its first line.
_FIRST_OF, _FIRST_OF_TWO = (0.85, 1.3), (0.3, 1.3)
#: A distance is round where it is a multiple of so great a share of itself, and of so many times what it may lie
#: between, so that it is not by chance.
_ROUND_SHARE, _ROUND_WIDTHS = 0.1, 20


@dataclass(frozen=True, slots=True)
class Even:
    """Places (ascending), each known to ``within``: what came there came at most so much after it. Nothing is known of
    what came before ``since``; with ``from_zero`` even distances are multiples of themselves, as those of steps are.
    ``usual`` are distances that two places tell, where the first lies so far from ``since`` or from ``begun``."""

    places: Sequence[float]
    within: float
    since: float
    from_zero: bool
    usual: tuple[float, ...] = ()
    begun: float | None = None

    def due(self, here: float) -> list[int]:
        """The places (as indices) that make another one due ``here``: three evenly spaced ones that lead to it, or all
        that there can have been since the run's begin (a single one only where it is not one of others nearer to each
        other); none where most of such places have been passed by."""
        found: set[int] = set()
        for index in range(len(self.places) - 1, -1, -1):
            apart = here - self.places[index]
            if apart <= _FEWEST_TOLERANCES * self.within:
                continue
            terms = self._walk(index, -apart)
            if (
                self._leads_to(terms, apart)
                and self._is_enough(terms, apart)
                and self._is_kept_to(here, apart)
                and self._is_multiple(terms, here)
                and not (len(terms) == 1 and self.surely_keeps_coming(index))
            ):
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

    def _is_kept_to(self, here: float, apart: float) -> bool:
        """Whether something came at most of the places that lie so far apart, going back from here."""
        wanted, passed, came = here - apart, 0, 0
        while wanted > self.since + self.within and passed < _LOOKED_BACK:
            near = self._nearest(wanted)
            passed += 1
            if abs(self.places[near] - wanted) <= self.within:
                came += 1
                wanted = self.places[near]
            wanted -= apart
        return came >= _KEPT_TO * passed

    def _is_multiple(self, terms: Sequence[int], here: float) -> bool:
        """Whether one distance has multiples at (up to ``within`` after) all of the terms, from last to first, and
        here; of several terms a round one where one fits.

        What comes at a step comes after its record in every log, or before it: so bounds that meet hold nothing.
        """
        if not self.from_zero:
            return True
        apart = (here - self.places[terms[-1]]) / len(terms)
        least, most = self._bounds(terms, apart)
        if least >= most:
            return False
        times = max(1, round((here + self.within / 2) / apart))
        exact = _round_between(least, most) if len(terms) > 1 else None
        if exact is None:
            return least * times < here + self.within and most * times > here
        at, last = exact * times, here + self.within
        return here <= at <= last and not (exact == most and at == here) and not (exact == least and at == last)

    def _bounds(self, terms: Sequence[int], apart: float) -> tuple[float, float]:
        """Between which the distance lies, about ``apart``, that all of the terms are multiples of."""
        least, most = 0.0, math.inf
        for place in (self.places[at] for at in terms):
            times = round((place + self.within / 2) / apart)
            if times:
                least, most = max(least, place / times), min(most, (place + self.within) / times)
        return least, most

    def keeps_coming(self, index: int) -> bool:
        """Whether the place is one of several that are evenly spaced."""
        return any(True for _ in self._rows(index))

    def surely_keeps_coming(self, index: int) -> bool:
        """Whether it is one of three at least, or of two a round distance apart."""
        for apart, terms in self._rows(index):
            if len(terms) >= _SURE or (self.from_zero and _round_between(*self._bounds(terms, apart)) is not None):
                return True
        return False

    def _rows(self, index: int) -> Iterator[tuple[float, list[int]]]:
        """The evenly spaced places that the place is one of, from last to first, and how far apart they are."""
        here = self.places[index]
        for place in self.places:
            apart = abs(here - place)
            if apart <= _FEWEST_TOLERANCES * self.within:
                continue
            before, after = self._walk(index, -apart), self._walk(index, apart)
            terms = [*after[:0:-1], *before]
            if (
                len(terms) >= 2
                and self._is_enough(terms, apart)
                and self._is_kept_to(max(here, place), apart)
                and self._is_multiple(terms[1:], self.places[terms[0]])
            ):
                yield apart, terms

    def _is_enough(self, terms: Sequence[int], apart: float) -> bool:
        """``terms`` from the last to the first."""
        if len(terms) >= 3:
            return True
        first = self.places[terms[-1]]
        if any(abs(apart - one) <= self.within for one in self.usual):
            least, most = _FIRST_OF if len(terms) == 1 else _FIRST_OF_TWO
            begins = (self.since, self.since if self.begun is None else self.begun)
            return any(least * apart <= first - begin <= most * apart + self.within for begin in begins)
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


def _round_between(least: float, most: float) -> float | None:
    """The roundest number between two, where there is one that is round indeed."""
    if math.isinf(most):
        return None
    enough = max(_ROUND_SHARE * least, _ROUND_WIDTHS * (most - least))
    size = 10.0 ** math.ceil(math.log10(max(most, 1.0)))
    while size >= enough:
        for unit in (size, size / 2, size / 4, size / 5):
            number = math.ceil(least / unit - 1e-9) * unit
            if number <= most * (1 + 1e-9) and unit >= enough:
                return number
        size /= 10
    return None
