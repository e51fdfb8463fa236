"""The policies that the demo compares, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Play:
    """One replay. ``key`` names it in JSON and gives its colour; ``knows`` is what it may know of runtimes."""

    key: str
    policy: str
    knows: Literal["requested", "predicted", "perfect"]
    title: str
    words: str


PLAYS: tuple[Play, ...] = (
    Play("fifo", "fifo", "requested", "FIFO", "first in, first out, a blocked job blocks all behind it"),
    Play("easy", "easy", "requested", "EASY backfill", "backfilling with the limits that users asked for"),
    Play("core", "kant", "requested", "Core, no hints", "SchedMate's core told only the limits"),
    Play("hints", "kant", "predicted", "Core with hints", "the same core told the predicted durations"),
    Play("perfect", "kant", "perfect", "Core, perfect hints", "the same core told the true durations, for orientation"),
)
BASELINE = "fifo"
