"""The journal: what is written is read back as it was, a crash at any byte loses at most the event that was being
written, and living through a journal leads to the very state and the very decisions of the live run."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Hints, Job, Quota, Role, Scheduler, Tenant
from schedmate.scheduler.cluster_types import Health, NodeShape, PoolSpec, Profile
from schedmate.scheduler.codec import from_json, to_json
from schedmate.scheduler.events import (
    CycleRan,
    DeviceChanged,
    Ended,
    Event,
    Evicted,
    HintsChanged,
    NodeChanged,
    NodeSuspected,
    Submitted,
    TenantsChanged,
    Withdrawn,
)  # fmt: skip
from schedmate.scheduler.journal import Header, Journal, Journaled, JournalError, event_of, line_of, read, replay
from schedmate.scheduler.topology import Topology


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


random_events = _beside("random_events")
POLICY_NAMES = sorted(random_events.policies())

SPEC = ClusterSpec(
    (
        PoolSpec.detailed(
            "a100",
            ((2, NodeShape(8, islands=2, nics=4, labels=frozenset({("rack", "a")}))), (2, NodeShape(4, zone="web"))),
            Topology.regular(4, {"leaf": 2}),
            gpu_memory_mib=40960,
            profiles=(Profile("small", 250, 10),),
        ),
        PoolSpec("v100", 3, 8, speed=0.5),
    )
)
TENANTS = (Tenant("lab", {"a100": Quota(8, borrow_limit=4)}, (Tenant("lab/x", weight=2.0),)), Tenant("web"))
HEADER = Header(SPEC, replace(POLICIES["core"], resize_every_s=5.0), TENANTS)

EVENTS: tuple[Event, ...] = (
    Submitted(0.0, Job("a", 8, 0.0, limit_s=100, hints=Hints(50.0, 80.0), tenant="lab/x", preemptible=True)),
    Submitted(0.5, Job("b\u2028\n", 4, 0.5, gpu_types=("a100", "v100"), priority=2)),
    Submitted(
        1, Job("c", 8, 1, demand=Demand.of((Role("w", 4, gpus=2, min_replicas=1),), level="leaf", required=True))
    ),
    Submitted(1, Job("d", 0, 1, demand=Demand.of((Role("w", profile="small"),), level="leaf", required=True))),
    CycleRan(2.0),
    NodeChanged(3.0, "a100", 3, Health.DRAINING),
    DeviceChanged(3.5, "a100", 0, 5, healthy=False),
    NodeSuspected(3.5, "a100", 1, 0.5),
    CycleRan(3.5),
    HintsChanged(4.0, "a", Hints(90.0, 95.0)),
    HintsChanged(4.0, "b\u2028\n"),
    Evicted(5.0, "a"),
    Withdrawn(5.0, "a"),
    TenantsChanged(6.0, (*TENANTS, Tenant("new", isolated=True))),
    Ended(7.0, "b\u2028\n"),
    CycleRan(8.0),
)


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_read_back_as_it_was_written(event: Event) -> None:
    line = line_of(event)
    assert "\n" not in line
    assert event_of(line) == event
    assert line_of(event_of(line)) == line


def test_a_header_is_read_back_as_it_was_written() -> None:
    for policy in (*POLICIES.values(), *random_events.policies().values()):
        header = replace(HEADER, policy=policy)
        assert from_json(Header, json.loads(json.dumps(to_json(header))), "header") == header
    with pytest.raises(TypeError, match="can not be written"):
        to_json(replace(HEADER, policy=replace(POLICIES["core"], order=lambda job, gpus: 0.0)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not an object"),
        ('{"at_s": 1}', "no event that is known"),
        ('{"event": "cycle"}', "at_s"),
        ('{"event": "cycle", "at_s": "soon"}', "at_s: 'soon' is not a number"),
        ('{"event": "cycle", "at_s": true}', "is not a number"),
        ('{"event": "cycle", "at_s": NaN}', "is not a number"),
        ('{"event": "cycle", "at_s": 1, "x": 2}', "CycleRan has no 'x'"),
        ('{"event": "ended", "at_s": 1, "job": 7}', "job: 7 is not a str"),
        ('{"event": "node", "at_s": 1, "pool": "p", "node": 0, "health": "SICK"}', "none of HEALTHY"),
        ('{"event": "node", "at_s": 1, "pool": "p", "node": 1.5, "health": "DOWN"}', "node: 1.5 is not a int"),
        ('{"event": "submitted", "at_s": 1, "job": {"job_id": "a", "gpus": 0, "submit_s": 0}}', "asks for 0 GPUs"),
        ('{"event": "tenants", "at_s": 1, "tenants": {}}', "is not a list"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(line: str, words: str) -> None:
    with pytest.raises(JournalError, match="line") as caught:
        event_of(line)
    assert words in str(caught.value)


def live(path: Path, events: tuple[Event, ...] = EVENTS, header: Header = HEADER) -> Journaled:
    journaled = Journaled(Journal(path, header))
    for event in events:
        journaled.apply(event)
    journaled.journal.close()
    return journaled


def same(one: Scheduler, other: Scheduler) -> None:
    """Everything that the two hold and say is equal."""
    assert one.state.cluster == other.state.cluster
    mine, theirs = one.state.table, other.state.table
    for name in ("jobs", "shares", "starts_s", "live", "entries", "assumed", "done_s", "evictions", "phases", "free"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert one.state.reservations == other.state.reservations
    assert one.wake_s == other.wake_s
    for slot, job in enumerate(mine.jobs):
        if job is not None:
            assert one.decision(slot) == other.decision(slot)


def test_a_journal_brings_back_the_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = live(path)
    again = Journaled(Journal(path, HEADER))
    assert again.journal.events == EVENTS
    same(first.scheduler, again.scheduler)
    more = Submitted(9.0, Job("e", 8, 9.0))
    assert first.scheduler.apply(more) == again.apply(more)
    assert first.scheduler.apply(CycleRan(9.0)) == again.apply(CycleRan(9.0))
    same(first.scheduler, again.scheduler)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1 + len(EVENTS) + 2


def test_a_journal_cut_at_any_byte_goes_on_from_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    live(path)
    data = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(0, len(data) + 1, 7):
        path.write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        journal = Journal(path, HEADER)
        assert journal.events == EVENTS[: max(0, whole - 1)]
        for event in EVENTS[max(0, whole - 1) :]:
            journal.write(event)
        journal.close()
        assert path.read_bytes() == data


def test_a_journal_of_another_scheduler_or_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    live(path)
    with pytest.raises(JournalError, match="of another cluster"):
        Journal(path, replace(HEADER, tenants=()))
    data = path.read_text(encoding="utf-8")
    for text, words in (
        ("hello\n", "not JSON"),
        ("hello", "not a journal"),
        ("{}\n", "not a journal"),
        (data.replace('{"journal":1', '{"journal":2'), "version 2, this reads version 1"),
        (data.replace('"event":"cycle"', '"event":"circle"', 1), "line 6"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(JournalError, match=words):
            Journal(path, HEADER)
        assert path.read_text(encoding="utf-8") == text, "and it was left alone"
    with pytest.raises(JournalError, match="not text at byte"):
        read(b"\xff\n", "x")


def test_what_the_scheduler_refuses_is_refused_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journaled = live(path)
    for event, words in (
        (Submitted(9.0, Job("huge", 800, 9.0)), "huge"),
        (Submitted(9.0, Job("c", 1, 9.0)), "there is a job c already"),
        (Ended(9.0, "nobody"), "no job nobody"),
        (CycleRan(1.0), "an event at 1.0 s after one at 8.0 s"),
        (NodeChanged(9.0, "a100", 77, Health.DOWN), "no node 77"),
        (NodeChanged(9.0, "h100", 0, Health.DOWN), "no pool h100"),
        (TenantsChanged(9.0, (Tenant("web", {"h100": Quota(1)}),)), "which no pool has"),
    ):
        with pytest.raises(ValueError, match=words):
            Journaled(Journal(path, HEADER)).apply(event)
    journaled = Journaled(Journal(path, HEADER))
    assert journaled.scheduler.apply(CycleRan(9.0)) is not None


def recorded(policy: str, seed: int, events: int) -> tuple[Header, list[Event], list[Any]]:
    """A random run with all that happened in it, and what each cycle decided."""
    draw = random_events.Seeded(seed)
    spec, chosen = random_events.cluster(draw), random_events.policies()[policy]
    full = chosen.reservations is not None
    tenants = random_events.tenants(draw, spec) if full else ()
    header = Header(spec, chosen, tenants)
    scheduler, done, effects, number = header.scheduler(), list[Event](), list[Any](), 0
    now = 0.0
    while len(done) < events:
        waits, runs = [], []
        table = scheduler.state.table
        for slot, job in enumerate(table.jobs):
            if job is not None:
                (waits if table.shares[slot] is None else runs).append(job.job_id)
        kind, event = draw.number(0, 13), None
        if kind <= 4:
            asks = random_events.job(draw, spec, full, tenants)
            asks.pop("runtime_s")
            event, number = Submitted(now, Job(f"j{number}", submit_s=now, **asks)), number + 1
        elif kind <= 6 and runs:
            event = Ended(now, draw.one_of(runs))
        elif kind == 7 and waits:
            event = Withdrawn(now, draw.one_of(waits))
        elif kind == 8 and runs and full:
            event = Evicted(now, draw.one_of(runs))
        elif kind == 9 and waits + runs:
            high_s = float(draw.number(0, 20))
            event = HintsChanged(now, draw.one_of(waits + runs), Hints(high_s / 2, high_s))
        elif kind == 10:
            pool = draw.one_of(spec.pools)
            event = NodeChanged(now, pool.name, draw.number(0, pool.nodes - 1), draw.one_of(Health))
        elif kind == 11 and not tenants:
            pool = draw.one_of(spec.pools)
            event = NodeSuspected(now, pool.name, draw.number(0, pool.nodes - 1), float(draw.number(1, 2)))
        elif kind == 11 and tenants:
            event = TenantsChanged(now, random_events.tenants(draw, spec) or tenants)
        elif kind == 12:
            now += draw.number(0, 5)
        event = event or CycleRan(now)
        done.append(event)
        effects += replay(scheduler, [event])
    return header, done, [*effects, scheduler]


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_a_replay_decides_what_was_decided_live(policy: str, tmp_path: Path) -> None:
    started = 0
    for seed in range(4):
        header, events, effects = recorded(policy, seed, 80)
        path = tmp_path / f"{seed}"
        journal = Journal(path, header)
        for event in events:
            journal.write(event)
        journal.close()
        again = Journal(path, header)
        scheduler = header.scheduler()
        assert list(replay(scheduler, again.events)) == effects[:-1]
        same(effects[-1], scheduler)
        started += sum(len(effect.started) for effect in effects[:-1] if effect)
    assert started > 10, "and something was decided"


@settings(max_examples=20, deadline=None, derandomize=True)
@given(policy=st.sampled_from(POLICY_NAMES), seed=st.integers(0, 1000), cut=st.floats(0, 1))
def test_a_crash_at_any_moment_changes_no_decision(policy: str, seed: int, cut: float) -> None:
    """The journal is cut, read back, and gone on with: all decisions are those of the run without a crash."""
    header, events, effects = recorded(policy, seed, 40)
    data = "".join(line_of(event) + "\n" for event in events).encode()
    head = (json.dumps({"journal": 1, **to_json(header)}) + "\n").encode()
    found = read(head + data[: int(cut * len(data))], "journal")
    assert found is not None
    kept = found[1]
    assert kept == tuple(events[: len(kept)])
    scheduler = found[0].scheduler()
    assert list(replay(scheduler, [*kept, *events[len(kept) :]])) == effects[:-1]
    same(effects[-1], scheduler)


class _FullDisk:
    """A file on a disk that takes only so many bytes more, as the operating system writes to it."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: bytes) -> int:
        written: int = self._file.write(data[: self._room])
        self._room -= written
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_half_a_line_on_a_full_disk_is_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, header = tmp_path / "journal", Header(SPEC, POLICIES["core"])
    journal = Journal(path, header)
    journal.write(CycleRan(1.0))
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_file", _FullDisk(journal._file, 10))
        with pytest.raises(OSError, match="only 10 of"):
            journal.write(CycleRan(2.0))
    journal.write(CycleRan(3.0))
    journal.close()
    assert Journal(path, header).events == (CycleRan(1.0), CycleRan(3.0))


def test_one_scheduler_a_journal(tmp_path: Path) -> None:
    path, header = tmp_path / "journal", Header(SPEC, POLICIES["core"])
    journal = Journal(path, header)
    journal.write(CycleRan(1.0))
    before = path.read_bytes()
    with pytest.raises(JournalError, match="another scheduler has it open"):
        Journal(path, header)
    assert path.read_bytes() == before
    journal.close()
    assert Journal(path, header).events == (CycleRan(1.0),)


@pytest.mark.parametrize(
    "line",
    [
        '{"event":"cycle","at_s":1' + "0" * 400 + "}",
        '{"event":"tenants","at_s":1,"tenants":[' + '{"name":"t","children":[' * 300 + "]}" * 300 + "]}",
    ],
    ids=["a number that no float can hold", "tenants without end"],
)
def test_lines_that_are_too_much(line: str) -> None:
    with pytest.raises(JournalError):
        event_of(line)


def test_an_event_that_can_not_be_does_not_stop_a_journal(tmp_path: Path) -> None:
    path, header = tmp_path / "journal", Header(ClusterSpec.uniform(1), POLICIES["core"])
    live = Journaled(Journal(path, header))
    for name in ("runs", "waits"):
        live.apply(Submitted(0.0, Job(name, 8, 0.0)))
    live.apply(CycleRan(0.0))
    with pytest.raises(ValueError, match="not running"):
        live.apply(Evicted(1.0, "waits"))
    live.apply(Ended(2.0, "runs"))
    live.journal.close()
    again = Journaled(Journal(path, header))
    assert again.apply(CycleRan(2.0)).started == ("waits",)
