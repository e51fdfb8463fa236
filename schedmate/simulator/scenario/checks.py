"""Compares what happened with what a scenario expects. Every complaint says where, when, expected, got, and why."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from schedmate.scheduler import ClusterSpec, Decision, Placement, Scheduler
from schedmate.simulator.scenario import setup
from schedmate.simulator.scenario.player import Moment, Player
from schedmate.simulator.scenario.types import Expectation, Outcome, Planned, Scenario, Step, Where

_TOLERANCE_S = 1e-6
T = TypeVar("T")


def play(scenario: Scenario, watch: Callable[[Scheduler, float], None] = lambda scheduler, now: None) -> list[str]:
    """Play the scenario; returns what differs from what it expects, nothing if all is well."""
    complaints: list[str] = []
    player = Player(scenario, watch)

    def look(step: Step, moment: Moment) -> None:
        if step.expect is not None:
            where = f"{scenario.name}, at {moment.at_s:g} s: "
            complaints.extend(
                where + each for each in differences(player.scheduler.state.cluster.spec, step.expect, moment)
            )

    player.play(look)
    complaints.extend(f"{scenario.name}, at the end: {each}" for each in _outcome(scenario.outcome, player))
    return complaints


def differences(spec: ClusterSpec, expect: Expectation, moment: Moment) -> list[str]:
    """What differs after one cycle."""
    found: list[str] = []
    running = {name: d for name, d in moment.decisions.items() if d.placement is not None and d.verdict == "started"}
    waiting = {name: d for name, d in moment.decisions.items() if name not in running}
    if expect.running is not None:
        found += _states(expect.running, running, moment, "run")
        for name, where, decision in _matches(expect.running, running):
            found += _place(spec, name, where, decision.placement)
        found += _counts(expect.running, running, "run")
    if expect.waiting is not None:
        found += _states(expect.waiting, waiting, moment, "wait")
        for name, words, decision in _matches(expect.waiting, waiting):
            if words not in decision.reason:
                found.append(f"{name} waits, as expected, but not because it {words!r}: {decision.reason}")
    if expect.reserved is not None:
        reserved = {name: d for name, d in waiting.items() if _starts(d) != (None, None)}
        found += _states(expect.reserved, reserved, moment, "have a reservation")
        for name, planned, decision in _matches(expect.reserved, reserved):
            found += _planned(spec, name, planned, decision)
    for what, wanted, got in (
        ("started in this cycle", expect.started, moment.started),
        ("evicted", expect.evicted, moment.evicted),
    ):
        if wanted is not None and tuple(wanted) != got:
            found.append(f"{what} should be {_list(wanted)}, was {_list(got)}{_reasons((*wanted, *got), moment)}")
    if expect.told is not None and dict(expect.told) != moment.told:
        found.append(f"told to leave by {dict(expect.told)} should be, were {moment.told}")
    if expect.refused is not None:
        found += _refused(expect.refused, moment)
    for name, words in (expect.why or {}).items():
        reason = moment.decisions[name].reason if name in moment.decisions else "it is not there"
        if words not in reason:
            found.append(f"the reason given for {name} should hold {words!r}: {reason}")
    if expect.whole_free is not None:
        found += _whole_free(spec, expect.whole_free, running.values())
    return found


def _states(wanted: Mapping[str, object], got: Mapping[str, Decision], moment: Moment, what: str) -> list[str]:
    missing = [name for name in wanted if not any(fnmatchcase(each, name) for each in got)]
    extra = [name for name in got if not any(fnmatchcase(name, each) for each in wanted)]
    found = [f"{name} should {what}{_reasons((name,), moment)}" for name in missing]
    return found + [f"{name} should not {what}{_reasons((name,), moment)}" for name in extra]


def _matches(wanted: Mapping[str, T], got: Mapping[str, Decision]) -> Iterable[tuple[str, T, Decision]]:
    for name, each in wanted.items():
        for other, decision in got.items():
            if fnmatchcase(other, name):
                yield other, each, decision


def _counts(wanted: Mapping[str, Where], got: Mapping[str, Decision], what: str) -> list[str]:
    found = []
    for name, where in wanted.items():
        matching = sum(fnmatchcase(each, name) for each in got)
        if where.count is not None and matching != where.count:
            found.append(f"{where.count} of {name} should {what}, {matching} do")
    return found


def _place(spec: ClusterSpec, name: str, where: Where, placement: Placement | None) -> list[str]:
    if placement is None:
        return [f"{name} has no place"]
    pool = next(pool for pool in spec.pools if pool.name == placement.pool)
    nodes = sorted(set(placement.nodes))
    got: dict[str, object] = {
        "pool": placement.pool,
        "nodes": set(nodes),
        "node_count": len(nodes),
        "gpus": placement.gpus,
        "devices": setup.devices(placement),
        "islands": setup.islands(pool, placement),
        "nics": setup.nics(placement),
        "replicas": setup.replicas(placement),
    }
    found = []
    for what, value in got.items():
        wanted = getattr(where, what)
        if wanted is not None and wanted != value:
            found.append(
                f"{name} should run on {what} {_show(wanted)}, runs on {_show(value)} ({placement.pool} {nodes})"
            )
    for level, wanted in where.groups.items():
        starts = pool.topology.starts(level)
        touched = {bisect_right(starts, node) for node in nodes}
        if len(touched) != wanted:
            found.append(f"{name} should touch {wanted} {level} group(s), touches {len(touched)} ({pool.name} {nodes})")
    return found


def _planned(spec: ClusterSpec, name: str, planned: Planned, decision: Decision) -> list[str]:
    found = []
    expected_s, guaranteed_s = _starts(decision)
    for what, wanted, got in (
        ("expected", planned.expected_s, expected_s),
        ("guaranteed", planned.guaranteed_s, guaranteed_s),
    ):
        if wanted is not None and (got is None or abs(got - wanted) > _TOLERANCE_S):
            shown = "none" if got is None else f"{got:g} s"
            found.append(f"the {what} start of {name} should be {wanted:g} s, is {shown}: {decision.reason}")
    if planned.place != Where():
        found += _place(spec, name, planned.place, decision.placement)
    return found


def _starts(decision: Decision) -> tuple[float | None, float | None]:
    return decision.expected_start_s, decision.guaranteed_start_s


def _refused(wanted: Mapping[str, str], moment: Moment) -> list[str]:
    found = [f"{name} should be refused{_reasons((name,), moment)}" for name in wanted if name not in moment.refused]
    for name, reason in moment.refused.items():
        if name not in wanted:
            found.append(f"{name} should not be refused: {reason}")
        elif wanted[name] not in reason:
            found.append(f"{name} is refused, as expected, but not because it {wanted[name]!r}: {reason}")
    return found


def _whole_free(spec: ClusterSpec, wanted: Mapping[str, int], running: Iterable[Decision]) -> list[str]:
    """``{a100: 3}`` free nodes of a pool, ``{a100/leaf: 2}`` groups of a level without any job."""
    used: dict[str, set[int]] = {pool.name: set() for pool in spec.pools}
    for decision in running:
        if decision.placement is not None:
            used[decision.placement.pool].update(decision.placement.nodes)
    found = []
    for what, number in wanted.items():
        name, _, level = what.partition("/")
        pool = next(pool for pool in spec.pools if pool.name == name)
        starts = pool.topology.starts(level) if level else range(pool.nodes)
        touched = {bisect_right(starts, node) for node in used[name]}
        if len(starts) - len(touched) != number:
            kind = f"{level} groups" if level else "nodes"
            found.append(f"{number} whole {kind} of {name} should be free, {len(starts) - len(touched)} are")
    return found


def _outcome(wanted: Outcome, player: Player) -> list[str]:
    found = []
    tracks = player.tracks
    for name, at_s in wanted.starts.items():
        started = tracks[name].starts_s[:1] if name in tracks else []
        if not started or abs(started[0] - at_s) > _TOLERANCE_S:
            found.append(f"{name} should have started at {at_s:g} s, started at {started[0] if started else 'no time'}")
    for name, at_s in wanted.ends.items():
        end_s = tracks[name].end_s if name in tracks else None
        if end_s is None or abs(end_s - at_s) > _TOLERANCE_S:
            found.append(f"{name} should have ended at {at_s:g} s, ended at {end_s}")
    for name in wanted.never:
        for other, track in tracks.items():
            if fnmatchcase(other, name) and track.starts_s:
                found.append(f"{other} should never start, started at {track.starts_s[0]:g} s")
    if wanted.evictions is not None:
        got = {name: len(track.evictions_s) for name, track in tracks.items() if track.evictions_s}
        if got != wanted.evictions:
            found.append(f"evictions should be {dict(wanted.evictions)}, were {got}")
    return found


def _reasons(names: Iterable[str], moment: Moment) -> str:
    said = []
    for name in dict.fromkeys(names):
        if name in moment.refused:
            said.append(f"{name} was refused, {moment.refused[name]}")
        elif name in moment.decisions:
            decision = moment.decisions[name]
            place = f" on {decision.placement.pool} {list(decision.placement.nodes)}" if decision.placement else ""
            said.append(f"{name} {decision.verdict}{place}, {decision.reason}")
        else:
            said.append(f"{name} is not there")
    return f" (the scheduler says: {'; '.join(said)})" if said else ""


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "nobody"


def _show(value: object) -> str:
    return str(sorted(value)) if isinstance(value, set | frozenset) else str(value)
