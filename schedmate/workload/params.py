"""The numbers of ``data/parameters.yaml`` and ``data/physics.yaml``, which name their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analyzers.types import Outcome
from prompts.errors import UserError

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Profile:
    """Published shares of one data centre: how jobs end, and how many GPUs training jobs ask for."""

    outcomes: Mapping[Outcome, float]
    gpus: Mapping[int, float]


@cache
def read_data(name: str) -> Mapping[str, Any]:
    """One of the data files as plain values."""
    loaded: dict[str, Any] = yaml.safe_load((DATA / f"{name}.yaml").read_text(encoding="utf-8"))
    return loaded


def parameters() -> Mapping[str, Any]:
    """What users, sessions and ends are drawn from."""
    return read_data("parameters")


def physics() -> Mapping[str, Any]:
    """What step times, start-ups and memory are computed from."""
    return read_data("physics")


def profile_named(name: str) -> Profile:
    """The published shares of that name; `UserError` names those that there are."""
    known = parameters()["profiles"]
    if name not in known:
        raise UserError(f"workload profile {name!r}: not known", f"give one of {', '.join(known)}")
    return Profile(known[name]["outcomes"], known[name]["gpus"])
