"""A scenario: a cluster, what runs and waits on it, what happens, and what the scheduler must do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schedmate.scheduler import ClusterSpec, Policy
from schedmate.scheduler.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Where:
    """What is said about the place of a job; None where nothing is said.

    ``nodes`` are numbers inside the pool, ``groups`` the number of groups touched per topology level, ``count`` how
    many jobs a name with a ``*`` must match, ``devices`` the numbers of the GPUs on the one node used.
    """

    pool: str | None = None
    nodes: frozenset[int] | None = None
    node_count: int | None = None
    gpus: int | None = None
    groups: Mapping[str, int] = field(default_factory=dict)
    devices: frozenset[int] | None = None
    islands: int | None = None
    nics: int | None = None
    replicas: int | None = None
    count: int | None = None


ANYWHERE = Where()


@dataclass(frozen=True, slots=True)
class ScenarioJob:
    """A job as a scenario names it. ``asks`` are the fields of the core's job by name, seconds and amounts converted.

    ``runtime_s`` is how long it really runs, None until an event ends it; ``place`` where a running one is put.
    """

    name: str
    asks: Mapping[str, Any]
    runtime_s: float | None = None
    place: Where | None = None
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Planned:
    """The reserved start of a waiting job; None where nothing is said, ``()`` for the place where any will do."""

    expected_s: float | None = None
    guaranteed_s: float | None = None
    place: Where = ANYWHERE


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold after a cycle. A field that is None is not looked at; a field that is given names *all* jobs that
    are in that state, so whoever is not named must not be. Names may hold ``*``."""

    running: Mapping[str, Where] | None = None
    waiting: Mapping[str, str] | None = None
    reserved: Mapping[str, Planned] | None = None
    started: tuple[str, ...] | None = None
    evicted: tuple[str, ...] | None = None
    refused: Mapping[str, str] | None = None
    whole_free: Mapping[str, int] | None = None
    why: Mapping[str, str] | None = None
    told: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens to the cluster or to a tenant: which kind, and of what."""

    kind: str
    what: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """At ``at_s``, in this order: the scheduler is restarted if so wished, jobs end or are evicted, things change, jobs
    are submitted; then comes one cycle, then the expectation."""

    at_s: float
    ends: tuple[str, ...] = ()
    evictions: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    submits: tuple[ScenarioJob, ...] = ()
    restart: bool = False
    expect: Expectation | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What must hold when everything is over: first starts and last ends in seconds, jobs that never started, how often
    jobs were evicted (all that were)."""

    starts: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, float] = field(default_factory=dict)
    never: tuple[str, ...] = ()
    evictions: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, one variation of it if it has several."""

    name: str
    about: str
    cluster: ClusterSpec
    policy: Policy
    running: tuple[ScenarioJob, ...]
    steps: tuple[Step, ...]
    outcome: Outcome
    tenants: tuple[Tenant, ...] = ()
