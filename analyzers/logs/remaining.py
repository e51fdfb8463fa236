"""How long a run still takes: at its present pace, with the pauses that keep coming, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median, pstdev
from typing import NamedTuple

from analyzers.logs.pace import Interval

#: The first intervals hold compilation and data loading.
_WARM_UP = 2
_FEWEST = 6
#: An interval this much slower than usual holds a pause; one this many times the next longest is a one-off stall.
_PAUSED = 1.6
_ONE_OFF = 3.0
#: More slow intervals in a row are a slow stretch, not a pause.
_LONGEST_PAUSE = 2
#: The interval is to hold the truth in four of five runs that go on as they have; 1.28 standard deviations do.
_SIGMAS = 1.28
_CHUNKS = 10
#: Rounding, drift, and what comes at the end; and what may still come that has not been seen.
_FLOOR, _UNSEEN = 0.03, 0.06
#: At the beginning of a run its evaluations and checkpoints are still to come.
_UNSEEN_PAUSES = 0.2
#: So is all that makes a run slower and has not happened yet (others' load, longer samples, another phase): the more is
#: left for each step that was seen, up to so many.
_UNSEEN_AHEAD, _FARTHEST = 0.03, 10.0
_WITHOUT_HISTORY = 0.25


class Remaining(NamedTuple):
    """Seconds to the end of the run, and the bounds of an interval that holds it in four cases of five."""

    seconds: float
    low: float
    high: float


def remaining(steps_left: float, pace: float, found: Sequence[Interval]) -> Remaining:
    """``pace`` in seconds per step without pauses; ``found`` are the intervals at about this pace, in order."""
    pauses = pause_per_step(found)
    seconds = steps_left * (pace + pauses)
    spread = _spread(found, steps_left)
    done = sum(interval.steps for interval in found)
    unseen = _UNSEEN + (0.0 if pauses or not found else _UNSEEN_PAUSES * steps_left / (steps_left + done))
    unseen += _UNSEEN_AHEAD * (min(_FARTHEST, steps_left / done) if done > 0 else _FARTHEST)
    return Remaining(seconds, seconds * max(0.0, 1 - spread), seconds * (1 + spread + unseen))


def pause_per_step(found: Sequence[Interval]) -> float:
    """Seconds of recurring pauses (evaluation, checkpoints) that come on top of each step's own; 0 while none recurs or
    is known for what it was."""
    kept, usual = _without_one_offs(found[_WARM_UP:])
    paused = [interval for interval in kept if interval.pace > _PAUSED * usual]
    if len(paused) < 2 and not any(interval.is_explained for interval in paused):
        return 0.0
    return max(0.0, sum(i.seconds - i.steps * usual for i in kept) / sum(i.steps for i in kept))


def _without_one_offs(found: Sequence[Interval]) -> tuple[list[Interval], float]:
    """What is likely to come again, and the usual pace: without single long stalls and without slow stretches."""
    if len(found) < _FEWEST:
        return [], 0.0
    usual = median(interval.pace for interval in found)
    alike = []
    for is_long, some in groupby(found, key=lambda interval: interval.pace > _PAUSED * usual):
        stretch = list(some)
        if not is_long or len(stretch) <= _LONGEST_PAUSE:
            alike += stretch
    pauses = sorted(i.seconds - i.steps * usual for i in alike if i.pace > _PAUSED * usual)
    longest = _ONE_OFF * pauses[-2] if len(pauses) >= 2 else 0.0  # short ones of another kind may be far more
    kept = [i for i in alike if i.pace <= _PAUSED * usual or i.is_explained or i.seconds - i.steps * usual <= longest]
    return kept, usual


def _spread(found: Sequence[Interval], steps_left: float) -> float:
    """Half the interval's width as a share: how much the pace over stretches as long as this has varied so far."""
    kept, _ = _without_one_offs(found[_WARM_UP:])
    if len(kept) < _FEWEST:
        return _WITHOUT_HISTORY
    size = math.ceil(len(kept) / _CHUNKS)
    chunks = [kept[at : at + size] for at in range(0, len(kept), size)]
    paces = [sum(i.seconds for i in chunk) / sum(i.steps for i in chunk) for chunk in chunks]
    ahead = max(1.0, steps_left / fmean(sum(i.steps for i in chunk) for chunk in chunks))
    return min(1.0, _FLOOR + _SIGMAS * pstdev(paces) / fmean(paces) * math.sqrt(1 / len(chunks) + 1 / ahead))
