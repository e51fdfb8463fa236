"""The pools beside some of their plans: what is left there, and what is known not to fit, for one `Trial`.

Sets of plans are written as bits: bit i is plan i of the pool as they stand in ``state.reservations``.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedmate.scheduler.cluster import Index
from schedmate.scheduler.cluster_types import Shares, Spare
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.free_index import FreeIndex
from schedmate.scheduler.placement import View, fits
from schedmate.scheduler.placement.freed import Rest, fits_by, rest_of
from schedmate.scheduler.pool_index import PoolIndex
from schedmate.scheduler.queue_layer import QueueLayer
from schedmate.scheduler.state import State
from schedmate.scheduler.types import Reservation
from schedmate.scheduler.verdicts import Free, Verdicts

#: Where more nodes have changed, a view is made anew.
MOST_TO_FOLLOW = 16


class Beside:
    """Follows the plans by itself; `started` says what else has been taken."""

    __slots__ = ("_behind", "_by_nodes", "_followed", "_layer", "_numbers", "_planned", "_rests", "_state", "_views")

    def __init__(self, state: State, layer: QueueLayer) -> None:
        self._state, self._layer = state, layer
        self._views: dict[tuple[int, int], View] = {}
        #: By view, the nodes on which something was started since it was last looked at.
        self._behind: dict[tuple[int, int], dict[int, None]] = {}
        #: By view, the plans beside which it is, as the verdicts of its pool number them.
        self._numbers: dict[tuple[int, int], int] = {}
        #: By pool and node, the plans that have it, and what may be taken of it beside some of these.
        self._planned: dict[int, dict[int, int]] = {}
        self._rests: dict[int, dict[tuple[int, int], Rest]] = {}
        self._by_nodes: dict[tuple[int, tuple[int, ...], Demand, int], bool | None] = {}
        #: By pool, the plans by the numbers of which all this is known.
        self._followed: dict[int, tuple[Reservation, ...]] = {}

    def verdicts(self, pool: int) -> Verdicts:
        """What is known of a pool with its plans as they are."""
        verdicts, plans, last = self._layer.verdicts[pool], self._plans(pool), self._followed.get(pool)
        if plans is not last:
            if last is not None and [id(each.origin) for each in plans] != [id(each.origin) for each in last]:
                self._forget(pool)  # the numbers of the plans have changed
            self._followed[pool] = plans
            verdicts.follow(free_on(self._state.cluster.pools[pool]), plans)
        return verdicts

    def _forget(self, pool: int) -> None:
        """What is known of a pool by the numbers of its plans."""
        for known in (self._views, self._behind, self._numbers):
            for key in [key for key in known if key[0] == pool]:
                del known[key]
        self._rests.pop(pool, None)
        self._planned.pop(pool, None)
        self._by_nodes.clear()

    def is_no(self, pool: int, demand: Demand) -> bool:
        """Whether a demand is known not to fit a pool now, whatever plans there are."""
        index = self._state.cluster.pools[pool]
        return self.verdicts(pool).where(index, free_on(index), demand, 0) == ()

    def fits(self, pool: int, demand: Demand, late: int) -> bool:
        """Whether a demand has a placement on a pool now that takes nothing from the plans ``late``."""
        told = self.told(pool, demand, late)
        if told is None:
            told = fits(self.view(pool, late), demand)
            if not told:
                self.note_no(pool, demand, late)
        return told

    def note_no(self, pool: int, demand: Demand, late: int) -> None:
        """A demand was found not to fit beside the plans ``late``."""
        self.verdicts(pool).note_no(demand, self._bits(pool, late))

    def told(self, pool: int, demand: Demand, late: int) -> bool | None:
        """Whether a demand fits beside some plans, the ``late`` ones, by what was known before and the nodes on which
        something was freed since; None if that does not tell."""
        verdicts, index, beside = self.verdicts(pool), self._state.cluster.pools[pool], self._bits(pool, late)
        where = verdicts.where(index, free_on(index), demand, beside)
        if where is None or (where and not isinstance(index, PoolIndex)):
            return None
        if not where or not isinstance(index, PoolIndex):
            return False
        told = self._by_freed(pool, index, where, demand, late)
        if told is False:
            verdicts.note_no(demand, beside)
        return told

    def most_left(self, pool: int, nodes: Sequence[int], late: int) -> int:
        """The most free GPUs on any of some nodes that the plans ``late`` leave; -1 for no nodes."""
        index, spares, most = self._state.cluster.pools[pool], self._spares(pool, late), -1
        for node in nodes:
            if isinstance(index, PoolIndex):
                left = rest_of(index, node, spares).gpus
            else:
                left = min((spare[node] for spare in spares if node in spare), default=index.free[node])
                left = min(left, index.free[node])
            most = max(most, left)
        return most

    def _by_freed(self, pool: int, index: PoolIndex, nodes: tuple[int, ...], demand: Demand, late: int) -> bool | None:
        """`fits_by` for some nodes beside the plans ``late``: of these the ones count that have such a node."""
        planned, rests = self._planned.setdefault(pool, {}), self._rests.setdefault(pool, {})
        meets = 0
        for node in nodes:
            bits = planned.get(node)
            if bits is None:
                bits = sum(1 << i for i, plan in enumerate(self._plans(pool)) if node in plan.spare)
                planned[node] = bits
            meets |= bits
        key = pool, nodes, demand, late & meets
        if key not in self._by_nodes:
            found = []
            for node in nodes:
                at = node, late & planned[node]
                if at not in rests:
                    rests[at] = rest_of(index, node, self._spares(pool, at[1]))
                found.append((node, rests[at]))
            self._by_nodes[key] = fits_by(index, demand, found)
        return self._by_nodes[key]

    def _bits(self, pool: int, late: int) -> int:
        """The plans ``late`` of a pool as its verdicts number them."""
        if not late:
            return 0
        key = pool, late
        if key not in self._numbers:
            plans = (plan for i, plan in enumerate(self._plans(pool)) if late >> i & 1)
            self._numbers[key] = self.verdicts(pool).bits_of(plans)
        return self._numbers[key]

    def _spares(self, pool: int, late: int) -> list[Spare]:
        """What the plans ``late`` of a pool leave."""
        return [plan.spare for i, plan in enumerate(self._plans(pool)) if late >> i & 1]

    def view(self, pool: int, late: int) -> View:
        if not late:
            return self._state.cluster.pools[pool]
        self.verdicts(pool)
        key, index, beside = (pool, late), self._state.cluster.pools[pool], self._spares(pool, late)
        view, behind = self._views.get(key), self._behind.pop(key, None)
        if view is None:
            view = self._views[key] = index.restricted(beside)
        elif behind and isinstance(view, PoolIndex) and isinstance(index, PoolIndex):
            view.follow(index, behind, beside)
        return view

    def started(self, pool: int, shares: Shares) -> None:
        """Shares were taken: the views of the pool show it when they are looked at again."""
        nodes = dict.fromkeys(share[0] for share in shares)
        self._rests.pop(pool, None)
        self._by_nodes.clear()
        for key in [key for key in self._views if key[0] == pool]:
            behind = self._behind.setdefault(key, {})
            behind |= nodes
            if len(behind) > MOST_TO_FOLLOW or not isinstance(self._views[key], PoolIndex):
                del self._views[key], self._behind[key]

    def _plans(self, pool: int) -> tuple[Reservation, ...]:
        return self._state.reservations.get(pool, ())


def free_on(index: Index) -> Free:
    """Free GPUs of each node."""
    return index.free if isinstance(index, FreeIndex) else index.count
