"""What is free on a pool described in detail: devices, NICs, CPUs, memory, disk, by node and by group; health.

Every node that may take work is in one *bucket*: with f free devices in bucket f if something runs on its GPUs, in
bucket ``capacity + f`` if nothing does. So buckets in ascending order are nodes from the fullest to the emptiest, those
free as a whole last. ``buckets[b, c]`` counts the nodes of cell c (see `PoolLayout`) in bucket b: whether a gang fits
which group is a small matrix product, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from schedmate.scheduler.cluster_types import DeviceShare, Health, Share, Shares, Spare
from schedmate.scheduler.devices import choose, choose_with_nics
from schedmate.scheduler.exits import Exits
from schedmate.scheduler.node_spares import NodeSpare, NodeSpares, columns_of, less_of
from schedmate.scheduler.outlook import Waste
from schedmate.scheduler.pool_layout import Ints, Part, PoolLayout
from schedmate.scheduler.shared_devices import Shared, choose_parts, give_part, take_part

HIDDEN = -1


class Faults(NamedTuple):
    """How many faults a node has had, older ones counting less; as of ``at_s``."""

    weight: float
    at_s: float

    def by(self, now: float, half_life_s: float) -> float:
        """What they count later."""
        return float(self.weight * 0.5 ** (max(0.0, now - self.at_s) / half_life_s))


class Condition(NamedTuple):
    """Nodes that are not healthy, masks of bad devices by node, and the faults that nodes have had."""

    health: Mapping[int, Health]
    bad: Mapping[int, int]
    faults: Mapping[int, Faults] = MappingProxyType({})


class PoolIndex:
    """Free resources of one pool. Raises ``ValueError`` on any over- or under-subscription.

    By node: ``free`` and ``used`` masks of devices (free: healthy and untouched), ``partial`` the shared devices,
    ``count`` free devices (0 where no work may go), ``bucket``; ``cpus_milli``, ``memory_mib``, ``disk_mib``,
    ``nics`` None where not described. By cell: ``cell_free`` free devices. ``exits`` are kept by the caller, if at all;
    so is ``waste``, what is expected of the jobs to come.
    """

    __slots__ = (
        "_left", "bad", "bucket", "buckets", "cell_free", "count", "cpus_milli", "disk_mib", "exits", "faults", "free",
        "free_gpus", "health", "layout", "memory_mib", "nic_count", "nics", "partial", "slivers", "totals", "used",
        "waste",
    )  # fmt: skip

    def __init__(self, layout: PoolLayout) -> None:
        nodes, capacity = layout.nodes, layout.capacity
        self.layout = layout
        self.free = layout.devices.copy()
        self.used = [0] * nodes
        self.partial: dict[int, Shared] = {}
        self.bad: dict[int, int] = {}
        self.health: dict[int, Health] = {}
        self.faults: dict[int, Faults] = {}
        self.slivers: set[int] = set()
        self.cpus_milli = None if layout.cpus_milli is None else layout.cpus_milli.copy()
        self.memory_mib = None if layout.memory_mib is None else layout.memory_mib.copy()
        self.disk_mib = None if layout.disk_mib is None else layout.disk_mib.copy()
        self.nics = [(1 << shape.nics) - 1 for shape in layout.shapes] if layout.has_nics else None
        self.nic_count: Ints | None = (
            np.array([shape.nics for shape in layout.shapes], dtype=np.int64) if layout.has_nics else None
        )
        self.exits = Exits(nodes)
        self.waste: Waste | None = None
        self._left: Ints | None = None
        self.count: Ints = np.array([mask.bit_count() for mask in self.free], dtype=np.int64)
        self.bucket: Ints = self.count + capacity
        self.buckets: Ints = np.zeros((2 * capacity + 1, len(layout.bounds)), dtype=np.int64)
        np.add.at(self.buckets, (self.bucket, np.array(layout.cell_of)), 1)
        self.totals: list[int] = self.buckets.sum(axis=1).tolist()
        self.cell_free: Ints = np.add.reduceat(self.count, layout.cells)
        self.free_gpus = int(self.count.sum())

    @classmethod
    def rebuilt(cls, layout: PoolLayout, running: Sequence[Shares], condition: Condition) -> PoolIndex:
        """The same state made anew from what runs and what is broken."""
        index = cls(layout)
        for shares in running:
            index.take(shares)
        index.set_condition(condition)
        return index

    @property
    def capacity(self) -> int:
        """GPUs of the largest node."""
        return self.layout.capacity

    @property
    def condition(self) -> Condition:
        """What is not healthy."""
        return Condition(self.health.copy(), self.bad.copy(), self.faults.copy())

    def take(self, shares: Shares) -> None:
        """Allocate; the caller has chosen ``shares`` on this very state."""
        for share in shares:
            if not isinstance(share, DeviceShare):
                raise ValueError(f"{share} does not name the devices")
            if share.milli:
                node = share.node
                shared, self.free[node] = take_part(
                    self.partial.get(node, ()), self.free[node], share, self.layout.device_memory_mib
                )
                self.partial[node] = shared
            elif share.devices & ~self.free[share.node] or share.devices.bit_count() != share.gpus:
                raise ValueError(f"node {share.node}: {share.gpus} of devices {share.devices:b} are not free")
            else:
                self.free[share.node] ^= share.devices
                self.used[share.node] |= share.devices
            self._move_amounts(share, -1)
            if self.nics is not None and share.nics:
                if share.nics & ~self.nics[share.node]:
                    raise ValueError(f"node {share.node}: NICs {share.nics:b} are not free")
                self._set_nics(share.node, self.nics[share.node] ^ share.nics)
            self._settle(share[0])

    def give(self, shares: Shares) -> None:
        """Free what ``take`` allocated."""
        for share in shares:
            self._give(share)
            self._settle(share[0])

    def give_many(self, many: Iterable[Shares]) -> None:
        """Free what many jobs have: every node is put where it belongs once, all in one go."""
        nodes = set()
        for shares in many:
            for share in shares:
                self._give(share)
                nodes.add(share[0])
        if nodes:
            self._settle_all(sorted(nodes))

    def _give(self, share: Share) -> None:
        if not isinstance(share, DeviceShare):
            raise ValueError(f"{share} does not name the devices")
        node = share.node
        if share.milli:
            shared, self.free[node] = give_part(
                self.partial.get(node, ()), self.free[node], share, self.bad.get(node, 0)
            )
            if shared:
                self.partial[node] = shared
            else:
                self.partial.pop(node, None)
        elif share.devices & ~self.used[node]:
            raise ValueError(f"node {node}: devices {share.devices:b} are given back but were not taken")
        else:
            self.used[node] ^= share.devices
            self.free[node] |= share.devices & ~self.bad.get(node, 0)
        self._move_amounts(share, 1)
        if self.nics is not None and share.nics:
            if share.nics & self.nics[node]:
                raise ValueError(f"node {node}: NICs {share.nics:b} are given back but were not taken")
            self._set_nics(node, self.nics[node] | share.nics)

    def share(self, node: int, part: Part, replicas: int, among: int = -1) -> tuple[DeviceShare, ...]:
        """The devices and NICs for ``replicas`` of ``part`` on a node that has room for them; devices are chosen
        ``among`` those of the mask."""
        if part.milli:
            layout, bad = self.layout, self.bad.get(node, 0)
            shared, whole_mib = self.partial.get(node, ()), layout.device_memory_mib
            amounts = (part.cpus_milli, part.memory_mib, part.disk_mib, part.role)
            return tuple(
                DeviceShare(node, 0, 1 << device, part.milli, part.device_memory_mib, part.sliced, 0, *amounts)
                for device in choose_parts(shared, self.free[node], bad, part, whole_mib, replicas, among)
            )
        gpus, nics = part.gpus * replicas, part.nics * replicas
        free, shape, chosen = self.free[node] & among, self.layout.shapes[node], 0
        if nics and self.nics is not None:
            devices, chosen = choose_with_nics(shape, free, gpus, self.nics[node], nics)
        else:
            devices = choose(shape, free, gpus) if gpus else 0
        return (
            DeviceShare(
                node, gpus, devices, 0, 0, 0, chosen, part.cpus_milli * replicas, part.memory_mib * replicas,
                part.disk_mib * replicas, part.role, replicas,
            ),
        )  # fmt: skip

    def confined(self, nodes: Collection[int]) -> PoolIndex:
        """A copy on which only these nodes take work."""
        view = self.copy()
        for node in range(self.layout.nodes):
            if node not in nodes:
                view.set_health(node, Health.CORDONED)
        return view

    def without(self, nodes: Collection[int]) -> PoolIndex:
        """A copy on which these nodes take no work."""
        view = self.copy()
        for node in nodes:
            view.set_health(node, Health.CORDONED)
        return view

    def note_fault(self, node: int, weight: float, now: float, half_life_s: float) -> None:
        """Something broke on a node, or points at it."""
        known = self.faults.get(node)
        self.faults[node] = Faults(weight + (known.by(now, half_life_s) if known else 0.0), now)

    def set_condition(self, condition: Condition) -> None:
        """Add what is not healthy."""
        self.faults |= condition.faults
        for node, health in condition.health.items():
            self.set_health(node, health)
        for node, devices in condition.bad.items():
            self.set_bad(node, devices)

    def set_health(self, node: int, health: Health) -> None:
        """Cordon, drain, lose or get back a node. What runs on a lost one is for the caller to end."""
        if health is Health.HEALTHY:
            self.health.pop(node, None)
        else:
            self.health[node] = health
        self._settle(node)

    def set_bad(self, node: int, devices: int) -> None:
        """Make exactly ``devices`` (a mask) the bad ones of a node; what runs on them is for the caller to end."""
        if devices & ~self.layout.devices[node]:
            raise ValueError(f"node {node} has no devices {devices:b}")
        if devices:
            self.bad[node] = devices
        else:
            self.bad.pop(node, None)
        shared = sum(1 << part.device for part in self.partial.get(node, ()))
        self.free[node] = self.layout.devices[node] & ~(self.used[node] | shared | devices)
        self._settle(node)

    @property
    def sliced_devices(self) -> bool:
        """Whether any device is cut into slices."""
        return any(part.sliced for parts in self.partial.values() for part in parts)

    def fragmented_nodes(self) -> int:
        """Nodes that may take work with some but not all of their GPUs allocated."""
        return sum(self.totals[1 : self.capacity]) + len(self.slivers)

    def spare_beside(self, shares: Shares, given: Iterable[DeviceShare] = ()) -> Spare:
        """What ``shares``, chosen on this state and not taken, would leave free on their nodes, were ``given`` given
        back before."""
        spare, taken = NodeSpares(), [share for share in shares if isinstance(share, DeviceShare)]
        nodes = [share.node for share in taken]
        amounts = zip(
            *(_amounts(each, nodes) for each in (self.cpus_milli, self.memory_mib, self.disk_mib)), strict=True
        )
        for share, (cpus_milli, memory_mib, disk_mib) in zip(taken, amounts, strict=True):
            node = share.node
            held = spare.get(node) or NodeSpare(0, 0, cpus_milli, memory_mib, disk_mib)
            spare[node] = NodeSpare(
                held.devices | share.devices, held.nics | share.nics, held.cpus_milli - share.cpus_milli,
                held.memory_mib - share.memory_mib, held.disk_mib - share.disk_mib,
            )  # fmt: skip
        for share in given:
            held = spare[share.node]
            spare[share.node] = held._replace(
                cpus_milli=held.cpus_milli + share.cpus_milli,
                memory_mib=held.memory_mib + share.memory_mib,
                disk_mib=held.disk_mib + share.disk_mib,
            )
        return spare

    @staticmethod
    def less(spare: Spare, shares: Shares) -> Spare:
        """What is left of ``spare`` when ``shares`` are taken too; the same object if they are on other nodes."""
        left = NodeSpares(spare)
        for share in shares:
            if share[0] in left and isinstance(share, DeviceShare):
                held = left[share.node]
                left[share.node] = NodeSpare(held.devices, held.nics, *less_of(held, share))
        return left if left != spare else spare

    def restricted(self, spares: Sequence[Spare]) -> PoolIndex:
        """A copy with no more to be used than each of ``spares`` has on its nodes."""
        view = self.copy()
        view.withhold(spares)
        return view

    def withhold(self, spares: Sequence[Spare]) -> None:
        """Leave no more to be used than each of ``spares`` has on its nodes: nothing can be given back afterwards."""
        for spare in spares:
            held = columns_of(spare)
            nodes = held[0]
            # Most devices are in use until the plan begins.
            for node in nodes[self.count[nodes] > 0].tolist() if not self.partial else nodes.tolist():
                self._withhold_devices(node, spare[node].devices)
            if self.nics is not None and self.nic_count is not None:
                for node in nodes[(held[1] != 0) & (self.nic_count[nodes] > 0)].tolist():
                    self._set_nics(node, self.nics[node] & ~spare[node].nics)
            for amounts, most in zip((self.cpus_milli, self.memory_mib, self.disk_mib), held[2:], strict=True):
                if amounts is not None:
                    # Of a claim's nodes less than nothing may be left while its victims are still there.
                    amounts[nodes] = np.minimum(amounts[nodes], np.maximum(most, 0))

    def follow(self, other: PoolIndex, nodes: Iterable[int], spares: Sequence[Spare]) -> None:
        """Make some nodes what they are on ``other`` with no more to be used there than each of ``spares`` has."""
        for node in nodes:
            self.free[node], self.used[node] = other.free[node], other.used[node]
            if node in other.partial:
                self.partial[node] = other.partial[node]
            else:
                self.partial.pop(node, None)
            if self.nics is not None and other.nics is not None:
                self._set_nics(node, other.nics[node])
            for mine, theirs in (
                (self.cpus_milli, other.cpus_milli), (self.memory_mib, other.memory_mib),
                (self.disk_mib, other.disk_mib),
            ):  # fmt: skip
                if mine is not None and theirs is not None:
                    mine[node] = theirs[node]
            self._settle(node)
            own = [NodeSpares({node: spare[node]}) for spare in spares if node in spare]
            if own:
                self.withhold(own)

    def _withhold_devices(self, node: int, devices: int) -> None:
        """Let devices count as used."""
        self.used[node] |= self.free[node] & devices
        self.free[node] &= ~devices
        if node in self.partial:
            self.partial[node] = tuple(
                part._replace(milli=0) if devices >> part.device & 1 else part for part in self.partial[node]
            )
        self._settle(node)

    def copy(self) -> PoolIndex:
        """An independent copy, for trying things on. Expected ends are those of the original."""
        other = PoolIndex.__new__(PoolIndex)
        other.layout, other.exits, other.free_gpus = self.layout, self.exits, self.free_gpus
        other.waste = self.waste
        other.free, other.used, other.totals = self.free.copy(), self.used.copy(), self.totals.copy()
        other.partial, other.bad, other.health = self.partial.copy(), self.bad.copy(), self.health.copy()
        other.faults = self.faults
        other.slivers = self.slivers.copy()
        other.count, other.bucket = self.count.copy(), self.bucket.copy()
        other.buckets, other.cell_free = self.buckets.copy(), self.cell_free.copy()
        other.nics = None if self.nics is None else self.nics.copy()
        other.cpus_milli, other.memory_mib = _copied(self.cpus_milli), _copied(self.memory_mib)
        other.disk_mib, other.nic_count, other._left = (
            _copied(self.disk_mib), _copied(self.nic_count), _copied(self._left),
        )  # fmt: skip
        return other

    def device_left(self) -> Ints:
        """Milli-GPU that may be taken of each device, 0 where none or no such device; shape (nodes, devices)."""
        if self._left is None:
            self._left = np.zeros((self.layout.nodes, self.capacity), dtype=np.int64)
            for node in range(self.layout.nodes):
                self._settle_left(node)
        return self._left

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PoolIndex) or self.layout.spec != other.layout.spec:
            return False
        for name in self.__slots__:
            if name not in ("layout", "_left", "exits", "waste"):
                mine, theirs = getattr(self, name), getattr(other, name)
                if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
                    if not np.array_equal(mine, theirs):
                        return False
                elif mine != theirs:
                    return False
        return np.array_equal(self.device_left(), other.device_left())

    __hash__ = None  # type: ignore[assignment]

    def _settle(self, node: int) -> None:
        """Put a node that has changed where it belongs."""
        free = self.free[node].bit_count()
        shared = self.partial.get(node)
        if node in self.health:
            new = HIDDEN
        elif self.used[node] or shared:
            new = free
        else:
            new = free + self.layout.capacity
        old, cell = int(self.bucket[node]), self.layout.cell_of[node]
        if new != old:
            if old != HIDDEN:
                self.buckets[old, cell] -= 1
                self.totals[old] -= 1
            if new != HIDDEN:
                self.buckets[new, cell] += 1
                self.totals[new] += 1
            self.bucket[node] = new
        change = (0 if new == HIDDEN else free) - int(self.count[node])
        if change:
            self.count[node] += change
            self.cell_free[cell] += change
            self.free_gpus += change
        if new == 0 and shared and any(part.milli for part in shared):
            self.slivers.add(node)
        else:
            self.slivers.discard(node)
        if self._left is not None:
            self._settle_left(node)

    def _settle_all(self, nodes: list[int]) -> None:
        """`_settle` for many nodes."""
        at = np.array(nodes)
        cell = self.layout.cell_of_node[at]
        free = np.array([self.free[node].bit_count() for node in nodes], dtype=np.int64)
        busy = np.array([bool(self.used[node]) or node in self.partial for node in nodes])
        hidden = np.array([node in self.health for node in nodes])
        new = np.where(hidden, HIDDEN, np.where(busy, free, free + self.layout.capacity))
        old = self.bucket[at]
        for sign, bucket in ((-1, old), (1, new)):
            shown = (bucket != HIDDEN) & (old != new)
            np.add.at(self.buckets, (bucket[shown], cell[shown]), sign)
            for each, count in enumerate(np.bincount(bucket[shown], minlength=len(self.totals)).tolist()):
                self.totals[each] += sign * count
        self.bucket[at] = new
        change = np.where(hidden, 0, free) - self.count[at]
        self.count[at] += change
        np.add.at(self.cell_free, cell, change)
        self.free_gpus += int(change.sum())
        for node in nodes:
            if node in self.partial or node in self.slivers:
                self._settle(node)
            elif self._left is not None:
                self._settle_left(node)

    def _settle_left(self, node: int) -> None:
        if self._left is None:
            return
        free = self.free[node]
        if node in self.health:
            free = 0
        elif node in self.partial:
            row, bad = self.layout.row_of(free).tolist(), self.bad.get(node, 0)
            for part in self.partial[node]:
                row[part.device] = 0 if bad >> part.device & 1 else part.milli
            self._left[node] = row
            return
        self._left[node] = self.layout.row_of(free)

    def _move_amounts(self, share: DeviceShare, sign: int) -> None:
        if not (share.cpus_milli or share.memory_mib or share.disk_mib):
            return
        layout, node = self.layout, share.node
        for name, amounts, most, moved in (
            ("milli-CPU", self.cpus_milli, layout.cpus_milli, share.cpus_milli),
            ("MiB memory", self.memory_mib, layout.memory_mib, share.memory_mib),
            ("MiB disk", self.disk_mib, layout.disk_mib, share.disk_mib),
        ):
            if moved and amounts is not None and most is not None:
                left = int(amounts[node]) + sign * moved
                if not 0 <= left <= most[node]:
                    raise ValueError(f"node {node}: {amounts[node]} {name} are free, {moved} were taken or given back")
                amounts[node] = left

    def _set_nics(self, node: int, mask: int) -> None:
        if self.nics is not None and self.nic_count is not None:
            self.nics[node] = mask
            self.nic_count[node] = mask.bit_count()


def _amounts(amounts: Ints | None, nodes: list[int]) -> list[int]:
    return [0] * len(nodes) if amounts is None else amounts[nodes].tolist()


def _copied(amounts: Ints | None) -> Ints | None:
    return None if amounts is None else amounts.copy()
