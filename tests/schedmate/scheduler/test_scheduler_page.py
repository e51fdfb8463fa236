"""docs/scheduler.md tells what is there: the picture shows the steps that run, and each test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.cycle_picture import PATH, STEPS, picture
from schedmate.scheduler import POLICIES, ClusterSpec, Scheduler

PAGE = Path(__file__).parents[3] / "docs" / "scheduler.md"


def test_the_picture_shows_the_steps_of_a_cycle() -> None:
    scheduler = Scheduler(ClusterSpec.uniform(1), POLICIES["core"])
    assert [name for name, *_ in STEPS] == [action.__name__ for action in scheduler.actions]  # type: ignore[attr-defined]
    assert PATH.read_text(encoding="utf-8") == picture(), "draw it again: python -m benchmarks.cycle_picture"


def rows() -> list[tuple[str, str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [(cells[0].strip(), cells[2]) for cells in table[2:]]


@pytest.mark.parametrize(("guarantee", "tests"), rows())
def test_each_guarantee_names_tests_that_exist(guarantee: str, tests: str) -> None:
    scenarios = Path(__file__).parent / "scenarios"
    found = 0
    for target in re.findall(r"\]\(([^)]+)\)", tests):
        assert (PAGE.parent / target).exists(), target
        found += 1
    for name in re.findall(r"`([a-z0-9*-]+)`", re.sub(r"\[[^]]*\]\([^)]*\)", "", tests)):
        assert list(scenarios.glob(f"{name}.yaml")), f"{guarantee}: no scenario {name}"
        found += 1
    assert found or "machine" in tests, f"{guarantee} is held by nothing"
