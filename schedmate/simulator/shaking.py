"""Perturbed inputs: how much of a difference between two policies is the accident of one sequence of arrivals.

A schedule is chaotic: one job submitted a second earlier can change the mean wait by a third. So a trace is replayed
several times with its submit times moved a little (Tsafrir and Feitelson, "Instability in Parallel Job Scheduling
Simulation", IPDPS 2006), and what is compared are the means over these replays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analyzers.types import JobRecord

SHAKE_S = 30.0


def shaken(records: Sequence[JobRecord], seed: int, within_s: float = SHAKE_S) -> list[JobRecord]:
    """Every submit time moved by a uniform random time of at most ``within_s`` seconds, in order of submission again.

    The same seed gives the same moves, whatever the policy; seed 0 moves nothing.
    """
    if seed == 0:
        return list(records)
    moves_s = np.random.default_rng(seed).uniform(-within_s, within_s, len(records)).tolist()
    moved = [replace(record, submit_s=record.submit_s + by) for record, by in zip(records, moves_s, strict=True)]
    return sorted(moved, key=lambda record: record.submit_s)


def at_load(records: Sequence[JobRecord], factor: float) -> list[JobRecord]:
    """The same jobs arriving ``factor`` times as fast: times between submissions shrink, runtimes do not."""
    if not records or factor == 1.0:
        return list(records)
    first_s = records[0].submit_s
    return [replace(record, submit_s=first_s + (record.submit_s - first_s) / factor) for record in records]
