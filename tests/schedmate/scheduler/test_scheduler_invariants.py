"""What must hold after every step under every policy, whatever comes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, Cluster, ClusterSpec, Hints, Job, PoolSpec, Scheduler, Unschedulable

policies = st.sampled_from(sorted(POLICIES))


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSpec:
    shape = st.tuples(st.integers(1, 4), st.integers(1, 4))
    return ClusterSpec(tuple(PoolSpec(f"p{i}", *draw(shape)) for i in range(draw(st.integers(1, 2)))))


@st.composite
def jobs(draw: st.DrawFn, spec: ClusterSpec, number: int, now: float) -> Job:
    maybe_s = st.none() | st.integers(0, 9).map(float)
    expected_s = draw(maybe_s)
    return Job(
        f"j{number}",
        draw(st.integers(1, max(pool.gpus for pool in spec.pools) + 1)),
        now,
        draw(maybe_s),
        draw(maybe_s),
        draw(st.none() | st.sampled_from([pool.name for pool in spec.pools])),
        None if expected_s is None else Hints(expected_s, expected_s + draw(st.integers(0, 5))),
    )


def snapshot(scheduler: Scheduler) -> Any:
    """Everything that decides what the scheduler will do next, by value."""
    state, table = scheduler.state, scheduler.state.table
    slots = range(len(table.jobs))
    return copy.deepcopy(
        (
            state.cluster.pools,
            state.cluster.allocated_gpus,
            state.queue.slots(),
            [table.live[s] for s in slots],
            [(s, table.pools[s], table.shares[s], table.starts_s[s]) for s in slots if table.shares[s] is not None],
            [sorted((e, s) for e, s in ends.order) if ends else None for ends in (state.ends, state.limits)],
            [ends.ends_s if ends else None for ends in (state.ends, state.limits)],
            [
                {gpus: list(sized.alive()) for gpus, sized in (lane.by_size or {}).items() if sized.first()}
                for lane in state.queue.lanes
            ],
            (state.reservations, state.reserved_for, state.blocked, state.fresh, state.stale, state.gained),
            sorted(table.free),
            None if state.layer is None else layer_snapshot(scheduler),
        )
    )


def layer_snapshot(scheduler: Scheduler) -> Any:
    layer, table = scheduler.state.layer, scheduler.state.table
    assert layer is not None
    slots = [s for s in range(len(table.jobs)) if table.jobs[s] is not None]
    reserved = {table.entries[s] for s in layer.queue.reserved}
    return (
        layer.queue.slots(),
        layer.queue.reserved,
        [
            [sorted(ends.order), ends.ends_s]
            for ends in (*layer.ends, *(layer.limits or ()), layer.leaving, layer.trying)
        ],
        [(lane.number, list(lane.order.alive())) for lane in layer.queue.lanes if lane.order.first()],
        # One that waited before it had a reservation may still be in the columns, and is never taken from there.
        [{e for e in each._entries if table.live[e[2]] is e} - reserved for each in layer.queue.bounds],
        [lane and lane.number for s in slots for lane in [table.queue_lanes[s]]],
        [(table.done_s[s], table.evictions[s], table.assumed[s]) for s in slots],
        layer.use and layer.use.used,
        layer.fair and (layer.fair.held, layer.fair._use),
        layer.saved(),
    )


def check(scheduler: Scheduler) -> None:
    state, table = scheduler.state, scheduler.state.table
    running = [(table.pools[s], table.shares[s] or ()) for s in table.running()]
    # Rebuilding takes every share again: oversubscription of any node would raise.
    assert Cluster.rebuilt(state.cluster.spec, running) == state.cluster
    for slot in table.running():
        job, shares = table.jobs[slot], table.shares[slot] or ()
        assert job is not None
        assert sum(gpus for _, gpus in shares) == job.gpus, "a gang is whole"
        assert job.gpu_type in (None, state.cluster.spec.pools[table.pools[slot]].name)
        assert table.live[slot] is None, "a running job does not wait as well"
    for pool, plans in state.reservations.items():
        for plan in plans:
            assert plan.pool == pool
            assert sum(gpus for _, gpus in plan.shares) == table.gpus[plan.slot]
            assert all(spare >= 0 for spare in plan.spare.values())


def drive(data: st.DataObject, scheduler: Scheduler, steps: int, try_discards: bool) -> list[tuple[float, list[int]]]:
    now, number, history = 0.0, 0, []
    spec, table = scheduler.state.cluster.spec, scheduler.state.table
    for _ in range(steps):
        now += data.draw(st.integers(0, 4))
        for slot in data.draw(st.lists(st.sampled_from(table.running()), unique=True)) if table.running() else []:
            scheduler.end(slot, now)
        for _ in range(data.draw(st.integers(0, 3))):
            job = data.draw(jobs(spec, number, now))
            number += 1
            try:
                scheduler.submit(job)
            except Unschedulable:
                assert not any(job.gpus <= p.gpus and job.gpu_type in (None, p.name) for p in spec.pools)
        if try_discards:
            _discard_a_cycle(scheduler, now)
        history.append((now, scheduler.cycle(now)))
        check(scheduler)
    return history


def _discard_a_cycle(scheduler: Scheduler, now: float) -> None:
    before = snapshot(scheduler)
    transaction = scheduler.transaction
    transaction.begin()
    for action in scheduler.actions:
        action(scheduler.state, transaction, now)
    for i, slot in enumerate(scheduler.state.table.running()):
        if i % 3 == 1:
            transaction.evict(slot, now, 1.0)
        elif i % 3:
            transaction.stop(slot, now)
    transaction.discard()
    assert snapshot(scheduler) == before


@settings(max_examples=150, deadline=None)
@given(st.data(), policies, clusters())
def test_never_oversubscribed_gangs_whole_incremental_equals_rebuilt(
    data: st.DataObject, policy: str, spec: ClusterSpec
) -> None:
    drive(data, Scheduler(spec, POLICIES[policy]), steps=8, try_discards=False)


@settings(max_examples=150, deadline=None)
@given(st.data(), policies, clusters())
def test_a_discarded_cycle_leaves_no_trace(data: st.DataObject, policy: str, spec: ClusterSpec) -> None:
    drive(data, Scheduler(spec, POLICIES[policy]), steps=6, try_discards=True)


def test_one_transaction_at_a_time() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["fifo"])
    scheduler.transaction.begin()
    with pytest.raises(RuntimeError, match="open already"):
        scheduler.cycle(0.0)


def test_a_slot_that_is_not_running_can_not_end() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["fifo"])
    slot = scheduler.submit(Job("a", 8, 0.0))
    with pytest.raises(ValueError, match="not running"):
        scheduler.end(slot, 0.0)


def test_memory_follows_the_jobs_that_are_present() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["easy"])
    for moment in range(1000):
        scheduler.submit(Job(f"j{moment}", 8, moment, 1.0))
        (slot,) = scheduler.cycle(moment)
        scheduler.end(slot, moment + 1)
    assert len(scheduler.state.table.jobs) == 1
    assert scheduler.state.queue.slots() == []
