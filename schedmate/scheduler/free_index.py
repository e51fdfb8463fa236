"""Free GPUs per node of one pool, indexed by free count so that a placement is a few integer operations.

``masks[f]`` is an integer whose bit n says that node n has exactly f free GPUs; ``levels`` has bit f set where
``masks[f]`` is not zero. So "the fullest node with at least g free, lowest index first" is the lowest bit of
``levels >> g`` and then the lowest bit of one mask, for 72 nodes as for 12,500.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from schedmate.scheduler.cluster_types import Shares, Spare


class FreeView(Protocol):
    """What a placement rule needs to see."""

    @property
    def capacity(self) -> int:
        """GPUs of one node."""
        ...

    @property
    def levels(self) -> int:
        """Bit f: some node has exactly f free GPUs."""
        ...

    @property
    def masks(self) -> list[int]:
        """Per free count, the nodes that have it."""
        ...


class FreeIndex:
    """Free GPUs of ``nodes`` nodes of ``capacity`` GPUs. Raises ``ValueError`` on any over- or under-subscription."""

    __slots__ = ("capacity", "free", "free_gpus", "levels", "masks", "nodes")

    def __init__(self, nodes: int, capacity: int) -> None:
        self.nodes = nodes
        self.capacity = capacity
        self.free = [capacity] * nodes
        self.masks = [0] * (capacity + 1)
        self.masks[capacity] = (1 << nodes) - 1
        self.levels = 1 << capacity
        self.free_gpus = nodes * capacity

    def take(self, shares: Shares) -> None:
        """Allocate; the caller has chosen ``shares`` on this very state."""
        free, masks = self.free, self.masks
        for node, gpus in shares:  # type: ignore[misc]  # pairs, on a plain pool
            old = free[node]
            new = old - gpus
            if new < 0:
                raise ValueError(f"node {node} has {old} free GPUs, {gpus} were asked for")
            free[node] = new
            bit = 1 << node
            left = masks[old] ^ bit
            masks[old] = left
            if not left:
                self.levels ^= 1 << old
            if not masks[new]:
                self.levels |= 1 << new
            masks[new] |= bit
            self.free_gpus -= gpus

    def give(self, shares: Shares) -> None:
        """Free what ``take`` allocated."""
        free, masks, capacity = self.free, self.masks, self.capacity
        for node, gpus in shares:  # type: ignore[misc]  # pairs, on a plain pool
            old = free[node]
            new = old + gpus
            if new > capacity:
                raise ValueError(f"node {node} of {capacity} GPUs has {old} free, {gpus} were given back")
            free[node] = new
            bit = 1 << node
            left = masks[old] ^ bit
            masks[old] = left
            if not left:
                self.levels ^= 1 << old
            if not masks[new]:
                self.levels |= 1 << new
            masks[new] |= bit
            self.free_gpus += gpus

    def spare_beside(self, shares: Shares) -> Spare:
        """What ``shares``, chosen on this state and not taken, would leave free on their nodes."""
        return {share[0]: self.free[share[0]] - share[1] for share in shares}

    @staticmethod
    def less(spare: Spare, shares: Shares) -> Spare:
        """What is left of ``spare`` when ``shares`` are taken too; the same object if they are on other nodes."""
        used = {share[0]: share[1] for share in shares if share[0] in spare}
        return {node: left - used.get(node, 0) for node, left in spare.items()} if used else spare

    def restricted(self, spares: Sequence[Spare]) -> RestrictedView:
        """This state with no more to be used than each of ``spares`` has on its nodes."""
        caps: dict[int, int] = {}
        for spare in spares:
            for node, left in spare.items():
                caps[node] = min(caps.get(node, left), left)
        return RestrictedView(self, caps)

    def confined(self, nodes: Collection[int]) -> RestrictedView:
        """This state with nothing to be used but on these nodes."""
        return RestrictedView(self, {node: 0 for node in range(self.nodes) if node not in nodes})

    def fragmented_nodes(self) -> int:
        """Nodes with some but not all GPUs allocated."""
        return self.nodes - self.masks[0].bit_count() - self.masks[self.capacity].bit_count()

    def copy(self) -> FreeIndex:
        """An independent copy, for trying things on."""
        other = FreeIndex.__new__(FreeIndex)
        other.nodes, other.capacity = self.nodes, self.capacity
        other.free, other.masks = self.free.copy(), self.masks.copy()
        other.levels, other.free_gpus = self.levels, self.free_gpus
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FreeIndex) and all(getattr(self, s) == getattr(other, s) for s in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class RestrictedView:
    """An index seen with some capacity withheld: ``caps[n]`` GPUs at most may be used on each node n named there."""

    __slots__ = ("capacity", "levels", "masks")

    def __init__(self, index: FreeIndex, caps: Mapping[int, int]) -> None:
        self.capacity = index.capacity
        masks = index.masks.copy()
        held = 0
        for node in caps:
            held |= 1 << node
        levels, rest = 0, index.levels
        while rest:
            low = rest & -rest
            level = low.bit_length() - 1
            masks[level] &= ~held
            if masks[level]:
                levels |= low
            rest ^= low
        for node, cap in caps.items():
            usable = min(cap, index.free[node])
            if usable > 0:
                masks[usable] |= 1 << node
                levels |= 1 << usable
        self.masks = masks
        self.levels = levels
