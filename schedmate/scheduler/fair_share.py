"""What each tenant has used lately: the order between tenants.

A tenant's *share* is the largest part it holds of any GPU type (the dominant share of Ghodsi et al., NSDI 2011) beyond
what it is guaranteed, now or on average over the past with older use counting less, whichever is more, divided by its
weight. A job stands back by the shares of its tenant and of all above it.
"""

from __future__ import annotations

import math

from schedmate.scheduler.cluster_types import WHOLE_MILLI, ClusterSpec
from schedmate.scheduler.tenants import TenantTree

#: Of one tenant: average share, share held now, when the average was right.
Use = tuple[float, float, float]


class FairShare:
    """``held[tenant][pool]`` is milli-GPU in use by the tenant and all below it."""

    __slots__ = ("_capacity", "_decay_per_s", "_tree", "_use", "held")

    def __init__(self, spec: ClusterSpec, tree: TenantTree, half_life_s: float) -> None:
        self._tree = tree
        self._capacity = [pool.gpus * WHOLE_MILLI for pool in spec.pools]
        self._decay_per_s = math.log(2.0) / half_life_s
        self._use: list[Use] = [(0.0, 0.0, -math.inf)] * len(tree.names)
        self.held = [[0] * len(self._capacity) for _ in tree.names]

    def charge(self, tenant: int, pool: int, milli: int, now: float) -> list[tuple[int, Use]]:
        """``milli`` more are in use from ``now`` on, less where negative; returns what `restore` needs."""
        before = []
        for node in self._tree.path(tenant):
            before.append((node, self._use[node]))
            held = self.held[node]
            held[pool] += milli
            guaranteed = self._tree.guaranteed[node]
            share = 0.0
            for h, g, c in zip(held, guaranteed, self._capacity, strict=True):
                if h > g:
                    share = max(share, (h - g) / c)
            self._use[node] = (self._average(node, now), share, now)
        return before

    def restore(self, before: list[tuple[int, Use]], pool: int, milli: int) -> None:
        """Undo a charge of ``milli``, the last one."""
        for node, use in before:
            self._use[node] = use
            self.held[node][pool] -= milli

    def carry_over(self, old: FairShare, now: float) -> None:
        """Tenants that there were before go on with their past; nothing is in use yet."""
        for name, number in self._tree.numbers.items():
            if name in old._tree.numbers:
                self._use[number] = (old._average(old._tree.numbers[name], now), 0.0, now)

    def standing(self, tenant: int, now: float) -> float:
        """The sum of the weighted shares of the tenant and of all above it."""
        found = 0.0
        for node in self._tree.path(tenant):
            found += max(self._average(node, now), self._use[node][1]) / self._tree.weights[node]
        return found

    def _average(self, node: int, now: float) -> float:
        average, share, at_s = self._use[node]
        if now <= at_s or average == share:
            return average
        return share + (average - share) * math.exp(-self._decay_per_s * (now - at_s))
