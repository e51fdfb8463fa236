"""Scenarios: what a scheduler must do in a situation, written in a few lines of YAML and played on the real core."""

from schedmate.simulator.scenario.checks import play
from schedmate.simulator.scenario.reader import needs, read_scenario, variations
from schedmate.simulator.scenario.types import Scenario

__all__ = ["Scenario", "needs", "play", "read_scenario", "variations"]
