"""Shaken inputs: the same trace with every submission moved a little, so that a result is not one lucky packing.

After Tsafrir and Feitelson, "Instability in parallel job scheduling simulation: the role of workload flurries" (IPDPS
2006): one long job that just misses a gap moves the mean of a whole trace, so figures are means over many shakes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from analyzers.types import JobRecord

#: How far a submission is moved at most, either way.
SHAKE_S = 30.0


def shaken(records: Iterable[JobRecord], seed: int, within_s: float = SHAKE_S) -> list[JobRecord]:
    """The records with every submission moved by a uniform draw from -``within_s`` to ``within_s`` seconds, in order of
    the new times; ties keep their order. The same seed gives the same shake. ``ValueError`` for a negative width."""
    if not within_s >= 0:
        raise ValueError(f"submissions can not be moved by up to {within_s} s")
    given = list(records)
    moved_s = np.random.default_rng(seed).uniform(-within_s, within_s, len(given)).tolist()
    moved = [replace(record, submit_s=record.submit_s + by_s) for record, by_s in zip(given, moved_s, strict=True)]
    return sorted(moved, key=lambda record: record.submit_s)
