"""Looking ahead: a pool as it will be when running jobs have left, and the first time at which a gang fits.

Between two ends of reservations capacity only grows, so the first time is found by doubling steps along the ends and
then by bisection; states that were looked at are kept, and the next one is made from the nearest before it. On a pool
described in detail the search begins where there are GPUs enough (see `openings`), which is nearly always where it
ends, too. Every state is a real index of the pool: what is found is a placement, on concrete nodes and under all
conditions.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import DeviceShare, Shares, Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.device_ends import DeviceEnds
from schedmate.scheduler.expected_ends import ExpectedEnds
from schedmate.scheduler.openings import Opening, Openings
from schedmate.scheduler.placement import PlacementRule
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.state import JobTable
from schedmate.scheduler.types import Reservation

_FIRST_STEP = 8


class Window(NamedTuple):
    """When a start is looked for: not before ``from_s``, before ``before_s``, and for how long the gang stays."""

    from_s: float
    before_s: float
    span_s: float


class Ahead:
    """One pool along ``ends``, one kind of end of everything that runs on it, as of ``now``. ``openings``: the ends by
    device, where the pool has them."""

    __slots__ = ("_ends", "_index", "_now", "_order", "_spares", "_states", "_table", "_tried", "openings")

    def __init__(self, index: Index, ends: ExpectedEnds, table: JobTable, now: float) -> None:
        self._index = index
        self._ends = ends
        self._order = ends.order
        self._table = table
        self._now = now
        self._states: dict[int, Index] = {}
        self._spares: dict[tuple[int, ...], tuple[Spare, Sequence[Reservation]]] = {}
        self._tried: list[int] = []
        self.openings: Openings | None = None
        if isinstance(ends, DeviceEnds) and isinstance(index, PoolIndex):
            passed = self._order[: self.releases_by(now)]
            self.openings = Openings(index, ends, [slot for end_s, slot in passed if self._is_stuck(slot, end_s)])

    def _is_stuck(self, slot: int, end_s: float) -> bool:
        """One that has outlived its end without ending says nothing about when it will."""
        return self._table.starts_s[slot] < self._now >= end_s

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
            shares = self._table.shares
            found.give_many(
                shares[slot] or () for end_s, slot in self._order[base:releases] if not self._is_stuck(slot, end_s)
            )
            self._states[releases] = found
            self._tried.insert(at, releases)
        return found

    def near(self, at_s: float, nodes: Iterable[int]) -> PoolIndex:
        """The pool with what has left some nodes by then, and all else as it is now; the caller's own. For pools with
        ends by device."""
        if not isinstance(self._index, PoolIndex):
            raise TypeError("the pool does not know its devices")
        found = self._index.copy()
        found.give_many([self._left(at_s, nodes)])
        return found

    def _left(self, at_s: float, nodes: Iterable[int]) -> tuple[DeviceShare, ...]:
        """What is given back on some nodes by then."""
        ends = self._ends
        if not isinstance(ends, DeviceEnds):
            raise TypeError("the ends are not known by device")
        ends_s, on = ends.ends_s, ends.on
        return tuple(
            share
            for node in nodes
            for slot, shares in on[node].items()
            if ends_s[slot] <= at_s and not self._is_stuck(slot, ends_s[slot])
            for share in shares
        )

    def spare(self, at_s: float, plan: Reservation, active: Sequence[Reservation]) -> Spare:
        """What a plan leaves unused at a time, beside all that are ``active`` then."""
        releases = self.releases_by(at_s)
        key = (releases, id(plan), *map(id, active))
        found = self._spares.get(key)
        if found is None:  # the plans are kept as well: an identity is that of one object for as long as it lives
            if isinstance(self._index, PoolIndex) and isinstance(self._ends, DeviceEnds):
                given = self._left(at_s, dict.fromkeys(share[0] for share in plan.shares))
                spare = self._index.spare_beside(plan.shares, given)
            else:
                spare = self.state(releases).spare_beside(plan.shares)
            for other in active:
                if other is not plan:
                    spare = self._index.less(spare, other.shares)
            found = self._spares[key] = spare, (plan, *active)
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
    opening = ahead.openings.search(demand) if ahead.openings is not None else None
    search = _Search(ahead, place, demand, others, window.span_s)
    least = ahead.enough(demand) if opening is None else 0
    if least < 0:
        return None
    first_s = -math.inf if opening is None else opening.first_s(())
    if first_s >= window.before_s:
        return None
    if opening is None and window.before_s < math.inf and not search.fits_alone(_before(ahead, window.before_s)):
        return None
    turns = {p for o in others for p in (o.end_s, o.start_s - window.span_s) if window.from_s < p < window.before_s}
    points = [window.from_s, *sorted(turns), window.before_s]
    for since_s, until_s in pairwise(points):
        if until_s <= first_s:
            continue
        found = search.between(since_s, until_s, least) if opening is None else search.from_(opening, since_s, until_s)
        if found is not None:
            return found
    return None


def _shared_gpus(shares: Shares) -> int:
    """The GPUs of which shares hold a part: at most so many more are free whole when they are given back."""
    return sum(share.devices.bit_count() for share in shares if isinstance(share, DeviceShare) and not share.gpus)


def _before(ahead: Ahead, until_s: float) -> int:
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

    def from_(self, opening: Opening, since_s: float, until_s: float) -> tuple[float, Shares] | None:
        """As `between`, by the times at which the devices are released."""
        beside = self._beside(since_s)
        if opening.first_s(beside) <= since_s:
            shares = self._at(opening, since_s, beside)
            if shares is not None:
                return since_s, shares
        # Rounded sums of times may not tell who is there just after the turn: the turn itself does, see `earliest`.
        beside = [o for o in self._others if o.start_s - self._span_s <= since_s < o.end_s]
        later_s = math.nextafter(since_s, math.inf)
        at_s = max(later_s, opening.first_s(beside))
        if at_s >= until_s:
            return None
        if at_s > later_s and all(other in beside for other in self._beside(at_s)):
            shares = self._at(opening, at_s, beside)
            if shares is not None:
                return at_s, shares
        # With more GPUs than it needs something else is short: then all states that follow are looked at.
        return self.between(at_s, until_s, 0)

    def _at(self, opening: Opening, at_s: float, beside: Sequence[Reservation]) -> Shares | None:
        """A placement at a time on the nodes that are of any use then."""
        view = self._ahead.near(at_s, opening.nodes_by(at_s, beside).tolist())
        if beside:
            view.withhold(spares_beside(self._ahead, beside, at_s))
        return self._place(view, self._demand)

    def between(self, since_s: float, until_s: float, least: int) -> tuple[float, Shares] | None:
        """The first start from a time on and before another one, if no reservation begins to matter or ends between
        them, so that capacity only grows; not before ``least`` releases."""
        first = self._ahead.releases_by(since_s)
        shares = self.probe(first, since_s) if first >= least else None
        if shares is not None:
            return since_s, shares
        last, low = _before(self._ahead, until_s), max(first + 1, least)
        # Without an end to it there most likely is room.
        return self._among(low, last) if low <= last and (until_s == math.inf or self.fits(last)) else None

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
        alone, beside = self.fits_alone(releases), self._beside(at_s)
        if alone is None or not beside:
            return alone
        index = self._ahead.state(releases)
        return self._place(index.restricted(spares_beside(self._ahead, beside, at_s)), self._demand)

    def _beside(self, at_s: float) -> list[Reservation]:
        """The others that hold their nodes at some time while the gang is there, if it starts then."""
        end_s = at_s + self._span_s
        return [other for other in self._others if other.start_s < end_s and at_s < other.end_s]

    def _among(self, low: int, last: int) -> tuple[float, Shares] | None:
        """The first of ``low`` to ``last`` releases after which there is a placement, and when that is."""
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
    """What reservations leave on their nodes from a time on: one `Spare` for each when it begins, and whenever another
    one begins on some of its nodes. At other times there is only more."""
    spares: list[Spare] = []
    nodes = [{share[0] for share in other.shares} for other in beside]
    starts_s = [max(from_s, other.start_s) for other in beside]
    for i, other in enumerate(beside):
        met = [j for j in range(len(beside)) if i == j or not nodes[i].isdisjoint(nodes[j])]
        for at_s in sorted({starts_s[j] for j in met}):
            if other.start_s <= at_s < other.end_s:
                active = [beside[j] for j in met if beside[j].start_s <= at_s < beside[j].end_s]
                spares.append(ahead.spare(at_s, other, active))
    return spares


def with_spare(ahead: Ahead, plan: Reservation, plans: Sequence[Reservation]) -> Reservation:
    """A plan with what it leaves unused at its start, beside all of ``plans`` that hold their nodes then."""
    active = [other for other in plans if other.start_s <= plan.start_s < other.end_s]
    return replace(plan, spare=ahead.spare(plan.start_s, plan, active))
