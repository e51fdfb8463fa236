"""Few who might start are looked at one by one, many by class: that changes no decision."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedmate.scheduler.actions import fill


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


random_events = _beside("random_events")
world = _beside("world")
LAYERED = {name: policy for name, policy in random_events.policies().items() if policy.reservations is not None}


def history(policy: str, seed: int, events: int, few: int) -> Any:
    """What was decided, where so ``few`` are looked at one by one; -1: nobody is."""
    draw = random_events.Seeded(seed)
    spec = random_events.cluster(draw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fill, "FEW", few)
        patch.setattr(world, "stuck", lambda scheduler: [])  # two ways are compared here, right or wrong
        place = world.World(spec, LAYERED[policy], random_events.tenants(draw, spec))
        while place.events < events:
            random_events.event(place, draw, True)
    return place.history


@settings(max_examples=80, deadline=None)
@given(policy=st.sampled_from(sorted(LAYERED)), seed=st.integers(0, 1 << 30))
def test_one_by_one_and_by_class_the_same_start(policy: str, seed: int) -> None:
    by_class = history(policy, seed, 60, few=-1)
    assert history(policy, seed, 60, few=1000) == by_class
    assert history(policy, seed, 60, few=2) == by_class, "now by one and now by the other"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_same_start_where_some_stand_by(seed: int) -> None:
    policy = "core, patient, two planned, two reserved"
    assert history(policy, seed, 80, few=1000) == history(policy, seed, 80, few=-1)
