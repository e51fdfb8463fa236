"""Moves of running jobs: on random jobs all promises hold and the books add up; budgets, by hand."""

from __future__ import annotations

import importlib.util
import math
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job, PoolSpec, Quota, Scheduler, Tenant
from schedmate.scheduler.cluster_types import NodeShape
from schedmate.scheduler.disruption import HOUR_S, Disruption, Ledger, Paid
from schedmate.scheduler.policies import at_once, by_submission
from schedmate.scheduler.topology import Topology


def _world() -> Any:
    spec = importlib.util.spec_from_file_location("world", Path(__file__).with_name("world.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules["world"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EAGER = Disruption(
    every_s=0.0,
    moves=2000.0,
    lost_share=0.01,
    price=1.0,
    moves_per_job=3,
    rest_s=2.0,
    tenant_share=3.0,
    left_broken=0.0,
)
CORE = replace(POLICIES["core"], order=by_submission, reserve_from=at_once, starvation_bound_s=60.0, defragment=EAGER)
DETAILED = ClusterSpec((PoolSpec.detailed("gpu", ((12, NodeShape(4)),), Topology.regular(12, {"leaf": 3})),))


@pytest.mark.parametrize("spec", [ClusterSpec.uniform(12, 4), DETAILED], ids=["plain", "detailed"])
@pytest.mark.parametrize("tenants", [(), (Tenant("a"), Tenant("b"))], ids=["alone", "tenants"])
def test_random_jobs_that_save_their_state(spec: ClusterSpec, tenants: tuple[Tenant, ...]) -> None:
    world, moves = _world(), 0
    for seed in range(6):
        rng = random.Random(seed)
        place = world.World(spec, CORE, tenants)
        for _ in range(60):
            runtime_s = float(rng.randint(1, 40))
            asks: dict[str, Any] = {
                "gpus": rng.choice((1, 1, 2, 2, 3, 3, 8, 16)),
                "limit_s": runtime_s + rng.randint(0, 9),
            }
            asks["hints"] = Hints(runtime_s, runtime_s + rng.randint(0, 5))
            if asks["gpus"] < 4 and rng.random() < 0.8:
                asks |= {"preemptible": True, "checkpoint_s": 2.0, "restart_s": float(rng.randint(0, 1))}
            if tenants:
                asks["tenant"] = rng.choice("ab")
            place.submit(runtime_s, **asks)
            place.advance(float(rng.randint(0, 4)))
        place.advance(400.0)
        assert not place.tracks, "all jobs have ended: what was moved goes on from its checkpoint and ends"
        moves += len(place.moved)
    assert moves > 30, "and something was moved"


def scheduler_with(changes: dict[str, Any], jobs: int = 6) -> tuple[Scheduler, list[int]]:
    """Single GPUs, each alone on a node of two."""
    policy = replace(CORE, defragment=replace(EAGER, **changes))
    scheduler = Scheduler(ClusterSpec.uniform(jobs, 2), policy)
    fixed, small = [], []
    for i in range(jobs):
        fixed.append(scheduler.submit(Job(f"fixed{i}", 1, 0.0, limit_s=1e6)))
        saves = Job(f"small{i}", 1, 0.0, limit_s=1e6, preemptible=True, checkpoint_s=10.0)
        small.append(scheduler.submit(saves))
    scheduler.cycle(0.0)
    for slot in fixed:
        scheduler.end(slot, 1.0)
    return scheduler, small


def moved_in(scheduler: Scheduler, now: float) -> int:
    scheduler.submit(Job(f"tick{now}", 1, now, limit_s=1.0, gpu_type="gpu"))
    scheduler.cycle(now)
    return len(scheduler.migrated)


def test_moves_halve_the_broken_nodes() -> None:
    scheduler, small = scheduler_with({})
    assert scheduler.state.cluster.fragmented_nodes() == 6
    scheduler.cycle(50.0)
    assert scheduler.state.cluster.fragmented_nodes() == 0
    assert len(scheduler.migrated) == 3
    assert set(scheduler.migrated) <= set(small) & set(scheduler.evicted)
    assert all("so that fewer nodes are broken" in scheduler.decision(slot).reason for slot in scheduler.migrated)


@pytest.mark.parametrize(
    ("changes", "moves"),
    [
        ({"moves": 0.0}, 0),
        ({"moves": 2 * 1000 / 12}, 2),
        ({"lost_share": 0.0}, 0),
        ({"moves_per_job": 0}, 0),
        ({"left_broken": 1.0}, 0),
        ({"price": 0.0}, 0),
    ],
)
def test_each_budget_binds(changes: dict[str, Any], moves: int) -> None:
    scheduler, _ = scheduler_with(changes)
    scheduler.cycle(55.0)
    assert len(scheduler.migrated) == moves


def test_a_discarded_cycle_spends_nothing() -> None:
    scheduler, _ = scheduler_with({})
    layer = scheduler.state.layer
    assert layer is not None
    before = layer.ledger
    scheduler.transaction.begin()
    for action in scheduler.actions:
        action(scheduler.state, scheduler.transaction, 50.0)
    assert len(layer.ledger.paid) == 3
    scheduler.transaction.discard()
    assert layer.ledger is before
    assert layer.migrated == ()
    assert scheduler.state.cluster.fragmented_nodes() == 6


def test_the_look_for_moves_waits_its_turn() -> None:
    scheduler, _ = scheduler_with({"every_s": 30.0, "moves": 1000 / 12})
    scheduler.cycle(50.0)
    assert len(scheduler.migrated) == 1
    scheduler.end(scheduler.migrated[0], 60.0)
    scheduler.cycle(60.0)
    assert scheduler.migrated == ()


def test_who_was_moved_has_a_rest() -> None:
    """Two are left alone with one who was moved; it is moved again when it has rested, and not before."""
    scheduler, _ = scheduler_with({"rest_s": 500.0, "moves": 2000.0})
    scheduler.cycle(50.0)
    moved = set(scheduler.migrated)
    shares = scheduler.state.table.shares
    for slot, at in [(slot, shares[slot]) for slot in scheduler.state.table.running()]:
        if slot not in moved and any(at and (shares[other] or ())[0][0] == at[0][0] for other in moved):
            scheduler.end(slot, 60.0)
    assert scheduler.state.cluster.fragmented_nodes() == 3
    scheduler.cycle(60.0)
    assert scheduler.migrated == ()
    scheduler.submit(Job("tick", 2, 550.0, limit_s=1.0))
    scheduler.cycle(550.0)
    assert len(scheduler.migrated) == 1
    assert set(scheduler.migrated) <= moved


def test_nobody_is_moved_but_right_after_it_saved_its_state() -> None:
    """Each is alone on its node and saves every 10 s."""
    scheduler, small = scheduler_with({"fresh_s": 2.0})
    scheduler.cycle(9.0)
    assert scheduler.migrated == (), "nothing is saved yet"
    assert scheduler.wake_s == 10.0
    scheduler.cycle(15.0)
    assert scheduler.migrated == (), "5 s of work would have to be done again"
    assert scheduler.wake_s == 20.0
    scheduler.cycle(21.0)
    assert len(scheduler.migrated) == 3
    assert all(scheduler.state.table.done_s[slot] == 20.0 for slot in scheduler.migrated)
    assert set(scheduler.migrated) <= set(small)
    assert scheduler.wake_s == math.inf


def saving(name: str, gpus: int, submit_s: float) -> Job:
    return Job(name, gpus, submit_s, limit_s=1e6, preemptible=True, checkpoint_s=10.0)


def test_who_shares_a_node_leaves_it_one_by_one() -> None:
    """Two on a node of 8 save at different times; the other nodes have fixed jobs and holes."""
    policy = replace(CORE, defragment=replace(EAGER, fresh_s=1.0))
    scheduler = Scheduler(ClusterSpec.uniform(2, 8), policy)
    scheduler.submit(Job("fixed", 6, 0.0, limit_s=1e6))
    full = scheduler.submit(Job("fills", 2, 0.0, limit_s=1e6))
    one = scheduler.submit(saving("one", 1, 0.0))
    scheduler.cycle(0.0)
    two = scheduler.submit(saving("two", 1, 5.0))
    scheduler.cycle(5.0)
    scheduler.end(full, 7.0)
    scheduler.cycle(7.0)
    assert scheduler.state.cluster.fragmented_nodes() == 2
    assert scheduler.wake_s == 10.0
    scheduler.cycle(10.0)
    assert scheduler.migrated == (one,)
    assert scheduler.wake_s == 15.0
    scheduler.cycle(15.0)
    assert scheduler.migrated == (two,)
    assert scheduler.state.cluster.fragmented_nodes() == 0
    scheduler.cycle(40.0)
    assert scheduler.migrated == (), "and nobody is moved to and fro"


@pytest.mark.parametrize(("hole", "moves"), [(4, 2), (5, 0)])
def test_a_full_node_is_cleared_if_that_fills_up_others(hole: int, moves: int) -> None:
    """Two jobs of 4 fill a node of 8, two fixed ones leave a hole each: exact ones are filled, others left alone."""
    scheduler = Scheduler(ClusterSpec.uniform(3, 8), CORE)
    pair = [scheduler.submit(saving(f"small{i}", 4, 0.0)) for i in range(2)]
    scheduler.cycle(0.0)
    ending = []
    for i in range(2):
        scheduler.submit(Job(f"fixed{i}", 8 - hole, 0.0, limit_s=1e6))
        ending.append(scheduler.submit(Job(f"ends{i}", hole, 0.0, limit_s=1e6)))
        scheduler.cycle(0.0)
    for slot in ending:
        scheduler.end(slot, 1.0)
    assert scheduler.state.cluster.fragmented_nodes() == 2
    scheduler.cycle(10.0)
    assert len(scheduler.migrated) == moves
    assert set(scheduler.migrated) <= set(pair)
    assert scheduler.state.cluster.fragmented_nodes() == (0 if moves else 2)


def test_the_ledger_keeps_an_hour_and_the_jobs_that_run() -> None:
    ledger = Ledger().entered([(3, 7, Paid(0.0, 0, 5.0))], {}, 0.0)
    ledger = ledger.entered([(4, 8, Paid(10.0, 1, 6.0))], {3: 7}, 10.0)
    assert ledger.of(3, 7).times == ledger.of(4, 8).times == 1
    assert ledger.of(3, 9).times == 0, "the slot is another job's by now"
    ledger = ledger.entered([(4, 8, Paid(HOUR_S + 5, 1, 6.0))], {4: 8}, HOUR_S + 5)
    assert [paid.at_s for paid in ledger.paid] == [10.0, HOUR_S + 5]
    assert ledger.of(4, 8).times == 2
    assert 3 not in ledger.jobs


@pytest.mark.parametrize(
    "wrong",
    [{"every_s": -1.0}, {"moves": float("nan")}, {"moves_per_job": -1}, {"tenant_share": 0.5}, {"fresh_s": -1.0}],
)
def test_budgets_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="budget"):
        Disruption(**wrong)


def test_plans_that_count_on_the_quota_of_a_job_keep_it_where_it_is() -> None:
    """Tenant ``a`` may use 4 GPUs; its wide job is promised the quota that its small ones give back by their limits."""
    spec, tenants = ClusterSpec.uniform(4, 4), [Tenant("a", {"gpu": Quota(4.0, 0.0)}), Tenant("b")]
    scheduler = Scheduler(spec, CORE, tenants)
    holders = [scheduler.submit(Job(f"b{i}", 3, 0.0, limit_s=500.0, tenant="b")) for i in range(2)]
    scheduler.cycle(0.0)
    save = {"preemptible": True, "checkpoint_s": 7.0, "restart_s": 50.0, "tenant": "a"}
    small = [scheduler.submit(Job(f"a{i}", 1, 0.0, limit_s=100.0, **save)) for i in range(2)]  # type: ignore[arg-type]
    scheduler.cycle(0.0)
    wide = scheduler.submit(Job("wide", 4, 1.0, limit_s=10.0, tenant="a"))
    scheduler.cycle(1.0)
    promised_s = scheduler.decision(wide).guaranteed_start_s
    for now in (10.0, 20.0, 60.0):
        scheduler.cycle(now)
        assert scheduler.migrated == ()
    for slot in small:
        scheduler.end(slot, 100.0)
    assert promised_s is None or promised_s <= 100.0
    assert wide in scheduler.cycle(100.0)
    assert holders
