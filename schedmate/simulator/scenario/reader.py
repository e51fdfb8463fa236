"""Reads scenario files. `docs/adding-a-scenario.md` describes the format.

``vary`` lists sets of values; each set makes one scenario, its ``$name`` replaced by the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from prompts.errors import UserError
from schedmate.simulator.scenario import fields as f
from schedmate.simulator.scenario import setup
from schedmate.simulator.scenario.jobs import jobs, where_of
from schedmate.simulator.scenario.types import Change, Expectation, Outcome, Planned, Scenario, Step

MAX_FILE_BYTES = 1 << 20
_TOP = ("about", "needs", "vary", "cluster", "tenants", "policy", "running", "queue", "expect", "events", "finally")
_STEP = ("at", "restart", "end", "evict", "submit", "expect", *setup.CHANGES)
_EXPECT = tuple(Expectation.__dataclass_fields__)
_OUTCOME = tuple(Outcome.__dataclass_fields__)


class _AnyValue(dict[str, str]):
    """Stands for every variation while only the head of a file is read."""

    def __missing__(self, key: str) -> str:
        return "1"


def variations(path: Path) -> dict[str, Mapping[str, Any]]:
    """The sets of values that the file is to be read with, by name; one empty set where it has none."""
    tree = _load(path, _AnyValue())
    found = {}
    for values in f.sequence(f"{path}: vary", tree.get("vary")) or [{}]:
        given = f.mapping(f"{path}: vary", values)
        found[", ".join(f"{key}={value}" for key, value in given.items())] = given
    return found


def needs(path: Path) -> tuple[str, ...]:
    """What the file says that the core must learn before it can pass."""
    return tuple(str(each) for each in f.sequence(f"{path}: needs", _load(path, _AnyValue()).get("needs")))


def read_scenario(path: Path, values: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario in a file, with these values for its variables. `UserError` names the file and the place."""
    tree = _load(path, {key: str(value) for key, value in (values or {}).items()})
    where = str(path)
    f.known(where, tree, _TOP)
    for key in ("about", "cluster", "policy"):
        if key not in tree:
            raise UserError(f"{where}: no {key!r}", f"known: {', '.join(_TOP)}")
    suffix = ", ".join(f"{key}={value}" for key, value in (values or {}).items())
    first = Step(
        0.0,
        submits=jobs(f"{where}: queue", tree.get("queue")),
        expect=_expectation(f"{where}: expect", tree["expect"]) if "expect" in tree else None,
    )
    later = [_step(f"{where}: event {i}", each) for i, each in enumerate(f.sequence(where, tree.get("events")), 1)]
    if any(a.at_s > b.at_s for a, b in zip([first, *later], later, strict=False)):
        raise UserError(f"{where}: the events are not in the order of time", "")
    return Scenario(
        f"{path.stem} ({suffix})" if suffix else path.stem,
        str(tree["about"]),
        setup.cluster(f"{where}: cluster", tree["cluster"]),
        setup.policy(f"{where}: policy", tree["policy"]),
        jobs(f"{where}: running", tree.get("running")),
        (first, *later),
        _outcome(f"{where}: finally", tree.get("finally")),
        setup.tenants(f"{where}: tenants", tree.get("tenants")),
    )


def _load(path: Path, values: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UserError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB", "")
        return f.mapping(str(path), yaml.safe_load(Template(data.decode("utf-8")).substitute(values)))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "give a scenario file") from None
    except KeyError as error:
        raise UserError(f"{path}: no value for ${error.args[0]}", "name it in every set under `vary`") from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise UserError(f"{path}{place}: not valid YAML", "") from None


def _step(where: str, value: Any) -> Step:
    given = f.mapping(where, value)
    f.known(where, given, _STEP)
    if "at" not in given:
        raise UserError(f"{where}: no 'at'", "say when, in seconds")
    changes: list[Change] = []
    for kind in setup.CHANGES:
        if kind in given:
            changes.extend(setup.changes(f"{where}: {kind}", kind, given[kind]))
    return Step(
        f.seconds(f"{where}: at", given["at"]),
        tuple(f.text(f"{where}: end", each) for each in f.sequence(where, given.get("end"))),
        tuple(f.text(f"{where}: evict", each) for each in f.sequence(where, given.get("evict"))),
        tuple(changes),
        jobs(f"{where}: submit", given.get("submit")),
        f.yes_no(f"{where}: restart", given.get("restart", False)),
        _expectation(f"{where}: expect", given["expect"]) if "expect" in given else None,
    )


def _expectation(where: str, value: Any) -> Expectation:
    given = f.mapping(where, value)
    f.known(where, given, _EXPECT)
    names: dict[str, Any] = {
        "running": where_of,
        "waiting": _words,
        "reserved": _planned,
        "refused": _words,
        "whole_free": f.count,
        "why": f.text,
        "told": f.seconds,
    }
    found: dict[str, Any] = {key: f.named(f"{where}: {key}", given[key], names[key]) for key in names if key in given}
    for key in ("started", "evicted"):
        if key in given:
            found[key] = tuple(f.text(where, each) for each in f.sequence(where, given[key]))
    return Expectation(**found)


def _words(where: str, value: Any) -> str:
    return "" if value is None else f.text(where, value)


def _planned(where: str, value: Any) -> Planned:
    """``100`` (the expected start) or ``{expected: 80, guaranteed: 100, place: [0, 1]}``."""
    if value is None:
        return Planned()
    if not isinstance(value, dict):
        return Planned(expected_s=f.seconds(where, value))
    f.known(where, value, ("expected", "guaranteed", "place"))
    times = {f"{key}_s": f.seconds(f"{where}: {key}", value[key]) for key in ("expected", "guaranteed") if key in value}
    return Planned(**times, place=where_of(f"{where}: place", value.get("place")))


def _outcome(where: str, value: Any) -> Outcome:
    given = f.mapping(where, value)
    f.known(where, given, _OUTCOME)
    evictions = given.get("evictions")
    return Outcome(
        {name: f.seconds(where, at) for name, at in f.mapping(where, given.get("starts")).items()},
        {name: f.seconds(where, at) for name, at in f.mapping(where, given.get("ends")).items()},
        tuple(f.text(where, each) for each in f.sequence(where, given.get("never"))),
        None if evictions is None else {k: f.count(where, v) for k, v in f.mapping(where, evictions).items()},
    )
