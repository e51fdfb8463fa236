"""The random histories of the state machine where one running job is a crowd: plans and victims have to wait for their
turn, and everything that is promised still holds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from schedmate.scheduler.actions import defragment, fill, plan, preempt


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


random_events = _beside("random_events")
world = _beside("world")
POLICIES = random_events.policies()
CORE = sorted(name for name in POLICIES if name.startswith("core"))


def crowd(patch: pytest.MonkeyPatch, many_running: int, crowded: int) -> None:
    patch.setattr(plan, "MANY_RUNNING", many_running)
    patch.setattr(defragment, "MANY_RUNNING", many_running)
    patch.setattr(preempt, "CROWD", crowded)
    # Who starves has its reservation a second later at most, and until then the next cycle is not asked about it.
    patch.setattr(world.World, "_helped", lambda *_: None)


def history(policy: str, seed: int, events: int) -> Any:
    """What was decided; everything is checked after every cycle."""
    draw = random_events.Seeded(seed)
    spec = random_events.cluster(draw)
    place = world.World(spec, POLICIES[policy], random_events.tenants(draw, spec))
    while place.events < events:
        random_events.event(place, draw, True)
    return place.history


@pytest.mark.parametrize("policy", CORE)
def test_where_all_are_crowded_promises_hold(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd(monkeypatch, 1, 1)
    assert all(history(policy, seed, 60) for seed in range(6))


@pytest.mark.parametrize(
    ("policy", "seed", "events", "many_running", "crowded"),
    [
        # What a discarded search had found counted as no search in the next cycle.
        ("easy with the layer, preempting", 30045, 80, 1000, 1),
        # A pool that is crowded no more: its plans did not follow what had ended while it was.
        ("core at once", 5004, 100, 1, 200),
        # Whoever made way could start on another pool, and nobody looked there.
        ("core at once", 70000, 80, 1, 200),
        ("core, two reserved", 70000, 80, 1, 1),
    ],
)
def test_what_once_went_wrong_in_a_crowd(
    policy: str, seed: int, events: int, many_running: int, crowded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(monkeypatch, many_running, crowded)
    assert history(policy, seed, events)


def test_a_higher_class_passes_the_head_of_a_strict_queue_by_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among many who wait a whole tenant was left out when the head of one of its queues was blocked."""
    crowd(monkeypatch, 1000, 1)
    one_by_one = history("easy with the layer, preempting", 70002, 80)
    for name, size in (("FEW", 0), ("TRIES", 0), ("MANY", -1)):
        monkeypatch.setattr(fill, name, size)
    assert history("easy with the layer, preempting", 70002, 80) == one_by_one
