"""What the jobs to come will leave of a node when none fits any more, judged by the jobs that came.

A node with so much CPU and so much GPU left takes jobs until no more fits; then GPU is *stranded* for want of CPU, and
devices that are shared end with a *remnant* too small for anyone. Both ends are expected values, solved backwards over
the demands seen so far, and kept as tables; a small job goes where it lets them grow least. (Fragmentation gradient
descent, Weng et al., ATC'23, counts what the next job could not use; here it is what is left in the end.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedmate.scheduler.cluster_types import WHOLE_MILLI
from schedmate.scheduler.demand import Demand
from schedmate.scheduler.pool_layout import Ints, Part, PoolLayout

Floats = NDArray[np.float64]

#: Demands that must have been seen before anything is concluded. Tables are made anew each time they have doubled, and
#: after `_LONGEST_LOOK` more at the latest.
FIRST_LOOK = 100
_LONGEST_LOOK = 10_000

#: Different demands that are counted apart; beyond it all counts are halved and those that vanish are forgotten.
_MOST_DEMANDS = 4096

#: Requests rarer than this share of the others are not waited for: the chance that no more comes, per job.
HAZARD = 0.005

#: Milli of expected waste that a free milli-GPU on the node weighs: enough to fill opened nodes before free ones.
PULL = 0.2 / 8

#: Costs of states of single nodes that are remembered.
_MOST_KNOWN = 1 << 16

#: Most kinds of requests kept, the most frequent ones.
_MOST_KINDS = 256
_CPU_STEPS = 256
_GPU_STEP_MILLI = 50
_DEVICE_STEP_MILLI = 10
_ROUND_MILLI = 1.0


class Request(NamedTuple):
    """What one replica asks of a node: milli-CPU, milli-GPU in all, and of each device."""

    cpus_milli: int
    gpu_milli: int
    device_milli: int


class Outlook:
    """The demands seen by a cluster, counted. ``revision`` changes when it is time to make tables anew, from
    ``settled``: the counts at that very time, so that it does not matter when somebody looks."""

    __slots__ = ("_next", "_seen", "counts", "revision", "settled")

    def __init__(self) -> None:
        self.counts: dict[Demand, int] = {}
        self.settled: Mapping[Demand, int] = {}
        self.revision = 0
        self._seen = 0
        self._next = FIRST_LOOK

    def observe(self, demand: Demand) -> None:
        """A job with this demand was submitted."""
        self.counts[demand] = self.counts.get(demand, 0) + 1
        self._seen += 1
        if self._seen >= self._next:
            self._next += min(self._next, _LONGEST_LOOK)
            self.revision += 1
            self.settled = self.counts.copy()
        if len(self.counts) > _MOST_DEMANDS:
            self.counts = {kept: count // 2 for kept, count in self.counts.items() if count > 1}

    def recall(self, other: Outlook) -> None:
        """Know what another one knows, and nothing else."""
        self.counts, self.settled = other.counts.copy(), other.settled
        self.revision, self._seen, self._next = other.revision, other._seen, other._next

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outlook) and (self.counts, self.settled, self._seen, self._next) == (
            other.counts, other.settled, other._seen, other._next,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]


class Waste:
    """Expected waste on the nodes of one pool, by the demands of ``outlook`` that may use it."""

    __slots__ = ("_cpu_step_milli", "_known", "_layout", "_outlook", "_remnants", "_revision", "_stranded")

    def __init__(self, layout: PoolLayout, outlook: Outlook) -> None:
        self._layout = layout
        self._outlook = outlook
        self._revision = 0
        most = 1 if layout.cpus_milli is None else int(layout.cpus_milli.max())
        self._cpu_step_milli = max(1, -(-most // (_CPU_STEPS - 1)))
        self._stranded: Floats = np.zeros((1, 1))
        self._remnants: Floats = np.zeros(1)
        self._known: dict[tuple[Part, int | None, tuple[int, ...]], float] = {}

    def ready(self) -> bool:
        """Whether enough was seen; brings the tables up to date."""
        if self._outlook.revision != self._revision:
            self._revision = self._outlook.revision
            requests = self._requests(self._outlook.settled)
            self._stranded = self._strandings(requests)
            self._remnants = _remnants(requests)
            self._known.clear()
        return self._revision > 0

    def cost(self, part: Part, cpus_milli: Ints | None, left: Ints) -> tuple[Floats, Ints]:
        """What one replica of ``part`` costs on each node, in milli-GPU of expected waste, and on which device it costs
        least (for a part of a device). ``cpus_milli`` (nodes,) is free, ``left`` (nodes, devices) milli of each.
        """
        free = left.sum(axis=1)
        cpu = np.zeros(len(free), dtype=np.int64) if cpus_milli is None else cpus_milli
        asked = part.milli or part.gpus * WHOLE_MILLI
        grown = self._stranding(cpu - part.cpus_milli, free - asked) - self._stranding(cpu, free)
        device = np.zeros(len(free), dtype=np.int64)
        if part.milli:
            after = left - part.milli
            steps = np.maximum(after, 0) // _DEVICE_STEP_MILLI
            change = np.where(after >= 0, self._remnants[steps] - self._remnants[left // _DEVICE_STEP_MILLI], np.inf)
            device = change.argmin(axis=1)
            grown = grown + change[np.arange(len(free)), device]
        cost: Floats = np.round((grown + PULL * free) / _ROUND_MILLI)
        return cost, device

    def cost_on(self, part: Part, cpus_milli: int | None, left: tuple[int, ...]) -> float:
        """`cost` on one node, remembered: many nodes are in the same state."""
        key = (part, cpus_milli, left)
        found = self._known.get(key)
        if found is None:
            cpu = None if cpus_milli is None else np.array([cpus_milli], dtype=np.int64)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = float(self.cost(part, cpu, np.array([left], dtype=np.int64))[0][0])
        return found

    def _stranding(self, cpus_milli: Ints, gpu_milli: Ints) -> Floats:
        table = self._stranded
        cpu = np.minimum(np.maximum(cpus_milli // self._cpu_step_milli, 0), len(table) - 1)
        exact = np.minimum(np.maximum(gpu_milli / _GPU_STEP_MILLI, 0), table.shape[1] - 1)
        low = exact.astype(np.int64)
        high = np.minimum(low + 1, table.shape[1] - 1)
        part = exact - low
        found: Floats = table[cpu, low] * (1 - part) + table[cpu, high] * part
        return found

    def _requests(self, counts: Mapping[Demand, int]) -> list[tuple[Request, float]]:
        """Requests with GPUs that may come to this pool, the most frequent ones, and how often they do."""
        found: dict[Request, float] = {}
        name = self._layout.spec.name
        for demand, count in counts.items():
            parts = self._layout.parts(demand) if not demand.gpu_types or name in demand.gpu_types else ()
            for part in parts if not isinstance(parts, str) else ():
                gpu_milli = part.milli or part.gpus * WHOLE_MILLI
                if gpu_milli:
                    request = Request(part.cpus_milli, gpu_milli, part.milli or WHOLE_MILLI)
                    found[request] = found.get(request, 0.0) + count * part.replicas
        most = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:_MOST_KINDS]
        total = float(sum(counts.values()))
        return [(request, count / total) for request, count in most]

    def _strandings(self, requests: list[tuple[Request, float]]) -> Floats:
        """Expected GPU milli left when nothing fits any more; shape (CPU steps, GPU steps).

        The end of a state is the mean of the ends after each request that fits, weighted by how often it comes, and,
        with the weight of the hazard, the state itself.
        """
        width = self._layout.capacity * WHOLE_MILLI // _GPU_STEP_MILLI + 1
        table = np.zeros((_CPU_STEPS, width))
        need = np.array([-(-r.cpus_milli // self._cpu_step_milli) for r, _ in requests], dtype=np.int64)
        asked = np.array([max(1, round(r.gpu_milli / _GPU_STEP_MILLI)) for r, _ in requests], dtype=np.int64)
        chance = np.array([frequency for _, frequency in requests])
        from_cpu = np.arange(_CPU_STEPS)[:, None] - need[None, :]
        weight = np.where(from_cpu >= 0, chance, 0.0)
        from_cpu = np.maximum(from_cpu, 0)
        for left in range(1, width):
            fits = np.flatnonzero(asked <= left)
            value = (weight[:, fits] * table[from_cpu[:, fits], left - asked[fits]]).sum(axis=1)
            table[:, left] = (value + HAZARD * left * _GPU_STEP_MILLI) / (weight[:, fits].sum(axis=1) + HAZARD)
        return table


def _remnants(requests: list[tuple[Request, float]]) -> Floats:
    """Expected milli left of one device when nothing fits it any more; shape (device steps,)."""
    table = np.zeros(WHOLE_MILLI // _DEVICE_STEP_MILLI + 1)
    single: dict[int, float] = {}
    for request, frequency in requests:
        if request.gpu_milli == request.device_milli:
            single[request.device_milli] = single.get(request.device_milli, 0.0) + frequency
    for step in range(1, len(table)):
        left_milli = step * _DEVICE_STEP_MILLI
        value, weight = HAZARD * left_milli, HAZARD
        for milli, frequency in single.items():
            if milli <= left_milli:
                value += frequency * table[(left_milli - milli) // _DEVICE_STEP_MILLI]
                weight += frequency
        table[step] = value / weight
    return table
