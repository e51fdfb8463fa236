"""Reads the jobs of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from prompts.errors import UserError
from schedmate.scheduler import Hints
from schedmate.scheduler.demand import Role
from schedmate.simulator.scenario import fields as f
from schedmate.simulator.scenario.types import ScenarioJob, Where

_Table = dict[str, tuple[str, Callable[[str, Any], Any]]]

_ROLE: _Table = {
    "replicas": ("replicas", f.count),
    "min_replicas": ("min_replicas", f.count),
    "gpus": ("gpus", f.count),
    "gpu": ("milli_gpu", f.milli),
    "slice": ("profile", f.text),
    "gpu_memory": ("gpu_memory_mib", f.mib),
    "nics": ("nics", f.count),
    "cpus": ("cpus_milli", f.milli),
    "memory": ("memory_mib", f.mib),
    "disk": ("disk_mib", f.mib),
}
_HINTS: _Table = {
    "expected": ("expected_s", f.seconds),
    "high": ("high_s", f.seconds),
    "confidence": ("confidence", lambda where, value: f.milli(where, value) / 1000),
    "gpu_memory": ("gpu_memory_mib", f.mib),
    "utilization": ("utilization", lambda where, value: f.milli(where, value) / 1000),
    "fails": ("failure_probability", lambda where, value: f.milli(where, value) / 1000),
    "fails_early": ("fails_early", lambda where, value: f.milli(where, value) / 1000),
    "early": ("early_s", f.seconds),
    "source": ("source", f.text),
}
_WHERE: _Table = {
    "pool": ("pool", f.text),
    "nodes": ("nodes", f.numbers),
    "node_count": ("node_count", f.count),
    "gpus": ("gpus", f.count),
    "devices": ("devices", f.numbers),
    "islands": ("islands", f.count),
    "nics": ("nics", f.count),
    "replicas": ("replicas", f.count),
    "count": ("count", f.count),
}
_LEVELS = ("hbd", "leaf", "spine", "superspine")


def hints(where: str, value: Any) -> Hints:
    """``{expected: 1h, high: 2h, confidence: 0.9, ...}``; ``high`` is ``expected`` where it is not given."""
    given = f.converted(where, f.mapping(where, value), _HINTS)
    expected_s = given.pop("expected_s", None)
    if expected_s is not None:
        given = {"expected_s": expected_s, "high_s": expected_s, **given}
    try:
        return Hints(**given)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: {error}", "") from None


def where_of(where: str, value: Any) -> Where:
    """``a100`` (a pool), ``[0, 1]`` or ``3`` (nodes), or a mapping; nothing at all is anywhere."""
    if value is None:
        return Where()
    if isinstance(value, str) and not value[:1].isdigit():
        return Where(pool=value)
    if not isinstance(value, dict):
        return Where(nodes=f.numbers(where, value))
    given = f.mapping(where, value)
    groups = {level: f.count(where, given[level]) for level in _LEVELS if level in given}
    rest = {key: each for key, each in given.items() if key not in groups}
    return Where(**f.converted(where, rest, _WHERE), groups=groups)


def jobs(where: str, value: Any) -> tuple[ScenarioJob, ...]:
    """``- train: {gpus: 16, runtime: 1h}`` or, shorter, ``- train: 16``; ``copies: 3`` makes train.1 to train.3."""
    found: list[ScenarioJob] = []
    for entry in f.sequence(where, value):
        if not isinstance(entry, dict) or len(entry) != 1:
            raise UserError(f"{where}: {entry!r} is not one job", "write `- name: {gpus: 8}`")
        ((name, asks),) = entry.items()
        found.extend(_copies(f"{where}: {name}", str(name), {"gpus": asks} if isinstance(asks, int) else asks))
    names = [job.name for job in found]
    if len(set(names)) != len(names):
        raise UserError(f"{where}: two jobs have one name", "names tell jobs apart")
    return tuple(found)


def _copies(where: str, name: str, asks: Any) -> list[ScenarioJob]:
    given = dict(f.mapping(where, asks))
    copies = given.pop("copies", None)
    names = [name] if copies is None else [f"{name}.{i + 1}" for i in range(f.count(where, copies))]
    runtime, on, since = given.pop("runtime", None), given.pop("place", None), given.pop("since", None)
    core = _asks(where, given)
    if core.get("kind") == "service" and "roles" in core:
        names, core = _replicas(names, core)
    return [
        ScenarioJob(
            each,
            core,
            None if runtime is None else f.seconds(f"{where}: runtime", runtime),
            None if on is None else where_of(f"{where}: place", on),
            0.0 if since is None else f.seconds(f"{where}: since", since),
        )
        for each in names
    ]


def _replicas(names: list[str], core: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Each replica of a service is a job of its own: ``web.1``, ``web.2``, ..."""
    (role,) = core["roles"]
    every = [f"{name}.{i + 1}" for name in names for i in range(role.replicas)]
    of_service = {"service": names[0], "least_replicas": role.min_replicas or 0}
    return every, {**core, **of_service, "roles": (replace(role, replicas=1, min_replicas=None),)}


def _roles(where: str, value: Any) -> tuple[Role, ...]:
    return tuple(_role(f"{where}: {name}", name, each) for name, each in f.mapping(where, value).items())


def _role(where: str, name: str, value: Any) -> Role:
    try:
        return Role(name, **f.converted(where, f.mapping(where, value), _ROLE))
    except ValueError as error:
        raise UserError(f"{where}: {error}", "") from None


def _labels(where: str, value: Any) -> frozenset[tuple[str, str]]:
    return frozenset((key, str(each)) for key, each in f.mapping(where, value).items())


def _words(where: str, value: Any) -> tuple[str, ...]:
    return tuple(f.text(where, each) for each in f.sequence(where, value))


_JOB: _Table = {
    "gpu_type": ("gpu_type", f.text),
    "gpu_types": ("gpu_types", _words),
    "tenant": ("tenant", f.text),
    "priority": ("priority", f.count),
    "kind": ("kind", f.text),
    "service": ("service", f.text),
    "least_replicas": ("least_replicas", f.count),
    "preemptible": ("preemptible", f.yes_no),
    "checkpoint": ("checkpoint_s", f.seconds),
    "grace": ("grace_s", f.seconds),
    "limit": ("limit_s", f.seconds),
    "estimate": ("estimate_s", f.seconds),
    "restart": ("restart_s", f.seconds),
    "min_run": ("min_run_s", f.seconds),
    "repairable": ("repairable", f.yes_no),
    "scaling": ("scaling", lambda where, value: f.milli(where, value) / 1000),
    "hint": ("hints", hints),
    "within": ("within", f.text),
    "prefer_within": ("prefer_within", f.text),
    "labels": ("selector", _labels),
    "tolerates": ("tolerations", lambda where, value: frozenset(_words(where, value))),
    "zone": ("zone", f.text),
    "spread": ("spread", f.yes_no),
    "heavy": ("heavy", f.yes_no),
    "shareable": ("shareable", f.yes_no),
}


def _asks(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The job's conditions, and its size: ``gpus`` alone, one role written flat, or ``roles``."""
    if "roles" in given and any(key in _ROLE for key in given):
        raise UserError(f"{where}: amounts belong into the roles", "")
    size = {key: each for key, each in given.items() if key in _ROLE}
    rest = {key: each for key, each in given.items() if key not in _ROLE and key != "roles"}
    f.known(where, rest, [*_JOB, *_ROLE, "roles", "copies", "runtime", "place", "since"])
    asks = f.converted(where, rest, _JOB)
    if "roles" in given:
        asks["roles"] = _roles(where, given["roles"])
    elif set(size) == {"gpus"}:
        asks["gpus"] = f.count(f"{where}: gpus", size["gpus"])
    else:
        asks["roles"] = (_role(where, "worker", size),)
    return asks
