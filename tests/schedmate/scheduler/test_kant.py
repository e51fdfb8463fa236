"""The kant policy: hints order, hard limits guarantee."""

from __future__ import annotations

import heapq
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, Scheduler
from schedmate.scheduler.assumptions import expected
from schedmate.scheduler.policies import LONGEST_GRACE_S, by_due_time

hint_s = st.floats(0, 1e9)


@st.composite
def jobs(draw: st.DrawFn, gpus: int) -> list[tuple[Job, float]]:
    """Pairs of a job and its true runtime, which its hard limit covers and its hint has nothing to do with."""
    found = []
    for i in range(draw(st.integers(1, 12))):
        runtime_s = float(draw(st.integers(1, 9)))
        limit_s = runtime_s + draw(st.integers(0, 9))
        claimed = draw(st.none() | hint_s)
        hints = None if claimed is None else Hints(claimed, claimed + draw(hint_s))
        submit_s = float(draw(st.integers(0, 12)))
        found.append((Job(str(i), draw(st.integers(1, gpus)), submit_s, None, limit_s, None, hints), runtime_s))
    return sorted(found, key=lambda pair: pair[0].submit_s)


def run(pairs: list[tuple[Job, float]], scheduler: Scheduler) -> tuple[dict[str, float], dict[str, float]]:
    """Start times, and the first guaranteed start of each job that was given one."""
    starts: dict[str, float] = {}
    promised: dict[str, float] = {}
    ends: list[tuple[float, int]] = []
    of_slot: dict[int, tuple[Job, float]] = {}
    left = list(pairs)
    table = scheduler.state.table
    while left or ends:
        now = min(left[0][0].submit_s if left else math.inf, ends[0][0] if ends else math.inf, scheduler.wake_s)
        while ends and ends[0][0] == now:
            scheduler.end(heapq.heappop(ends)[1], now)
        while left and left[0][0].submit_s == now:
            pair = left.pop(0)
            of_slot[scheduler.submit(pair[0])] = pair
        for slot in scheduler.cycle(now):
            job, runtime_s = of_slot[slot]
            starts[job.job_id] = now
            heapq.heappush(ends, (now + runtime_s, slot))
        for plan in (p for plans in scheduler.state.reservations.values() for p in plans if p.guaranteed):
            waiting = table.jobs[plan.slot]
            if waiting is not None:
                promised.setdefault(waiting.job_id, plan.start_s)
    return starts, promised


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_no_hint_delays_a_guaranteed_start(data: st.DataObject, nodes: int, capacity: int) -> None:
    scheduler = Scheduler(ClusterSpec.uniform(nodes, capacity), POLICIES["kant"])
    starts, promised = run(data.draw(jobs(nodes * capacity)), scheduler)
    for job_id, promised_s in promised.items():
        assert starts[job_id] <= promised_s


@given(st.integers(1, 10**6), st.integers(1, 10**6), hint_s)
def test_a_hint_moves_a_job_by_a_bounded_time(gpus: int, cluster_gpus: int, claimed_s: float) -> None:
    job = Job("a", gpus, 1000.0, hints=Hints(claimed_s, claimed_s))
    assert 1000.0 <= by_due_time(job, cluster_gpus) <= 1000.0 + LONGEST_GRACE_S


def test_a_hint_beyond_the_hard_limit_is_cut_to_it() -> None:
    assert expected(Job("a", 1, 0.0, limit_s=60.0, hints=Hints(500.0, 900.0))) == (60.0, 60.0, 60.0)


def test_a_job_without_limit_is_not_let_past_a_guaranteed_start_on_its_hint() -> None:
    """Both waiting jobs claim to be short; only the one whose hard limit says so may pass."""
    scheduler = Scheduler(ClusterSpec.uniform(1, 8), POLICIES["kant"])
    long_ago = -2 * LONGEST_GRACE_S
    running = scheduler.submit(Job("running", 6, long_ago, limit_s=100.0))
    assert scheduler.cycle(0.0) == [running]
    head = scheduler.submit(Job("head", 8, long_ago, limit_s=10.0))
    hinted = scheduler.submit(Job("hinted", 2, 0.0, hints=Hints(1.0, 1.0)))
    limited = scheduler.submit(Job("limited", 2, 0.0, limit_s=50.0, hints=Hints(60.0, 60.0)))
    assert scheduler.cycle(0.0) == [limited]
    assert scheduler.decision(head, 0.0).guaranteed_start_s == 100
    assert scheduler.decision(hinted, 0.0).verdict == "waiting"


def test_where_no_limit_is_known_nothing_is_guaranteed_and_hints_decide() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1, 8), POLICIES["kant"])
    long_ago = -2 * LONGEST_GRACE_S
    running = scheduler.submit(Job("running", 6, long_ago, hints=Hints(100.0, 120.0)))
    assert scheduler.cycle(0.0) == [running]
    head = scheduler.submit(Job("head", 8, long_ago))
    sure = scheduler.submit(Job("sure", 2, 0.0, hints=Hints(50.0, 100.0)))
    unsure = scheduler.submit(Job("unsure", 2, 0.0, hints=Hints(50.0, 101.0)))
    assert scheduler.cycle(0.0) == [sure]
    decision = scheduler.decision(head, 0.0)
    assert (decision.expected_start_s, decision.guaranteed_start_s) == (100.0, None)
    assert scheduler.decision(unsure, 0.0).verdict == "waiting"


def test_others_pass_a_blocked_job_until_it_is_due_and_then_no_more() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1, 8), POLICIES["kant"])
    running = scheduler.submit(Job("running", 6, 0.0, hints=Hints(1e6, 1e6)))
    wide = scheduler.submit(Job("wide", 8, 0.0, hints=Hints(1e6, 1e6)))
    assert scheduler.cycle(0.0) == [running]
    small = scheduler.submit(Job("small", 2, 10.0, hints=Hints(1e6, 1e6)))
    assert scheduler.cycle(10.0) == [small]
    scheduler.end(small, 20.0)
    late = scheduler.submit(Job("late", 2, LONGEST_GRACE_S + 1, hints=Hints(1e6, 1e6)))
    assert scheduler.cycle(LONGEST_GRACE_S + 1) == []
    assert scheduler.decision(wide, LONGEST_GRACE_S + 1).expected_start_s == 1e6
    assert "would delay the reserved start of job wide" in scheduler.decision(late, LONGEST_GRACE_S + 1).reason


def test_a_job_that_has_its_reservation_is_not_overtaken_by_one_that_was_due_earlier() -> None:
    """As when a job of long ago is queued again."""
    scheduler = Scheduler(ClusterSpec.uniform(1, 8), POLICIES["kant"])
    day_s = 86400.0
    running = scheduler.submit(Job("running", 6, -day_s, limit_s=100.0))
    assert scheduler.cycle(0.0) == [running]
    head = scheduler.submit(Job("head", 8, -day_s, limit_s=10.0))
    assert scheduler.cycle(0.0) == []
    older = scheduler.submit(Job("older", 8, -9 * day_s, limit_s=500.0))
    assert scheduler.cycle(1.0) == []
    scheduler.end(running, 100.0)
    assert scheduler.cycle(100.0) == [head]
    scheduler.end(head, 110.0)
    assert scheduler.cycle(110.0) == [older]
