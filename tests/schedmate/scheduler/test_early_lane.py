"""The early-failure lane: who is tried, what it costs an owner, and what becomes of jobs that do not fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Demand, Hints, Job, Role, Scheduler
from schedmate.scheduler.codec import from_json, to_json
from schedmate.scheduler.early_lane import COMES_TRUE, Early, EarlyLane
from schedmate.scheduler.events import CycleRan, Ended, Event, HintsChanged, Submitted
from schedmate.scheduler.journal import event_of, line_of, replay
from schedmate.scheduler.policies import Policy
from schedmate.simulator import policy_named

CORE = POLICIES["core"].with_early()


def suspect(name: str = "suspect", fails_early: float = 0.5, gpus: int = 8, **more: Any) -> Job:
    hints = Hints(2000.0, 8000.0, "predictor", fails_early=fails_early)
    return Job(name, gpus, **{"submit_s": 0.0, "limit_s": 8000.0, "preemptible": True, "hints": hints, **more})


def short(name: str = "short", **more: Any) -> Job:
    return Job(name, 8, **{"submit_s": 0.0, "limit_s": 1000.0, **more})


def one_node(policy: Policy = CORE) -> Scheduler:
    return Scheduler(ClusterSpec.uniform(1, 8), policy)


def test_only_who_may_be_put_back_and_gains_by_it_is_tried() -> None:
    lane = EarlyLane(Early())
    tried = lane.as_tried(suspect())
    assert tried is not None
    assert tried.hints is not None
    assert tried.hints.expected_s == 600.0, "of two probes of 300 s each one finds a failure"
    demand = Demand.of((Role("worker", 4, gpus=2, min_replicas=1),))
    for other in (
        suspect(fails_early=0.19),
        suspect(preemptible=False),
        suspect(kind="interactive"),
        suspect(gpus=demand.gpus, demand=demand),
        suspect(min_run_s=1500.0),
        suspect(hints=Hints(500.0, 600.0, fails_early=0.5)),
        suspect(hints=None),
    ):
        assert lane.as_tried(other) is None
    assert lane.as_tried(suspect(hints=Hints(fails_early=0.5))) is not None, "its limit is all that is known"


def test_a_policy_needs_the_queue_layer_and_hints() -> None:
    assert policy_named("core+early+gate") == POLICIES["core"].with_early().with_gate()
    assert POLICIES["core"].with_gate().with_early().name == "core+early+gate"
    for name in ("easy", "kant", "conservative"):
        with pytest.raises(ValueError, match="can not try jobs early"):
            POLICIES[name].with_early()
    for wrong in ({"least": 0.0}, {"credit": 9.0}, {"earned": 2.0}):
        with pytest.raises(ValueError, match=r"chance|credit"):
            Early(**wrong)
    assert from_json(Policy, to_json(CORE), "policy") == CORE


def test_without_a_word_of_it_nothing_changes() -> None:
    jobs = [suspect(fails_early=0.0), short()]
    with_lane, without = one_node(), one_node(POLICIES["core"])
    for scheduler in (with_lane, without):
        for job in jobs:
            scheduler.submit(job)
    assert with_lane.cycle(0.0) == without.cycle(0.0) == [1]


def test_a_probe_gives_way_and_is_then_a_job_like_any_other() -> None:
    scheduler = one_node()
    first, other = scheduler.submit(suspect(checkpoint_s=100.0)), scheduler.submit(short())
    assert scheduler.cycle(0.0) == [first]
    assert scheduler.wake_s == 300.0
    assert scheduler.cycle(299.0) == []
    assert scheduler.cycle(300.0) == [other]
    assert scheduler.put_back == scheduler.evicted == (first,)
    assert scheduler.state.table.done_s[first] == 300.0, "what it had saved is kept"
    assert scheduler.cycle(301.0) == []
    assert scheduler.put_back == ()
    scheduler.end(other, 1300.0)
    late = scheduler.submit(short("late", submit_s=1300.0))
    assert scheduler.cycle(1300.0) == [late], "it stands where it does without the lane"
    scheduler.end(late, 1400.0)
    assert scheduler.cycle(1400.0) == [first]
    scheduler.submit(short("later", submit_s=1500.0))
    for now in (1500.0, 1700.0, 2000.0):
        assert scheduler.cycle(now) == [], "nobody is tried twice"


def test_several_probes_make_room_together_and_no_more_than_it_takes() -> None:
    scheduler = one_node()
    probes = [scheduler.submit(suspect(f"p{i}", gpus=2)) for i in range(4)]
    assert scheduler.cycle(0.0) == probes
    wide = scheduler.submit(Job("wide", 4, 10.0, limit_s=100.0))
    assert scheduler.cycle(10.0) == []
    assert scheduler.cycle(300.0) == [wide]
    assert len(scheduler.put_back) == 2
    assert scheduler.cycle(600.0) == [], "the others went on, and are no probes any more"
    assert scheduler.wake_s > 7000.0


def test_an_owner_pays_for_what_does_not_come_true() -> None:
    scheduler = one_node(replace(CORE, early=Early(credit=1.0, earned=0.0)))
    early = scheduler.state.early
    assert early is not None
    now, tried = 0.0, 0
    for i in range(6):
        one = scheduler.submit(suspect(f"s{i}", fails_early=1.0, submit_s=now, account="liar"))
        other = scheduler.submit(short(f"o{i}", submit_s=now, account="other"))
        began = scheduler.cycle(now)
        tried += began == [one]
        if began == [one]:
            assert scheduler.cycle(now + 300.0) == [other]
        now += 2000.0
        scheduler.end(other, now)
        assert scheduler.cycle(now) == [one]
        now += 9000.0
        scheduler.end(one, now)
        scheduler.cycle(now)
    assert tried == 2, "half of what is claimed has to come true"
    assert early.credit == {"liar": 0.0}
    honest, behind = scheduler.submit(suspect("h", submit_s=now, account="honest")), scheduler.submit(short("b"))
    assert scheduler.cycle(now) == [honest]
    scheduler.end(honest, now + 10.0)
    assert early.credit["honest"] == 1.0 - COMES_TRUE * 0.5 + 1.0
    assert scheduler.cycle(now + 10.0) == [behind]


def test_what_was_not_tried_to_an_end_costs_nothing() -> None:
    scheduler = one_node()
    early = scheduler.state.early
    assert early is not None
    running = scheduler.submit(suspect("a", account="ann"))
    waiting = scheduler.submit(suspect("b", account="ann"))
    scheduler.cycle(0.0)
    assert early.credit["ann"] < Early().credit
    scheduler.withdraw(waiting)
    scheduler.evict(running, 100.0)
    assert scheduler.cycle(100.0) == [running], "an eviction for another reason: it goes first, and is no probe"
    scheduler.end(running, 7000.0)
    assert early.credit["ann"] == pytest.approx(Early().credit + Early().earned)


def test_other_hints_bring_a_waiting_job_into_the_lane_and_out_of_it() -> None:
    scheduler = one_node()
    running, other = scheduler.submit(short("running", limit_s=100.0)), scheduler.submit(short())
    assert scheduler.cycle(0.0) == [running]
    slot = scheduler.submit(suspect(fails_early=0.0))
    scheduler.update_hints(slot, Hints(2000.0, 8000.0, fails_early=1.0), 1.0)
    scheduler.update_hints(slot, Hints(2000.0, 8000.0, fails_early=0.0), 2.0)
    assert scheduler.state.early is not None
    assert scheduler.state.early.credit[""] == Early().credit
    scheduler.update_hints(slot, Hints(2000.0, 8000.0, fails_early=1.0), 3.0)
    scheduler.end(running, 4.0)
    assert scheduler.cycle(4.0) == [slot]
    assert scheduler.cycle(304.0) == [other]


def test_a_journal_brings_the_lane_back() -> None:
    jobs = [suspect(f"s{i}", account="ann", fails_early=0.4 + 0.1 * i) for i in range(3)] + [short()]
    events: list[Event] = [*(Submitted(0.0, job) for job in jobs), CycleRan(0.0), Ended(50.0, "s2"), CycleRan(50.0)]
    events += [CycleRan(350.0), HintsChanged(360.0, "s0", Hints(fails_early=0.3)), CycleRan(360.0)]
    live = one_node()
    effects = list(replay(live, events))
    assert live.state.table.evictions.count(1) == 1
    again, written = one_node(), [event_of(line_of(event)) for event in events]
    assert list(replay(again, written)) == effects
    assert again.state.early is not None
    assert live.state.early is not None
    assert again.state.early.credit == live.state.early.credit
    assert again.wake_s == live.wake_s
    assert again.cycle(700.0) == live.cycle(700.0)


@given(
    st.lists(st.tuples(st.sampled_from((0.2, 0.5, 1.0)), st.sampled_from(("over", "in_vain", "leave"))), max_size=200),
    st.floats(0.0, 4.0),
)
def test_what_a_liar_costs_is_bounded(claims: list[tuple[float, str]], credit: float) -> None:
    """Whatever is claimed and comes of it: of what was claimed half came true, but for what there was to begin with."""
    lane = EarlyLane(Early(credit=credit, earned=0.0))
    in_vain, over = 0.0, 0
    for slot, (chance, became) in enumerate(claims):
        lane.enter(slot, suspect(fails_early=chance, account="x"))
        if slot not in lane:
            continue
        getattr(lane, became)(slot)
        over += became == "over"
        in_vain += chance if became == "in_vain" else 0.0
        assert slot not in lane
    assert COMES_TRUE * in_vain <= credit + over + 1e-9
    assert all(left >= -1e-9 for left in lane.credit.values())
