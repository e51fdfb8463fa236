"""Everything that changes the state of a scheduler, as data: what is submitted, ends, breaks, is changed by people, and
when a cycle runs.

The scheduler depends on nothing else, so the same events in the same order always lead to the same state and the same
decisions: a live daemon and the replay of its journal are the same thing. Jobs are known by their names, which are
unique among the jobs present; ``at_s`` is the caller's clock and never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedmate.scheduler.cluster_types import Health
from schedmate.scheduler.tenants import Tenant
from schedmate.scheduler.types import Hints, Job


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job comes."""

    at_s: float
    job: Job


@dataclass(frozen=True, slots=True)
class Ended:
    """A running job has ended, for whatever reason."""

    at_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A waiting job is taken back by its user."""

    at_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """An operator takes a running job off its GPUs; it waits again."""

    at_s: float
    job: str


@dataclass(frozen=True, slots=True)
class HintsChanged:
    """What is predicted about a job is no longer what it was."""

    at_s: float
    job: str
    hints: Hints | None = None


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node is cordoned, drained, lost, or comes back."""

    at_s: float
    pool: str
    node: int
    health: Health


@dataclass(frozen=True, slots=True)
class DeviceChanged:
    """A single GPU breaks, or is repaired."""

    at_s: float
    pool: str
    node: int
    device: int
    healthy: bool


@dataclass(frozen=True, slots=True)
class NodeSuspected:
    """Something points at a node: a job failed there in a way that the hardware may be to blame for."""

    at_s: float
    pool: str
    node: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TenantsChanged:
    """The tenant tree is another one from now on."""

    at_s: float
    tenants: tuple[Tenant, ...]


@dataclass(frozen=True, slots=True)
class CycleRan:
    """A scheduling cycle: what follows from all that came before is decided now."""

    at_s: float


Event = (
    Submitted | Ended | Withdrawn | Evicted | HintsChanged
    | NodeChanged | DeviceChanged | NodeSuspected | TenantsChanged | CycleRan
)  # fmt: skip

#: By the name that a journal uses.
KINDS: dict[str, type[Event]] = {
    "submitted": Submitted,
    "ended": Ended,
    "withdrawn": Withdrawn,
    "evicted": Evicted,
    "hints": HintsChanged,
    "node": NodeChanged,
    "gpu": DeviceChanged,
    "suspected": NodeSuspected,
    "tenants": TenantsChanged,
    "cycle": CycleRan,
}


@dataclass(frozen=True, slots=True)
class Effect:
    """What an event led to, by job name: started, taken off their GPUs to wait again, changed in size. A backend acts
    on this. Who was ``migrated`` is among both the evicted and the started."""

    started: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    resized: tuple[str, ...] = ()
    migrated: tuple[str, ...] = ()
