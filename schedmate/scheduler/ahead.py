"""Looking ahead: a pool as it will be when running jobs have left, and the first time at which a gang fits.

Between two ends of reservations capacity only grows, so the first time is found by doubling steps along the ends and
then by bisection; states that were looked at are kept, and the next one is made from the nearest before it. Every
state is a real index of the pool: what is found is a placement, on concrete nodes and under all conditions.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import DeviceShare, Shares, Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.placement import PlacementRule
from schedmate.scheduler.state import JobTable
from schedmate.scheduler.types import Reservation

_FIRST_STEP = 8


class Window(NamedTuple):
    """When a start is looked for: not before ``from_s``, before ``before_s``, and for how long the gang stays."""

    from_s: float
    before_s: float
    span_s: float


class Ahead:
    """One pool along ``ends``, one kind of end of everything that runs on it, as of ``now``."""

    __slots__ = ("_index", "_now", "_order", "_spares", "_states", "_table", "_tried")

    def __init__(self, index: Index, ends: ExpectedEnds, table: JobTable, now: float) -> None:
        self._index = index
        self._order = ends.order
        self._table = table
        self._now = now
        self._states: dict[int, Index] = {}
        self._spares: dict[tuple[int, ...], tuple[Spare, Sequence[Reservation]]] = {}
        self._tried: list[int] = []

    def releases_by(self, at_s: float) -> int:
        """How many have left by then."""
        return bisect_right(self._order, (at_s, math.inf))

    def state(self, releases: int) -> Index:
        """The pool when the first so many have left; not to be changed."""
        found = self._states.get(releases)
        if found is None:
            at = bisect_right(self._tried, releases)
            base = self._tried[at - 1] if at else 0
            found = (self._states[base] if at else self._index).copy()
            table, now = self._table, self._now
            # One that has outlived its end without ending says nothing about when it will.
            found.give_many(
                table.shares[slot] or ()
                for end_s, slot in self._order[base:releases]
                if not table.starts_s[slot] < now >= end_s
            )
            self._states[releases] = found
            self._tried.insert(at, releases)
        return found

    def spare(self, releases: int, plan: Reservation, active: Sequence[Reservation]) -> Spare:
        """What a plan leaves unused when so many have left, beside all that are ``active`` then."""
        key = (releases, id(plan), *map(id, active))
        found = self._spares.get(key)
        if found is None:  # the plans are kept as well: an identity is that of one object for as long as it lives
            found = self._spares[key] = _spare(self.state(releases), plan, active), (plan, *active)
        return found[0]

    def enough(self, demand: Demand) -> int:
        """A number of releases before which there are too few GPUs, on whatever nodes; -1 if there never are enough."""
        free, gpus, demands = self._index.free_gpus, self._table.gpus, self._table.demands
        if free >= demand.least_gpus:
            return 0
        for i, (end_s, slot) in enumerate(self._order):
            if end_s == math.inf:
                break
            free += gpus[slot]
            if demands[slot].roles:
                free += _shared_gpus(self._table.shares[slot] or ())
            if free >= demand.least_gpus:
                return i + 1
        return -1

    def end_s(self, releases: int) -> float:
        """When the first so many have left; ``releases`` is not 0."""
        return self._order[releases - 1][0]


def earliest(
    ahead: Ahead, place: PlacementRule, demand: Demand, others: Sequence[Reservation], window: Window
) -> tuple[float, Shares] | None:
    """The first start in the window at which the gang has a placement that takes nothing from ``others``."""
    least = ahead.enough(demand)
    if least < 0:
        return None
    search = _Search(ahead, place, demand, others, window.span_s)
    if window.before_s < math.inf and not search.fits_alone(_releases_before(ahead, window.before_s)):
        return None
    turns = {p for o in others for p in (o.end_s, o.start_s - window.span_s) if window.from_s < p < window.before_s}
    points = [window.from_s, *sorted(turns), window.before_s]
    for since_s, until_s in pairwise(points):
        first = ahead.releases_by(since_s)
        shares = search.probe(first, since_s) if first >= least else None
        if shares is not None:
            return since_s, shares
        last = _releases_before(ahead, until_s)
        low = max(first + 1, least)
        if low <= last and (until_s == math.inf or search.fits(last)):  # without an end to it there most likely is room
            found = search.between(low, last)
            if found is not None:
                return found
    return None


def _shared_gpus(shares: Shares) -> int:
    """The GPUs of which shares hold a part: at most so many more are free whole when they are given back."""
    return sum(share.devices.bit_count() for share in shares if isinstance(share, DeviceShare) and not share.gpus)


def _releases_before(ahead: Ahead, until_s: float) -> int:
    return ahead.releases_by(min(math.nextafter(until_s, -math.inf), 1e300))


class _Search:
    """Placements of one demand at different times. ``_too_few`` releases are known not to suffice, whatever the others
    take."""

    __slots__ = ("_ahead", "_demand", "_others", "_place", "_span_s", "_too_few")

    def __init__(
        self, ahead: Ahead, place: PlacementRule, demand: Demand, others: Sequence[Reservation], span_s: float
    ) -> None:
        self._ahead, self._place, self._demand, self._others, self._span_s = ahead, place, demand, others, span_s
        self._too_few = -1

    def fits_alone(self, releases: int) -> Shares | None:
        """A placement when so many have left, were there no others."""
        index = self._ahead.state(releases) if releases > self._too_few else None
        if index is None or index.free_gpus < self._demand.least_gpus:
            return None
        shares = self._place(index, self._demand)
        if shares is None:
            self._too_few = releases
        return shares

    def probe(self, releases: int, at_s: float) -> Shares | None:
        """A placement at a time by which so many have left."""
        alone = self.fits_alone(releases)
        end_s = at_s + self._span_s
        beside = [other for other in self._others if other.start_s < end_s and at_s < other.end_s]
        if alone is None or not beside:
            return alone
        index = self._ahead.state(releases)
        return self._place(index.restricted(spares_beside(self._ahead, beside, at_s)), self._demand)

    def between(self, low: int, last: int) -> tuple[float, Shares] | None:
        """The first of ``low`` to ``last`` releases after which there is a placement, and when that is. Between them no
        reservation begins to matter or ends, so that capacity only grows."""
        step, at = _FIRST_STEP, low
        while not self.fits(at):
            if at == last:
                return None
            low, at = at + 1, min(last, at + step)
            step *= 2
        while low < at:
            middle = (low + at) // 2
            if not self.fits(middle):
                low = middle + 1
            else:
                at = middle
        start_s = self._ahead.end_s(at)
        shares = self.probe(self._ahead.releases_by(start_s), start_s)
        return None if shares is None else (start_s, shares)

    def fits(self, releases: int) -> bool:
        """Whether there is a placement at the time when exactly so many have left."""
        return self.probe(releases, self._ahead.end_s(releases)) is not None


def spares_beside(ahead: Ahead, beside: Sequence[Reservation], from_s: float) -> list[Spare]:
    """What reservations leave on their nodes from a time on: one `Spare` for each at each time when one begins."""
    spares: list[Spare] = []
    for at_s in sorted({max(from_s, other.start_s) for other in beside}):
        releases = ahead.releases_by(at_s)
        active = [other for other in beside if other.start_s <= at_s < other.end_s]
        spares.extend(ahead.spare(releases, other, active) for other in active)
    return spares


def with_spare(ahead: Ahead, plan: Reservation, plans: Sequence[Reservation]) -> Reservation:
    """A plan with what it leaves unused at its start, beside all of ``plans`` that hold their nodes then."""
    active = [other for other in plans if other.start_s <= plan.start_s < other.end_s]
    return replace(plan, spare=ahead.spare(ahead.releases_by(plan.start_s), plan, active))


def _spare(index: Index, plan: Reservation, active: Sequence[Reservation]) -> Spare:
    spare = index.spare_beside(plan.shares)
    for other in active:
        if other is not plan:
            spare = index.less(spare, other.shares)
    return spare
