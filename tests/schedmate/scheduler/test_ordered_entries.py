"""The queue under its transactions: an entry that is put back stands in it once."""

from __future__ import annotations

from dataclasses import replace

from schedmate.scheduler import POLICIES, ClusterSpec, Job, Scheduler
from schedmate.scheduler.pending import Entry, OrderedEntries


def test_equal_entries_are_told_apart_when_one_is_put_back() -> None:
    old: Entry = (0.0, 1, 0)
    new: Entry = (0.0, 1, int("0"))
    live: list[Entry | None] = [old, (5.0, 2, 1)]
    entries = OrderedEntries(live)
    for entry in (old, live[1]):
        assert entry is not None
        entries.add(entry)
    live[0] = new = (*old,)  # type: ignore[assignment]
    assert new is not old
    entries.add(new)
    live[0] = old
    entries.add(old)
    assert entries.alive() == [old, live[1]]


def test_a_discarded_promotion_of_a_promoted_job_leaves_it_in_the_queue_once() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["easy"])
    first, second = (scheduler.submit(Job(name, 8, 0.0, 10.0)) for name in "ab")
    scheduler.submit(Job("c", 8, 0.0, 10.0))
    assert scheduler.cycle(0.0) == [first]
    for _ in range(2):
        scheduler.transaction.begin()
        scheduler.transaction.promote(second)
        scheduler.transaction.discard()
    assert len(scheduler.state.queue.slots()) == 2


def test_the_slot_of_a_job_taken_back_before_any_cycle_starts_its_next_job_once() -> None:
    for policy in ("easy", "core"):
        scheduler = Scheduler(ClusterSpec.uniform(2), POLICIES[policy])
        running = scheduler.submit(Job("running", 8, 0.0, 10.0, 10.0))
        scheduler.submit(Job("wide", 16, 0.0, 10.0, 10.0))
        assert scheduler.cycle(0.0) == [running]
        slot = scheduler.submit(Job("taken back", 1, 0.0, 10.0, 10.0))
        scheduler.withdraw(slot)
        assert scheduler.submit(Job("next", 1, 0.0, 10.0, 10.0)) == slot
        assert scheduler.cycle(0.0) == [slot]


def test_a_discarded_cycle_does_not_make_a_job_forget_how_long_it_has_waited() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), replace(POLICIES["core"], starvation_bound_s=10.0))
    running = scheduler.submit(Job("running", 8, 0.0, 100.0, 100.0))
    assert scheduler.cycle(0.0) == [running]
    waits = scheduler.submit(Job("waits", 8, 0.0, 10.0, 10.0))
    assert scheduler.cycle(1.0) == []
    scheduler.transaction.begin()
    for action in scheduler.actions:
        action(scheduler.state, scheduler.transaction, 10.0)
    scheduler.transaction.discard()
    assert scheduler.decision(waits, 10.0).verdict == "waiting"
    assert scheduler.cycle(10.0) == []
    assert scheduler.decision(waits, 10.0).guaranteed_start_s == 100.0
