"""Tenants: a tree with quota per GPU type, and what of it is in use.

Every node of the tree has, per GPU type, what it is *guaranteed*, how much more it may borrow, and how much of what it
does not use it lends. What it keeps for itself counts as used in its parent whether it is or not; what it uses
beyond that is drawn from the parent, and so on up to the whole pool. So a tenant gets what is guaranteed as soon as
borrowers have gone, nobody exceeds guaranteed + borrow limit, and nobody lends more than its lend limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import UNLIMITED, WHOLE_MILLI, ClusterSpec

#: No organisation is deeper; the tree is walked by functions that call themselves.
MOST_LEVELS = 64

#: The root of the tree: the cluster, and all jobs that belong to nobody.
ROOT = 0


class Queueing(Enum):
    """What a blocked job means to those behind it in the queue of one tenant.

    STRICT: nothing of that queue passes it; it gets a reservation. BEST_EFFORT: all that fits passes it, without a
    reservation before the starvation bound. BACKFILL: the first blocked jobs get reservations, and what delays none of
    them passes.
    """

    STRICT = "strict"
    BEST_EFFORT = "best_effort"
    BACKFILL = "backfill"


@dataclass(frozen=True, slots=True)
class Quota:
    """GPUs of one type. ``borrow_limit`` and ``lend_limit`` None: no limit. ``ValueError`` for amounts below 0
    or not finite."""

    guaranteed: float = 0.0
    borrow_limit: float | None = None
    lend_limit: float | None = None

    def __post_init__(self) -> None:
        if not all(
            0 <= amount < math.inf for amount in (self.guaranteed, self.borrow_limit or 0, self.lend_limit or 0)
        ):
            raise ValueError(f"quota {self} has an amount that is negative or not a number; no limit is None")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node of the tree. ``quotas`` by pool name; a type that is missing is guaranteed what the children are together
    (nothing for a leaf) and can be borrowed. ``isolated``: neither borrows nor lends. ``queueing`` None: the
    parent's, at the top the policy's. ``weight``: its part of a fair share.
    """

    name: str
    quotas: Mapping[str, Quota] = field(default_factory=lambda: MappingProxyType({}))
    children: tuple[Tenant, ...] = ()
    weight: float = 1.0
    isolated: bool = False
    queueing: Queueing | None = None

    def __post_init__(self) -> None:
        if not 0 < self.weight < float("inf"):
            raise ValueError(f"tenant {self.name} has weight {self.weight}")
        below, levels = self.children, 1
        while below:
            below, levels = tuple(child for each in below for child in each.children), levels + 1
        if levels > MOST_LEVELS:
            raise ValueError(f"tenant {self.name} has more than {MOST_LEVELS} levels")


class TenantTree:
    """The tree in numbers: tenants are numbered, parents before children, `ROOT` is the cluster.

    ``guaranteed``, ``most`` (what a node may use) and ``kept`` (what it does not lend) are milli-GPU by [tenant][pool].
    ``top``: the nodes right below the cluster, ``own_top`` of each tenant the one that it belongs to; ``kept_at_top``
    by [pool][tenant] is what those do not lend with all below them, 0 for others. ``no_limits``: what is left by tenant
    where nobody's use is limited, shape (tenants,).
    Raises ``ValueError`` for unknown GPU types, two tenants of one name, or children that are guaranteed more than
    their parent.
    """

    __slots__ = (
        "guaranteed", "kept", "kept_at_top", "most", "names", "no_limits", "numbers", "own_top", "parents", "pools",
        "queueing", "top", "unused", "weights",
    )  # fmt: skip

    def __init__(self, spec: ClusterSpec, tenants: Sequence[Tenant], queueing: Queueing) -> None:
        self.pools = [pool.name for pool in spec.pools]
        whole = [pool.gpus * WHOLE_MILLI for pool in spec.pools]
        self.names = [""]
        self.parents = [-1]
        self.queueing = [queueing]
        self.weights = [1.0]
        self.guaranteed, self.most, self.kept = [whole], [whole], [[0] * len(whole)]
        for tenant in tenants:
            self._add(tenant, ROOT)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        if len(self.numbers) != len(self.names):
            raise ValueError("two tenants have the same name, or one has none")
        self._check_children()
        self.unused = self._claims()
        self.no_limits = np.full(len(self.names), UNLIMITED, dtype=np.int64)
        self.own_top = [(self.path(number) or [ROOT])[-1] for number in range(len(self.names))]
        self.top = [number for number, parent in enumerate(self.parents) if parent == ROOT]
        self.kept_at_top = [
            [max(self.kept[n][pool], self.unused[n][pool]) if n in self.top else 0 for n in range(len(self.names))]
            for pool in range(len(self.pools))
        ]

    def _add(self, tenant: Tenant, parent: int) -> None:
        if unknown := sorted(set(tenant.quotas) - set(self.pools)):
            raise ValueError(f"tenant {tenant.name} has quota of GPU type {unknown[0]}, which no pool has")
        number = len(self.names)
        self.names.append(tenant.name)
        self.parents.append(parent)
        self.queueing.append(tenant.queueing or self.queueing[parent])
        self.weights.append(tenant.weight)
        quotas = [tenant.quotas.get(pool) for pool in self.pools]
        self.guaranteed.append([0 if q is None else _milli(q.guaranteed) for q in quotas])
        self.most.append([])
        self.kept.append([])
        for child in tenant.children:
            self._add(child, number)
        own = self.guaranteed[number]
        children = [child for child in range(number + 1, len(self.names)) if self.parents[child] == number]
        for pool, quota in enumerate(quotas):
            if quota is None:
                own[pool] = sum(self.guaranteed[child][pool] for child in children)
            borrow = 0 if tenant.isolated else None if quota is None else quota.borrow_limit
            lend = 0 if tenant.isolated else None if quota is None else quota.lend_limit
            self.most[number].append(UNLIMITED if borrow is None else own[pool] + _milli(borrow))
            self.kept[number].append(0 if lend is None else max(0, own[pool] - _milli(lend)))

    def _check_children(self) -> None:
        for parent, name in enumerate(self.names):
            children = [child for child in range(len(self.names)) if self.parents[child] == parent]
            for pool, of_type in enumerate(self.pools):
                given = sum(self.guaranteed[child][pool] for child in children)
                if given > self.guaranteed[parent][pool]:
                    whose = f"tenant {name}" if name else "the cluster"
                    raise ValueError(
                        f"{whose} has {self.guaranteed[parent][pool] / WHOLE_MILLI:g} GPUs of type {of_type} to give, "
                        f"{given / WHOLE_MILLI:g} are guaranteed to those below"
                    )

    def _claims(self) -> list[list[int]]:
        claims = [[0] * len(self.pools) for _ in self.names]
        for number in range(len(self.names) - 1, ROOT, -1):
            above = claims[self.parents[number]]
            for pool in range(len(self.pools)):
                above[pool] += max(claims[number][pool], self.kept[number][pool])
        return claims

    def is_guaranteed(self, tenant: int, pool: int, milli: int) -> bool:
        """Whether the tenant and all above it are guaranteed so much, if nothing of it is in use."""
        return all(milli <= self.guaranteed[node][pool] for node in self.path(tenant))

    def path(self, tenant: int) -> list[int]:
        """The tenant and those above it, without the root."""
        found = []
        while tenant != ROOT:
            found.append(tenant)
            tenant = self.parents[tenant]
        return found


class TenantUse:
    """What is in use: ``used[pool][tenant]`` in milli-GPU, with what is kept for nodes below.

    The row of a pool is replaced and never changed in place, so that copies share those that are equal.
    """

    __slots__ = ("_rooms", "tree", "used")

    def __init__(self, tree: TenantTree) -> None:
        self.tree = tree
        self._rooms: dict[int, NDArray[np.int64]] = {}
        self.used = [[row[pool] for row in tree.unused] for pool in range(len(tree.pools))]

    def charge(self, tenant: int, pool: int, milli: int) -> None:
        """Use ``milli`` more, or less where negative; limits are not looked at. The exact inverse of itself."""
        kept, parents = self.tree.kept, self.tree.parents
        self._rooms.pop(pool, None)
        used = self.used[pool] = self.used[pool].copy()
        while milli and tenant >= 0:
            old = used[tenant]
            used[tenant] = new = old + milli
            own = kept[tenant][pool]
            milli = max(own, new) - max(own, old)
            tenant = parents[tenant]

    def bound(self, tenant: int, pool: int, milli: int) -> int:
        """The node of the tree that does not allow ``milli`` more, -1 if all do."""
        used, tree = self.used[pool], self.tree
        while milli > 0 and tenant >= 0:
            old = used[tenant]
            new = old + milli
            if new > tree.most[tenant][pool]:
                return tenant
            own = tree.kept[tenant][pool]
            milli = max(own, new) - max(own, old)
            tenant = tree.parents[tenant]
        return -1

    def is_limited(self, tenant: int, pool: int, milli: int) -> bool:
        """Whether a limit that somebody has set does not allow ``milli`` more, however little others use: a borrow
        limit of the tenant or of one above it, or what others do not lend. A full cluster is no such limit."""
        node = self.bound(tenant, pool, milli)
        if node != ROOT:
            return node > ROOT
        tree, used = self.tree, self.used[pool]
        own, kept = tree.own_top[tenant], tree.kept_at_top[pool]
        kept_by_others = sum(kept) - (kept[own] if own != ROOT else 0)
        if not kept_by_others:
            return False
        others = sum(max(tree.kept[n][pool], used[n]) for n in tree.top if n != own)
        return self.lack(tenant, pool, milli) > others - kept_by_others

    def lack(self, tenant: int, pool: int, milli: int) -> int:
        """By how much ``milli`` more are too much for the first node of the tree that does not allow them, 0 if all do:
        unless others use less by so much in all, it stays at that."""
        used, tree = self.used[pool], self.tree
        while milli > 0 and tenant >= 0:
            old = used[tenant]
            new = old + milli
            if new > tree.most[tenant][pool]:
                return new - tree.most[tenant][pool]
            own = tree.kept[tenant][pool]
            milli = max(own, new) - max(own, old)
            tenant = tree.parents[tenant]
        return 0

    def is_exceeded(self, pool: int) -> bool:
        """Whether more is in use of a pool than some limit allows."""
        return any(used > most[pool] for used, most in zip(self.used[pool], self.tree.most, strict=True))

    def forget_rooms(self) -> None:
        """The limits of the tree have changed."""
        self._rooms.clear()

    def rooms(self, pool: int) -> NDArray[np.int64]:
        """By tenant, the most that `bound` allows; shape (tenants,). Not to be changed."""
        found = self._rooms.get(pool)
        if found is None:
            tree, rooms = self.tree, list[int]()
            for parent, most, kept, used in zip(tree.parents, tree.most, tree.kept, self.used[pool], strict=True):
                room = most[pool] - used
                if parent >= 0:  # parents come first
                    own, above = kept[pool] - used, rooms[parent]
                    if own > 0:
                        above = above + own if above > 0 else own
                    elif above < 0:
                        above = 0
                    room = min(room, above)
                rooms.append(room)
            found = self._rooms[pool] = np.array(rooms, dtype=np.int64)
        return found

    def is_entitled(self, tenant: int, pool: int, milli: int) -> bool:
        """Whether ``milli`` more are within what the tenant and all above it are guaranteed."""
        return all(self.used[pool][node] + milli <= self.tree.guaranteed[node][pool] for node in self.tree.path(tenant))

    def copy(self) -> TenantUse:
        """An independent copy, for trying things on."""
        other = TenantUse.__new__(TenantUse)
        other.tree = self.tree
        other.used = self.used.copy()
        other._rooms = {}
        return other

    def why_not(self, tenant: int, pool: int, milli: int) -> str:
        """Which quota does not allow ``milli`` more, in words; empty if all do."""
        node = self.bound(tenant, pool, milli)
        if node < 0:
            return ""
        tree, of_type = self.tree, self.tree.pools[pool]
        if node == ROOT:
            return f"quota: what others have borrowed or keep leaves too few GPUs of type {of_type}"
        most, guaranteed = tree.most[node][pool], tree.guaranteed[node][pool]
        limit = f"{guaranteed / WHOLE_MILLI:g} guaranteed"
        limit += f" and {(most - guaranteed) / WHOLE_MILLI:g} to borrow" if most > guaranteed else ", none to borrow"
        used = self.used[pool][node] / WHOLE_MILLI
        return f"quota of tenant {tree.names[node]} for {of_type}: {used:g} GPUs of {limit} in use"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TenantUse) and self.used == other.used

    __hash__ = None  # type: ignore[assignment]


def _milli(gpus: float) -> int:
    return round(gpus * WHOLE_MILLI)
