"""Useful work over time: what jobs have done by a moment, without starting up and without what moves threw away.

By the end all policies have done the same work. What differs is when: of two policies on the same submissions the one
that has done more by each moment has gained GPU time, whatever part of the GPUs was allocated meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.bounds import Arrival

DAY_S = 86400.0

Floats = NDArray[np.float64]


def done_by_day(steps: Sequence[tuple[float, float]], days: float) -> list[float]:
    """GPU seconds done by the end of each day. ``steps`` are (time, GPU seconds done by then), straight in between."""
    times, done = np.array(steps, dtype=float).T
    ends = np.append(np.arange(DAY_S, days * DAY_S, DAY_S), days * DAY_S)
    return [float(each) for each in np.interp(ends, times, done)]


def mean_delay_s(rows: Sequence[Arrival], steps: Sequence[tuple[float, float]]) -> float:
    """How much later than with every job run from its submission a GPU second of work was done, on average.

    ``steps`` as for `done_by_day`, until all is done; ``ValueError`` if it is not.
    """
    times, done = np.array(steps, dtype=float).T
    asked = sum(row.gpus * row.duration_s for row in rows)
    if abs(done[-1] / asked - 1.0) > 1e-6:
        raise ValueError(f"{done[-1]:.0f} of {asked:.0f} GPU seconds are done")
    done_area = float(np.trapezoid(done, times)) + asked * _after(rows, times[-1])
    return (_existing_area(rows, max(float(times[-1]), _last_s(rows))) - done_area) / asked


def _last_s(rows: Sequence[Arrival]) -> float:
    return max(row.submit_s + row.duration_s for row in rows)


def _after(rows: Sequence[Arrival], last_s: float) -> float:
    return max(0.0, _last_s(rows) - last_s)


def _existing_area(rows: Sequence[Arrival], until_s: float) -> float:
    """The integral of `existing_gpu_s` until all exists and beyond."""
    submit, gpus, run = (np.array([getattr(r, f) for r in rows]) for f in ("submit_s", "gpus", "duration_s"))
    area: Floats = gpus * run * (until_s - submit - run / 2)
    return float(area.sum())
