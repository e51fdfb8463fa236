"""What to sweep, read from YAML. Every key is explained in docs/sweep.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from prompts.errors import UserError
from schedmate.files import read_small
from schedmate.knowledge import check_estimates, uses_estimates
from schedmate.scheduler import POLICIES
from schedmate.simulator import Conditions, policy_named
from schedmate.simulator.asked import conditions_of
from schedmate.simulator.shake import SHAKE_S
from schedmate.yaml_once import load_once

_EXAMPLE = "write for example `trace: jobs.csv`, `nodes: 16`, `policies: [fifo, kant]`; docs/sweep.md has all keys"
_MOST_SEEDS = 1000
_EXPONENT = re.compile(r"\d+(\.\d+)?[eE][+-]?\d{1,3}")
_CONDITIONS = (
    "checkpoint", "restart", "size_classes", "cancellations", "failures", "faults", "requeues", "slowdown",
)  # fmt: skip
_OF_A_WORKLOAD = (
    "trace",
    "format",
    "columns",
    "time_unit",
    "delimiter",
    "timezone",
    "nodes",
    "gpus_per_node",
    "cluster",
    "note",
    "fewer_shakes",
    *_CONDITIONS,
)
_OF_A_GENERATED = ("generate", "note", "fewer_shakes", *_CONDITIONS)
_OF_ALL = ("workloads", "policies", "estimates", "loads", "shakes", "shake_s")


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated workload, one a seed, on the generator's own cluster."""

    jobs: int
    load: float


@dataclass(frozen=True, slots=True)
class Fewer:
    """Policies that have fewer replays than the others, and why."""

    replays: int
    policies: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace and the cluster it is replayed on, or a generator. ``options`` are those of the trace's reader;
    ``conditions`` were ``asked`` for in these words, which name ``files``."""

    name: str
    trace: Path | None = None
    format: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    nodes: int = 0
    gpus_per_node: int = 8
    cluster: Path | None = None
    generated: Generated | None = None
    note: str = ""
    conditions: Conditions = field(default_factory=Conditions)
    asked: tuple[tuple[str, str], ...] = ()
    files: tuple[Path, ...] = ()
    fewer: Fewer | None = None

    def seeds(self, policy: str, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """Those of a policy's replays, of the ones that are asked for; a generated workload has no seed 0."""
        own = tuple(max(1, seed) for seed in seeds) if self.generated is not None else seeds
        return own[: self.fewer.replays] if self.fewer is not None and policy in self.fewer.policies else own


@dataclass(frozen=True, slots=True)
class Spec:
    """``runs`` are (policy, estimates). ``seeds`` of the shakes; (0,), with ``shake_s`` 0, is the trace as it is."""

    workloads: tuple[Workload, ...]
    runs: tuple[tuple[str, str], ...]
    loads: tuple[float, ...]
    seeds: tuple[int, ...]
    shake_s: float


def read_spec(path: Path, data: Path | None = None) -> Spec:
    """Read ``path``; files named in it are beside it, or in ``data``. Raises `UserError` for what makes no sense."""
    try:
        found = load_once(read_small(path, _EXAMPLE))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}", _EXAMPLE) from None
    if not isinstance(found, Mapping):
        raise UserError(f"{path}: not a mapping", _EXAMPLE)
    try:
        return _spec(found, data or path.parent)
    except _Wrong as wrong:
        raise UserError(f"{path}: {wrong}", _EXAMPLE) from None
    except UserError as error:
        raise UserError(f"{path}: {error.what}", error.hint) from None


class _Wrong(Exception):  # noqa: N818  told as a UserError with the file's name
    pass


def _spec(found: Mapping[Any, Any], folder: Path) -> Spec:
    short = "workloads" not in found
    _known("the sweep", found, (*_OF_ALL, *_OF_A_WORKLOAD, "generate") if short else _OF_ALL)
    if short:
        name = Path(str(found.get("trace", "generated"))).name.partition(".")[0]
        entries = {name: {key: found[key] for key in (*_OF_A_WORKLOAD, "generate") if key in found}}
    else:
        entries = found["workloads"]
        if not isinstance(entries, Mapping) or not entries:
            raise _Wrong("workloads is not a mapping of names")
    shakes = _whole("shakes", found.get("shakes", 10), 0, _MOST_SEEDS)
    return Spec(
        tuple(_workload(str(name), entry, folder) for name, entry in entries.items()),
        _runs(found),
        tuple(_number("loads", each, 0.01, 100.0) for each in _list("loads", found.get("loads", [1.0]))),
        tuple(range(1, shakes + 1)) if shakes else (0,),
        _number("shake_s", found.get("shake_s", SHAKE_S), 0.0, 1e9) if shakes else 0.0,
    )


def _workload(name: str, entry: Any, folder: Path) -> Workload:
    where = f"workload {name}"
    if not isinstance(entry, Mapping):
        raise _Wrong(f"{where}: not a mapping")
    note = str(entry.get("note", ""))
    if "generate" in entry:
        _known(where, entry, _OF_A_GENERATED)
        asked = entry["generate"] or {}
        if not isinstance(asked, Mapping):
            raise _Wrong(f"{where}: generate is not a mapping")
        _known(f"{where}: generate", asked, ("jobs", "load"))
        generated = Generated(
            _whole(f"{where}: jobs", asked.get("jobs", 400), 1, 1_000_000),
            _number(f"{where}: load", asked.get("load", 0.95), 0.01, 100.0),
        )
        return _with_conditions(where, entry, folder, Workload(name, generated=generated, note=note))
    _known(where, entry, _OF_A_WORKLOAD)
    if "trace" not in entry:
        raise _Wrong(f"{where}: names no trace")
    if ("nodes" in entry) == ("cluster" in entry):
        raise _Wrong(f"{where}: how large is the cluster? give nodes or cluster, one of them")
    columns = entry.get("columns", {})
    if not isinstance(columns, Mapping):
        raise _Wrong(f"{where}: columns is not a mapping")
    options = {**columns, **{key: entry[key] for key in ("time_unit", "delimiter", "timezone") if key in entry}}
    workload = Workload(
        name,
        folder / str(entry["trace"]),
        str(entry["format"]) if "format" in entry else None,
        tuple(sorted((str(key), str(value)) for key, value in options.items())),
        _whole(f"{where}: nodes", entry["nodes"], 1, 1_000_000) if "nodes" in entry else 0,
        _whole(f"{where}: gpus_per_node", entry.get("gpus_per_node", 8), 1, 100_000),
        folder / str(entry["cluster"]) if "cluster" in entry else None,
        note=note,
    )
    return _with_conditions(where, entry, folder, workload)


def _with_conditions(where: str, entry: Mapping[Any, Any], folder: Path, workload: Workload) -> Workload:
    """The workload with what is played beside its jobs, and with which policies have fewer replays."""
    given = {key: entry[key] for key in _CONDITIONS if key in entry}
    for key in ("size_classes", "cancellations"):
        if not isinstance(given.get(key, False), bool):
            raise _Wrong(f"{where}: {key}: {given[key]!r} is not true or false")
    words = {key: str(given[key]) for key in ("checkpoint", "restart", "failures") if key in given}
    paths = {key: folder / str(given[key]) for key in ("faults", "slowdown") if key in given}
    conditions = conditions_of(
        checkpoint=words.get("checkpoint"),
        restart=words.get("restart"),
        size_classes=given.get("size_classes", False),
        cancellations=given.get("cancellations", False),
        failures=words.get("failures"),
        faults=paths.get("faults"),
        requeues=_whole(f"{where}: requeues", given["requeues"], 0, 1_000_000) if "requeues" in given else None,
        slowdown=paths.get("slowdown"),
        before=f"{where}: ",
    )
    asked = tuple(sorted((key, str(value)) for key, value in given.items()))
    files = tuple(path for key, path in paths.items() if (key, path.name) != ("slowdown", "usual"))
    fewer = _fewer(f"{where}: fewer_shakes", entry["fewer_shakes"]) if "fewer_shakes" in entry else None
    return replace(workload, conditions=conditions, asked=asked, files=files, fewer=fewer)


def _fewer(where: str, found: Any) -> Fewer:
    if not isinstance(found, Mapping):
        raise _Wrong(f"{where}: not a mapping")
    _known(where, found, ("replays", "policies", "why"))
    if not found.get("why"):
        raise _Wrong(f"{where}: does not say why")
    names = [policy_named(str(name)).name for name in _list(f"{where}: policies", found.get("policies"))]
    return Fewer(_whole(f"{where}: replays", found.get("replays"), 1, _MOST_SEEDS), tuple(names), str(found["why"]))


def _runs(found: Mapping[Any, Any]) -> tuple[tuple[str, str], ...]:
    """Policies x estimates. ``easy/perfect`` is that alone; a policy that does not use estimates has one run."""
    names = found.get("policies", "all")
    words = list(POLICIES) if names in ("all", ["all"]) else [str(each) for each in _list("policies", names)]
    every = [str(each) for each in _list("estimates", found.get("estimates", ["perfect"]))]
    runs: list[tuple[str, str]] = []
    for word in words:
        name, slash, own = word.partition("/")
        policy = policy_named(name)
        for estimates in [own] if slash else every if uses_estimates(policy) else every[:1]:
            check_estimates(estimates)
            runs.append((policy.name, estimates))
    return tuple(dict.fromkeys(runs))


def _known(where: str, found: Mapping[Any, Any], keys: tuple[str, ...]) -> None:
    unknown = [str(key) for key in found if key not in keys]
    if unknown:
        raise _Wrong(f"{where}: no such key: {', '.join(unknown)} (known: {', '.join(keys)})")


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _Wrong(f"{where} is not a list")
    return value


def _whole(where: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _Wrong(f"{where}: {value!r} is not a whole number from {least} to {most}")
    return value


def _number(where: str, value: Any, least: float, most: float) -> float:
    if isinstance(value, str) and _EXPONENT.fullmatch(value):  # to YAML, 1e9 is a word
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise _Wrong(f"{where}: {value!r} is not a number from {least:g} to {most:g}")
    return float(value)
