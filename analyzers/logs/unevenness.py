"""How uneven a run's gaps and pauses are, so that what is unusual can be told from what is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from analyzers.logs.series import Series

_RECENT = 64
#: While fewer gaps are known.
_FEWEST = 4
#: The latest gaps tell a pace that has changed where they differ by so many of their own standard errors.
_LATEST, _CHANGED = 10, 4.0
_FEWEST_GAPS, _FEW_GAPS = 6, 20
_AROUND = 4
#: Deviations from a median that the value itself belongs to are smaller by so much.
_FEW_BIAS, _AROUND_BIAS = 1.3, 1.1
_MOST_SCATTER = 0.6
#: One standard deviation above the middle of a normal variable.
_ABOVE = 0.841
#: How much the lengths of pauses scatter (of their logarithm) before any is known, and how many that is worth.
_USUAL_SPREAD, _WORTH = 0.25, 3
#: So many standard deviations of a pause's length are passed by once in some hundred pauses.
_LONG_SIGMAS = 3.0


def usual_gap(series: Series, whole_seconds: bool) -> float | None:
    """Seconds from record to record, without pauses, at the present pace; None while too few are known."""
    latest = series.recent()[-_RECENT:]
    gaps = [
        b.at - a.at
        for a, b in pairwise(latest)
        if a.at is not None and b.at is not None and b.at > a.at and a.gap == b.gap
    ]
    if len(gaps) < _FEWEST:  # most of the lines are passed over
        gaps = [b.at - a.at for a, b in pairwise(latest) if a.at is not None and b.at is not None]
        gaps = [gap for gap in gaps if gap > 0]
    if len(gaps) < _FEWEST:
        return None
    usual, lately = median(gaps), median(gaps[-_LATEST:])
    if len(gaps) < _FEW_GAPS:
        return usual
    error = 1.25 * scatter(series, usual, whole_seconds=False) / math.sqrt(_LATEST)
    error += 1 / usual if whole_seconds else 0.02
    return lately if abs(math.log(lately / usual)) > _CHANGED * error else usual


def scatter(series: Series, gap: float, *, whole_seconds: bool) -> float:
    """How uneven the gaps are: the standard deviation of their logarithms from those around them, so that neither
    pauses nor a slow stretch count. ``gap`` is the usual one, in seconds."""
    times = [record.at for record in series.recent() if record.at is not None]
    gaps = [math.log(b - a) for a, b in pairwise(times) if b > a]
    if len(gaps) < _FEWEST_GAPS:
        return 0.0
    if len(gaps) < _FEW_GAPS:
        middle = median(gaps)
        off, bias = [gap - middle for gap in gaps], _FEW_BIAS
    else:
        inner = range(_AROUND, len(gaps) - _AROUND)
        off, bias = [gaps[at] - median(gaps[at - _AROUND : at + _AROUND + 1]) for at in inner], _AROUND_BIAS
    rounding = 0.5 / gap if whole_seconds else 0.0
    both, above = 1.4826 * median(map(abs, off)), sorted(off)[int(_ABOVE * len(off))]  # long gaps may scatter less
    return min(max(0.0, bias * min(both, above) - rounding), _MOST_SCATTER)


def longest_again(seconds: Sequence[float]) -> float:
    """How long a pause may last that has lasted so many ``seconds`` before (one at least): rarely is one longer."""
    logs = [math.log(one) for one in seconds]
    middle = fmean(logs)
    squares = _WORTH * _USUAL_SPREAD**2 + sum((one - middle) ** 2 for one in logs)
    spread = math.sqrt(squares / (_WORTH + len(logs) - 1))
    return max(max(seconds), math.exp(middle + _LONG_SIGMAS * spread * math.sqrt(1 + 1 / len(logs))))
