"""What the full queue layer promises, over whole lives of jobs: with tenants, several reservations and evictions."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler import (
    POLICIES,
    ClusterSpec,
    Hints,
    Job,
    PoolSpec,
    Queueing,
    Quota,
    Scheduler,
    Tenant,
    Unschedulable,
)
from schedmate.scheduler.policies import at_once
from schedmate.scheduler.prospects import Prospects
from schedmate.scheduler.trial import Trial
from schedmate.scheduler.verdicts import Verdicts
from schedmate.simulator.audit import stuck

MOST_MOMENTS = 2000


def quota(random: Random, most: int) -> Quota:
    return Quota(random.randint(0, most), random.choice([None, 0, 1, 3]), random.choice([None, 0, 1, 3]))


def tenants(random: Random, pools: tuple[PoolSpec, ...]) -> list[Tenant]:
    found, left = [], {pool.name: pool.gpus for pool in pools}
    queueing = [*Queueing, None]
    for name in "ab":
        quotas = {of_type: quota(random, gpus) for of_type, gpus in left.items() if random.random() < 0.8}
        for of_type, given_here in quotas.items():
            left[of_type] -= int(given_here.guaranteed)
        below = {of_type: quota(random, int(each.guaranteed)) for of_type, each in quotas.items()}
        children = (Tenant(f"{name}/x", below, weight=2.0, queueing=random.choice(queueing)),)
        isolated = random.random() < 0.15
        found.append(Tenant(name, quotas, children[: random.randint(0, 1)], 1.0, isolated, random.choice(queueing)))
    return found


def jobs(random: Random, largest: int, types: list[str], names: list[str], limited: float) -> list[tuple[Job, float]]:
    """Pairs of a job and its true runtime, which its hard limit covers and its hint has nothing to do with."""
    found = []
    for i in range(random.randint(3, 12)):
        runtime_s = float(random.randint(1, 9))
        claimed = random.choice([None, *range(12)])
        job = Job(
            f"j{i}",
            random.randint(1, largest),
            float(random.randint(0, 12)),
            limit_s=runtime_s + random.randint(0, 9) if random.random() < limited else None,
            gpu_type=random.choice([None, *types]),
            hints=None if claimed is None else Hints(float(claimed), float(claimed + random.randint(0, 3))),
            tenant=random.choice([None, *names]),
            preemptible=random.random() < 0.5,
            checkpoint_s=random.choice([None, 1.0, 2.0]),
            grace_s=random.choice([0.0, 1.0]),
            restart_s=random.choice([0.0, 1.0]),
            min_run_s=random.choice([0.0, 2.0]),
        )
        found.append((job, runtime_s))
    return sorted(found, key=lambda pair: pair[0].submit_s)


@dataclass
class Life:
    """Plays jobs until all have ended and checks after every cycle."""

    scheduler: Scheduler
    left: list[tuple[Job, float]]
    ends: list[tuple[float, int, int]] = field(default_factory=list)
    of_slot: dict[int, tuple[Job, float]] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    promised: dict[tuple[str, int], float] = field(default_factory=dict)
    evictions: int = 0

    def play(self) -> None:
        for _ in range(MOST_MOMENTS):
            now = min(
                self.left[0][0].submit_s if self.left else math.inf,
                self.ends[0][0] if self.ends else math.inf,
                self.scheduler.wake_s,
            )
            if now == math.inf:
                assert not self.of_slot, "something waits for ever"
                return
            self._end(now)
            self._submit(now)
            self._cycle(now)
            self._check(now)
        raise AssertionError("not over")

    def _end(self, now: float) -> None:
        while self.ends and self.ends[0][0] == now:
            _, slot, run = heapq.heappop(self.ends)
            if self.runs[slot] == run:
                self.scheduler.end(slot, now)
                self.runs[slot] += 1
                del self.of_slot[slot]

    def _submit(self, now: float) -> None:
        while self.left and self.left[0][0].submit_s == now:
            pair = self.left.pop(0)
            try:
                slot = self.scheduler.submit(pair[0])
            except Unschedulable:
                continue
            self.of_slot[slot] = pair
            self.runs.setdefault(slot, 0)

    def _cycle(self, now: float) -> None:
        table = self.scheduler.state.table
        started = self.scheduler.cycle(now)
        for slot in self.scheduler.evicted:
            self.evictions += 1
            self.runs[slot] += 1
            assert table.jobs[slot] is not None
            assert self.of_slot[slot][0].preemptible
        for slot in started:
            job, runtime_s = self.of_slot[slot]
            left_s = runtime_s - table.done_s[slot] + (job.restart_s if table.evictions[slot] else 0.0)
            assert 0 <= left_s <= table.assumed[slot].limit_s
            self.runs[slot] += 1
            heapq.heappush(self.ends, (now + left_s, slot, self.runs[slot]))

    def _check(self, now: float) -> None:
        assert not stuck(self.scheduler), "an idle pool keeps somebody waiting"
        state, table = self.scheduler.state, self.scheduler.state.table
        for plans in state.reservations.values():
            for plan in plans:
                assert all(left >= 0 for left in plan.spare.values()), "plans take from each other"
                job = table.jobs[plan.slot]
                if plan.guaranteed and job is not None:
                    layer = state.layer
                    assert layer is not None
                    assert layer.limits is not None
                    ending = layer.limits[plan.pool].next_s() <= now  # started just now with no time at all to run
                    assert plan.start_s > now or ending, "promised for now and not started"
                    key = job.job_id, table.evictions[plan.slot]
                    assert plan.start_s <= self.promised.setdefault(key, plan.start_s), "later than promised"
        layer = state.layer
        if layer is not None and layer.use is not None:
            for pool, used in enumerate(layer.use.used):
                assert all(u <= m[pool] for u, m in zip(used, layer.tree.most, strict=True)), "quota exceeded"


@pytest.mark.parametrize("with_tenants", [False, True], ids=["no tenants", "tenants"])
@pytest.mark.parametrize("limited", [1.0, 0.6], ids=["all limited", "some limited"])
@pytest.mark.parametrize("most", [1, 2, math.inf])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(random=st.randoms(use_true_random=False))
def test_starts_are_kept_quotas_too_and_everything_ends(
    with_tenants: bool, limited: float, most: float, random: Random
) -> None:
    live(with_tenants, limited, most, random)


@pytest.mark.parametrize("most", [1, 2])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(random=st.randoms(use_true_random=False), with_tenants=st.booleans())
def test_starts_are_kept_by_a_gate_that_changes_its_mind(with_tenants: bool, most: float, random: Random) -> None:
    with patch.multiple("schedmate.scheduler.gate", STEP=1, OWN=1):
        live(with_tenants, 1.0, most, random, gated=True)


@pytest.mark.parametrize("most", [2, math.inf])
@pytest.mark.parametrize("seed", [553, *range(40)])
def test_nobody_waits_for_those_who_wait_for_him(seed: int, most: float) -> None:
    """Seed 553: two jobs without a guaranteed start, each expected to start when the other one has ended."""
    live(False, 0.6, most, Random(seed))


def live(with_tenants: bool, limited: float, most: float, random: Random, gated: bool = False) -> None:
    """One class and no starvation bound, which would be reasons for a later start."""
    pools = tuple(PoolSpec(f"p{i}", random.randint(1, 3), random.randint(1, 4)) for i in range(random.randint(1, 2)))
    changes: dict[str, Any] = {"reservations": most, "starvation_bound_s": math.inf, "gated": gated}
    if random.random() < 0.7:
        changes["reserve_from"] = at_once
    tree = tenants(random, pools) if with_tenants else []
    names = [each.name for top in tree for each in (top, *top.children)]
    asked = jobs(random, max(pool.gpus for pool in pools), [pool.name for pool in pools], names, limited)
    Life(Scheduler(ClusterSpec(pools), replace(POLICIES["core"], **changes), tree), asked).play()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(random=st.randoms(use_true_random=False), bound_s=st.sampled_from([5.0, 20.0]))
def test_beyond_the_starvation_bound_nobody_newer_goes_first(random: Random, bound_s: float) -> None:
    """Whatever classes come: those that starve go one after the other, each after what runs when its turn comes."""
    nodes, capacity = random.randint(1, 3), random.randint(1, 4)
    policy = replace(POLICIES["core"], starvation_bound_s=bound_s, reservations=1)
    scheduler = Scheduler(ClusterSpec.uniform(nodes, capacity), policy)
    asked = [
        (replace(job, priority=random.randint(0, 3), preemptible=False), runtime_s)
        for job, runtime_s in jobs(random, nodes * capacity, [], [], 1.0)
    ]
    life = Life(scheduler, asked)
    table, longest_s = scheduler.state.table, max(job.limit_s or 0.0 for job, _ in asked)
    waited: dict[str, float] = {}
    life._check = lambda now: waited.update(  # type: ignore[method-assign]
        {job.job_id: now - job.submit_s for job in (table.jobs[s] for s in life.of_slot) if job and _waits(table, job)}
    )
    life.play()
    for job, _ in asked:
        assert waited.get(job.job_id, 0.0) <= bound_s + len(asked) * longest_s


def _starts(random: Random) -> list[tuple[float, list[str]]]:
    """Who starts when, with tenants and two reservations a pool."""
    pools = tuple(PoolSpec(f"p{i}", random.randint(1, 3), random.randint(1, 4)) for i in range(random.randint(1, 2)))
    tree = tenants(random, pools)
    names = [each.name for top in tree for each in (top, *top.children)]
    asked = jobs(random, max(pool.gpus for pool in pools), [pool.name for pool in pools], names, 0.8)
    policy = replace(POLICIES["core"], reservations=2, reserve_from=at_once)
    life = Life(Scheduler(ClusterSpec(pools), policy, tree), asked)
    table, found = life.scheduler.state.table, []

    def watch(now: float) -> None:
        running = [job.job_id for slot in table.running() if (job := table.jobs[slot]) is not None]
        found.append((now, sorted(running)))

    life._check = watch  # type: ignore[method-assign]
    life.play()
    return found


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30))
def test_what_is_remembered_changes_no_decision(seed: int) -> None:
    """Verdicts that hold until something that matters has changed, against looking at everything every time."""
    remembering = _starts(Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trial, "is_settled", lambda *_: False)
        patch.setattr(Verdicts, "where", lambda *_: None)
        patch.setattr(Prospects, "_since", lambda *_: None)
        assert _starts(Random(seed)) == remembering


def _waits(table: Any, job: Job) -> bool:
    return any(table.jobs[slot] is job and table.live[slot] is not None for slot in range(len(table.jobs)))
