"""Random events, in any order: whatever happens, what must hold holds (see `world.py` for what that is).

The same examples every time, so that nothing fails by chance; ``SCHEDMATE_FUZZ_EXAMPLES`` asks for so many new
ones, and ``SCHEDMATE_FUZZ_EVENTS`` makes the long runs longer.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from schedmate.scheduler.assumptions import expected


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


random_events = _beside("random_events")
world = _beside("world")

EXAMPLES = int(os.environ.get("SCHEDMATE_FUZZ_EXAMPLES", "800"))
QUICK_EXAMPLES = 100
LONG_RUN_EVENTS = int(os.environ.get("SCHEDMATE_FUZZ_EVENTS", "600"))
POLICIES = random_events.policies()


def is_full(policy: str) -> bool:
    return POLICIES[policy].reservations is not None


def build(draw: Any, policy: str, twice: bool = False, gated: bool = False) -> Any:
    spec = random_events.cluster(draw)
    tenants = random_events.tenants(draw, spec) if is_full(policy) else ()
    return world.World(spec, replace(POLICIES[policy], gated=gated), tenants, twice)


class Drawn:
    """Choices from hypothesis."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def one_of(self, values: Any) -> Any:
        return self._data.draw(st.sampled_from(list(values)))


class Machine(RuleBasedStateMachine):
    """Every rule checks everything after its cycle."""

    @initialize(data=st.data(), policy=st.sampled_from(sorted(POLICIES)))
    def build(self, data: Any, policy: str) -> None:
        self.full = is_full(policy)
        self.world = build(Drawn(data), policy)

    @rule(data=st.data())
    def submit(self, data: Any) -> None:
        self.world.submit(**random_events.job(Drawn(data), self.world.spec, self.full, self.world.tenants))

    @rule(seconds=st.integers(0, 8))
    def advance(self, seconds: int) -> None:
        self.world.advance(float(seconds))

    @rule(which=st.integers(0, 7))
    def end(self, which: int) -> None:
        self.world.end(which)

    @rule(which=st.integers(0, 7))
    def withdraw(self, which: int) -> None:
        self.world.withdraw(which)

    @rule(which=st.integers(0, 7))
    def evict(self, which: int) -> None:
        self.world.evict(which)

    @rule()
    def cycle(self) -> None:
        self.world.cycle()

    @rule()
    def rehearse(self) -> None:
        self.world.rehearse()

    @rule(data=st.data())
    def hardware(self, data: Any) -> None:
        random_events.hardware(self.world, Drawn(data))


def examples(count: int) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=25,
            deadline=None,
            derandomize="SCHEDMATE_FUZZ_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )


def test_random_events_at_a_glance() -> None:
    examples(QUICK_EXAMPLES)


@pytest.mark.slow
def test_random_events() -> None:
    examples(EXAMPLES)


def run(policy: str, seed: int, events: int, twice: bool = False, gated: bool = False) -> Any:
    draw = random_events.Seeded(seed)
    place = build(draw, policy, twice, gated)
    while place.events < events:
        random_events.event(place, draw, is_full(policy))
    return place


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_long_run(policy: str) -> None:
    for seed in range(4):
        run(policy, seed, LONG_RUN_EVENTS // 4)


@pytest.mark.parametrize("policy", sorted(name for name, each in POLICIES.items() if each.assume is expected))
def test_long_run_of_a_gated_policy(policy: str) -> None:
    """With a gate that changes its mind about tenants all the time."""
    with patch.multiple("schedmate.scheduler.gate", STEP=1, OWN=2):
        for seed in range(4):
            run(policy, seed, LONG_RUN_EVENTS // 6, gated=True)


@pytest.mark.parametrize(
    ("policy", "seed", "events"),
    [
        ("core, two reserved", 12, 200),  # a plan that locks its nodes before one that is guaranteed
        ("core, two reserved", 21, 160),
        ("core, two reserved", 23, 150),  # a plan that stepped back, and those behind it stayed there
        ("core, two reserved", 202, 100),  # two plans that locked the same nodes
        ("core, all reserved", 23, 150),
        ("core, all reserved", 73, 220),  # a discarded cycle left behind when a gang may grow
        ("core, all reserved", 29, 150),  # a claim for a job of no length, and a plan that begins at once
        (
            "easy with the layer, preempting",
            2123,
            60,
        ),  # a plan took the quota of a claim
        ("conservative", 1333, 60),  # a start planned for the end of a job of no length that did not end
        ("conservative", 2118, 60),
        ("core, strict", 5000183, 120),  # who starved broke a promise
        ("core, two reserved", 5000244, 120),
        ("core, moving, two reserved, early", 104, 300),  # a replica of a service was tried, and put back
        ("core, best effort", 1322, 60),  # whoever made way could start on another pool, and nobody was woken
        ("core at once", 102, 160),  # the first started at the end of a cycle, and the next had no reservation yet
    ],
)
def test_what_once_went_wrong(policy: str, seed: int, events: int) -> None:
    run(policy, seed, events)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_seed_decides_everything(policy: str) -> None:
    started = 0
    for seed in range(4):
        first, second = run(policy, seed, 60, twice=True), run(policy, seed, 60)
        assert first.history == second.history
        started += sum(len(slots) for _, slots, _ in first.history)
    assert started > 10, "and something happened"
