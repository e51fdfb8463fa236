"""What a gated scheduler does with the hints of its jobs, from submission to end, through restarts and lies."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import POLICIES, ClusterSpec, Gate, Hints, Job, Scheduler, Tenant
from schedmate.scheduler.codec import to_json
from schedmate.scheduler.events import CycleRan, Ended, Event, HintsChanged, Submitted, Withdrawn
from schedmate.scheduler.gate import Who
from schedmate.scheduler.journal import Header, line_of, read, replay
from schedmate.scheduler.policies import at_once

GATED = POLICIES["core"].with_gate()
LOOKS_AT_HINTS = ("kant", "patient", "core", "saf", "qssf")


@contextmanager
def quick(step: int = 2, own: int = 4) -> Iterator[None]:
    """A gate that makes up its mind soon."""
    with patch.multiple("schedmate.scheduler.gate", STEP=step, OWN=own):
        yield


def told(name: str, said_s: float | None, account: str = "ann", gpus: int = 1, **more: Any) -> Job:
    hints = None if said_s is None else Hints(said_s, said_s, "user")
    return Job(name, gpus, more.pop("submit_s", 0.0), hints=hints, account=account, **more)


def run(scheduler: Scheduler, jobs: Sequence[tuple[Job, float]], now: float = 0.0) -> float:
    """One after the other, each for so long."""
    for job, runtime_s in jobs:
        slot = scheduler.submit(job)
        assert scheduler.cycle(now) == [slot]
        now += runtime_s
        scheduler.end(slot, now)
        scheduler.cycle(now)
    return now


def truths(number: int, account: str = "ann") -> list[tuple[Job, float]]:
    return [(told(f"{account}{i}", 10.0 * (i + 1), account), 10.0 * (i + 1)) for i in range(number)]


def expected_s(scheduler: Scheduler, slot: int) -> float | None:
    hints = scheduler.state.table.present(slot).hints
    return None if hints is None else hints.expected_s


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_that_looks_at_no_hints_can_not_be_gated(name: str) -> None:
    if name in LOOKS_AT_HINTS:
        assert POLICIES[name].with_gate().name == f"{name}+gate"
        assert POLICIES[name].with_gate().with_gate() == POLICIES[name].with_gate()
    else:
        with pytest.raises(ValueError, match="does not look at hints"):
            POLICIES[name].with_gate()


def test_hints_are_believed_when_they_have_proved_right_and_what_was_said_is_kept() -> None:
    with quick():
        scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED)
        first = scheduler.submit(told("x", 77.0))
        assert expected_s(scheduler, first) is None
        assert scheduler.told(first).hints == Hints(77.0, 77.0, "user")
        assert "too few" in scheduler.explain(first).hints
        scheduler.withdraw(first)
        run(scheduler, truths(8))
        assert expected_s(scheduler, scheduler.submit(told("y", 77.0))) == 77.0


def test_waiting_jobs_take_the_place_that_their_hints_give_them_when_these_come_to_be_used() -> None:
    with quick():
        scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED)
        now = run(scheduler, truths(3))
        last = scheduler.submit(told("last", 40.0))
        assert scheduler.cycle(now) == [last]
        long, short = (scheduler.submit(told(name, said_s, submit_s=now)) for name, said_s in (("l", 9e4), ("s", 5.0)))
        scheduler.cycle(now)
        assert expected_s(scheduler, long) is expected_s(scheduler, short) is None
        scheduler.end(last, now + 40.0)
        assert scheduler.cycle(now + 40.0) == [short]
        assert expected_s(scheduler, long) == 9e4
        assert "hints of ann from user are used" in scheduler.explain(long).hints


def test_who_lies_loses_the_place_of_what_waits_and_nobody_else_does() -> None:
    with quick():
        scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED)
        now = run(scheduler, [*truths(8), *truths(8, "bob")])
        assert scheduler.gate is not None
        assert [scheduler.gate.factor(Who(who, "user")) for who in ("ann", "bob")] == [1, 1]
        running = scheduler.submit(told("r", None, account="cyd"))
        scheduler.cycle(now)
        lie = scheduler.submit(told("lie", 1.0, "bob"))
        true = scheduler.submit(told("true", 1.0, "ann"))
        scheduler.end(running, now + 1.0)
        assert scheduler.cycle(now + 1.0) == [lie]
        more = [scheduler.submit(told(f"lie{i}", 1.0, "bob")) for i in range(12)]
        now += 1.0
        for _ in range(8):
            slot = next(iter(scheduler.state.table.running()))
            now += 1e6 if slot != true else 1.0
            scheduler.end(slot, now)
            scheduler.cycle(now)
        assert scheduler.gate.factor(Who("bob", "user")) is None
        assert scheduler.gate.factor(Who("ann", "user")) == 1.0
        waiting = [slot for slot in more if scheduler.state.table.live[slot] is not None]
        assert waiting
        assert all((expected_s(scheduler, slot) or 0.0) > 1e3 for slot in waiting)  # what his jobs usually last
        limited = scheduler.submit(replace(told("limited", 1.0, "bob"), limit_s=50.0))
        assert expected_s(scheduler, limited) is None
        assert "hints of bob from user are not used: by" in scheduler.explain(waiting[0]).words()


@pytest.mark.parametrize("tree", [True, False], ids=["tenant tree", "no tree"])
def test_people_of_a_tenant_that_lies_are_not_believed_under_new_names_and_those_of_others_are(tree: bool) -> None:
    tenants = [Tenant("lab"), Tenant("liars")] if tree else []

    def of(tenant: str, name: str, said_s: float) -> Job:
        job = told(name, said_s, account=f"{tenant}-{name}")
        return replace(job, **{"tenant" if tree else "hint_tenant": tenant})

    with quick():
        scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED, tenants)
        times_s = [10.0 * (i + 1) for i in range(6)]
        now = run(scheduler, [(of("lab", f"t{i}", each_s), each_s) for i, each_s in enumerate(times_s)])
        run(scheduler, [(of("liars", f"l{i}", 5.0), 100 * each_s) for i, each_s in enumerate(times_s)], now)
        true, lie = (scheduler.submit(of(tenant, "new", 5.0)) for tenant in ("lab", "liars"))
        assert [expected_s(scheduler, slot) for slot in (true, lie)] == [5.0, None]
        assert "hints of those of lab who are new from user are used" in scheduler.explain(true).hints
        assert "hints of those of liars who are new from user are not used" in scheduler.explain(lie).hints


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30), lie_s=st.sampled_from([1.0, 1e4]))
def test_nothing_that_is_said_in_one_tenant_changes_who_is_believed_in_another(seed: int, lie_s: float) -> None:
    """Where all jobs start at once, so that nobody waits for anybody: what ended counts, and what runs for too long."""

    def live(lies: bool) -> list[tuple[float | None, str]]:
        draw, scheduler = Random(seed), Scheduler(ClusterSpec.uniform(9, 99), GATED)
        found, ends_s = list[tuple[float | None, str]](), dict[int, float]()
        assert scheduler.gate is not None
        for moment in range(60):
            now, true_s, tenant = 10.0 * moment, draw.choice([5.0, 50.0, 500.0]), draw.choice("xy")
            said_s = lie_s if lies and tenant == "y" else true_s
            account = f"{tenant}{draw.randint(0, 9)}"
            slot = scheduler.submit(told(f"{moment}", said_s, account, hint_tenant=tenant, submit_s=now))
            judged_by = scheduler.gate.judged_by(Who(account, "user", tenant))
            if tenant == "x" and judged_by != Who(None, "user"):  # its very first jobs are judged with all
                found.append((expected_s(scheduler, slot), scheduler.explain(slot, now).hints))
            assert scheduler.cycle(now) == [slot]
            ends_s[slot] = now + true_s
            for each in [each for each, end_s in ends_s.items() if end_s <= now]:
                scheduler.end(each, now)
                del ends_s[each]
        return found

    with quick():
        assert live(lies=True) == live(lies=False)


def test_memory_and_what_a_job_will_keep_busy_are_no_claim_of_time() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED)
    slot = scheduler.submit(Job("a", 1, 0.0, hints=Hints(5.0, 9.0, "x", gpu_memory_mib=10.0, utilization=0.5)))
    assert scheduler.state.table.present(slot).hints == Hints(source="x", gpu_memory_mib=10.0, utilization=0.5)


def test_a_slot_without_a_job_is_refused_as_ever() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED)
    scheduler.withdraw(scheduler.submit(told("a", 5.0)))
    for slot in (-1, 0, 7):
        with pytest.raises(ValueError, match=str(slot)):
            scheduler.update_hints(slot, Hints(5.0, 5.0), 0.0)
        with pytest.raises(ValueError, match=str(slot)):
            scheduler.told(slot)
        with pytest.raises(ValueError, match=str(slot)):
            scheduler.explain(slot)


def test_what_another_source_says_of_running_jobs_is_judged_for_itself() -> None:
    with quick():
        scheduler = Scheduler(ClusterSpec.uniform(1, 1), GATED)
        now = 0.0
        for job, runtime_s in truths(8):
            wrong = replace(job, hints=Hints(1e5 / runtime_s, 1e5 / runtime_s, "user"))
            slot = scheduler.submit(wrong)
            scheduler.cycle(now)
            scheduler.update_hints(slot, Hints(runtime_s, runtime_s, "log"), now)
            scheduler.update_hints(slot, Hints(9e9, 9e9, "log"), now)  # too late to be judged by it
            now += runtime_s
            scheduler.end(slot, now)
            scheduler.cycle(now)
        assert scheduler.gate is not None
        assert scheduler.gate.factor(Who("ann", "log")) == 1.0
        assert scheduler.gate.factor(Who("ann", "user")) is None
        slot = scheduler.submit(told("next", 50.0))
        scheduler.update_hints(slot, Hints(60.0, 70.0, "log"), now)
        assert expected_s(scheduler, slot) == 60.0
        scheduler.update_hints(slot, None, now)
        assert scheduler.told(slot).hints is None


def test_what_was_found_out_is_recalled_by_a_new_scheduler() -> None:
    with quick():
        old, new = (Scheduler(ClusterSpec.uniform(1, 1), GATED) for _ in range(2))
        run(old, truths(8))
        assert old.gate is not None
        new.recall_gate(old.gate)
        assert new.gate == old.gate
        assert expected_s(new, new.submit(told("y", 77.0))) == 77.0
    plain = Scheduler(ClusterSpec.uniform(1, 1), POLICIES["core"])
    assert plain.gate is None and plain.told(plain.submit(told("z", 7.0))).hints is not None
    with pytest.raises(ValueError, match="not gated"):
        plain.recall_gate(Gate())


def events(random: Random, number: int, hinted: bool = True) -> list[Event]:
    """Submissions, ends, withdrawals, other hints and cycles; what is not there is refused."""
    now, found, names = 0.0, list[Event](), list[str]()
    for i in range(number):
        match random.randint(0, 9):
            case 0 | 1 | 2 | 3:
                said_s = random.choice([None, 1.0, 9.0, 99.0]) if hinted else None
                limit_s, tenant = random.choice([None, 50.0]), random.choice([None, "x", "y"])
                who = random.choice("abc")
                names.append(f"j{i}")
                asks = {"limit_s": limit_s, "hint_tenant": tenant}
                found.append(Submitted(now, told(f"j{i}", said_s, who, random.randint(1, 4), **asks)))
            case 4 | 5 if names:
                found.append(Ended(now, random.choice(names)))
            case 6 if names:
                found.append(Withdrawn(now, random.choice(names)))
            case 7 if names and hinted:
                high_s = float(random.randint(0, 99))
                source = random.choice(["user", "log"])
                found.append(HintsChanged(now, random.choice(names), Hints(high_s / 2, high_s, source)))
            case _:
                now += random.randint(0, 5)
                found.append(CycleRan(now))
    return found


@pytest.mark.parametrize("name", LOOKS_AT_HINTS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30))
def test_without_hints_a_gated_policy_decides_as_the_same_one_that_is_not(name: str, seed: int) -> None:
    done = events(Random(seed), 120, hinted=False)
    with quick():
        plain, gated = (Scheduler(ClusterSpec.uniform(2, 4), p) for p in (POLICIES[name], POLICIES[name].with_gate()))
        assert list(replay(plain, done)) == list(replay(gated, done))


@pytest.mark.parametrize("name", LOOKS_AT_HINTS)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30), cut=st.floats(0, 1))
def test_a_journal_that_is_cut_anywhere_brings_the_gate_back(name: str, seed: int, cut: float) -> None:
    """As after a kill -9: the whole lines are lived through again, and then what is decided is what was."""
    header = Header(ClusterSpec.uniform(2, 4), POLICIES[name].with_gate())
    done = events(Random(seed), 120)
    with quick():
        whole = header.scheduler()
        effects = list(replay(whole, done))
        head = (json.dumps({"journal": 1, **to_json(header)}) + "\n").encode()
        lines = "".join(line_of(event) + "\n" for event in done).encode()
        kept = read(head + lines[: int(cut * len(lines))], "journal")
        assert kept is not None and kept[0] == header
        again = kept[0].scheduler()
        assert list(replay(again, [*kept[1], *done[len(kept[1]) :]])) == effects
    assert again.gate == whole.gate and again.state.table.jobs == whole.state.table.jobs


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30), random=st.randoms(use_true_random=False))
def test_in_which_order_equal_ends_come_does_not_matter(seed: int, random: Random) -> None:
    """Ends of one moment, before whose cycle nothing else happens, in two orders."""

    def live(shuffles: Random | None) -> tuple[list[Any], Gate | None]:
        draw, scheduler = Random(seed), Scheduler(ClusterSpec.uniform(2, 4), GATED)
        told_of, running = list[Any](), list[str]()
        for moment in range(25):
            now = 10.0 * moment
            ending = [name for name in running if draw.random() < 0.5]
            if shuffles is not None:
                shuffles.shuffle(ending)
            for name in ending:
                scheduler.apply(Ended(now, name))
            for i in range(draw.randint(0, 4)):
                job = told(f"{moment}-{i}", draw.choice([1.0, 50.0]), draw.choice("abcdef"), draw.randint(1, 3))
                scheduler.apply(Submitted(now, replace(job, submit_s=now, hint_tenant=draw.choice([None, "x", "y"]))))
            started = scheduler.apply(CycleRan(now)).started
            running = sorted({*running, *started} - set(ending))
            told_of.append(sorted(started))
        return told_of, scheduler.gate

    with quick():
        assert live(random) == live(None)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30), most=st.sampled_from([1, 2]))
def test_no_hints_delay_a_guaranteed_start(seed: int, most: int) -> None:
    """Jobs of one class that keep their limits, whoever says what of whom, believed or not: what was first told as
    guaranteed holds."""
    random = Random(seed)
    policy = replace(GATED, reservations=most, starvation_bound_s=math.inf, reserve_from=at_once)
    scheduler, runtimes, told_s = Scheduler(ClusterSpec.uniform(2, 4), policy), dict[str, float](), dict[str, float]()
    ends: list[tuple[float, str, int]] = []
    arrivals = sorted(float(random.randint(0, 120)) for _ in range(40))
    table, runs = scheduler.state.table, dict[str, int]()

    def name_of(slot: int) -> str:
        return table.present(slot).job_id

    slots: dict[str, int] = {}
    with quick():
        while arrivals or ends or slots:
            times = [arrivals[0] if arrivals else math.inf, ends[0][0] if ends else math.inf, scheduler.wake_s]
            now = min(times)
            assert now < math.inf
            while ends and ends[0][0] == now:
                _, name, number = ends.pop(0)
                if runs[name] == number and name in slots:
                    scheduler.end(slots.pop(name), now)
            while arrivals and arrivals[0] == now:
                arrivals.pop(0)
                name, runtime_s = f"j{len(runtimes)}", float(random.randint(1, 30))
                runtimes[name], runs[name] = runtime_s, 0
                said_s = random.choice([1.0, runtime_s, 900.0 / runtime_s, 1e6])
                job = told(
                    name, said_s, random.choice("abc"), random.randint(1, 8), limit_s=runtime_s + random.randint(0, 9)
                )
                job = replace(job, submit_s=now, preemptible=random.random() < 0.5, checkpoint_s=1.0)
                slots[name] = scheduler.submit(job)
            if slots and random.random() < 0.3:
                said_s = random.choice([0.0, 7.0, 1e5])
                scheduler.update_hints(random.choice(sorted(slots.values())), Hints(said_s, said_s, "user"), now)
            started = scheduler.cycle(now)
            for slot in scheduler.evicted:
                runs[name_of(slot)] += 1
            for slot in started:
                name = name_of(slot)
                if not table.evictions[slot]:
                    assert now <= told_s.get(name, math.inf) + 1e-6
                ends.append((now + runtimes[name] - table.done_s[slot], name, runs[name]))
            ends.sort()
            for name, slot in slots.items():
                found = scheduler.decision(slot).guaranteed_start_s
                if found is not None and not table.evictions[slot]:
                    assert found <= told_s.setdefault(name, found) + 1e-6
