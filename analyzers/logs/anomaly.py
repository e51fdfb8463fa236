"""Tells a run in trouble from a healthy one: stall, divergence, slow-down, straggling rank, loss spike.

Thresholds are ratios to the run's own past, so that pauses for evaluation or checkpoints, recovered spikes and noisy
losses raise no alarm. In plain Python: loading numpy takes longer than judging the few hundred records that are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from statistics import median

_MIN_RECORDS = 12
#: This many records in a row above the level make a divergence, fewer a spike.
_STAYS = 5
#: The level before a spike is that of so many losses.
_SETTLED = 50
_SLOWER = 1.4
_STRAGGLES = 1.5
_SHORTEST_STALL_S = 60.0
_SHORTEST_SILENCE_S = 600.0
_FIRST_STEPS_S = 1800.0


def stall_after_s(times: Sequence[float]) -> float:
    """Silence of how many seconds is a stall, given the times of the latest progress records.

    Three times the usual gap; more where longer gaps have occurred (evaluation, checkpoints); half an hour while too
    few records are known, because compilation and data loading come first.
    """
    gaps = sorted(b - a for a, b in pairwise(times) if b > a)
    if len(gaps) < 3:
        return max(_FIRST_STEPS_S, 10 * gaps[-1] if gaps else 0.0)
    longest = gaps[-2] if len(gaps) >= 20 else gaps[-1]
    return max(3 * median(gaps), 1.5 * longest, _SHORTEST_STALL_S)


def silence_after_s(times: Sequence[float]) -> float:
    """Silence of how many seconds is a stall where nothing but time stamps is understood.

    More cautious than `stall_after_s`, because ordinary lines come in bursts: three times the longest gap, ten times
    the usual one, ten minutes.
    """
    gaps = sorted(b - a for a, b in pairwise(times) if b > a)
    if len(gaps) < 3:
        return max(_FIRST_STEPS_S, 10 * gaps[-1] if gaps else 0.0)
    return max(10 * median(gaps), 3 * gaps[-1], _SHORTEST_SILENCE_S)


def divergence(losses: Sequence[float]) -> str | None:
    """``"divergence"`` when the loss is not finite or far too high and stays so, ``"loss_spike"`` when it has just
    jumped, else None. ``losses`` are the latest training losses in order."""
    broken = _count_back(losses, lambda loss: not math.isfinite(loss))
    if broken >= 2:
        return "divergence"
    finite = [loss for loss in losses if math.isfinite(loss)]
    high, raised = _high_at_end(finite)
    if broken:
        return "divergence" if high else "loss_spike"
    if high >= _STAYS and not _comes_down(finite, high):
        return "divergence"
    if raised:
        settled = finite[len(finite) // 10 : -raised][-_SETTLED:]
        if settled and min(finite[-raised:]) > 0 and max(finite[-raised:]) > 1.5 * max(settled):
            return "loss_spike"
    return None


def _count_back(values: Sequence[float], test: Callable[[float], bool]) -> int:
    count = 0
    for value in reversed(values):
        if not test(value):
            break
        count += 1
    return count


def _high_at_end(losses: Sequence[float]) -> tuple[int, int]:
    """How many of the last losses stand far above the best level reached, in ratio and in noise; and how many are not
    back near it, if one of those was so far above."""
    if len(losses) < _MIN_RECORDS:
        return 0, 0
    best = min(sorted(losses[at : at + _STAYS])[_STAYS // 2] for at in range(len(losses) - _STAYS + 1))
    noise = 1.4826 * median(abs(after - before) for before, after in pairwise(losses))
    above = max(abs(best), 8 * noise)
    high = _count_back(losses, lambda loss: loss > best + above)
    raised = _count_back(losses, lambda loss: loss > best + above / 2)
    return high, raised if raised and max(losses[-raised:]) > best + above else 0


def _comes_down(losses: Sequence[float], high: int) -> bool:
    """Whether the high losses at the end are few and fall: a spike that takes its time to recover."""
    if high > len(losses) / 10:
        return False
    third = max(1, high // 3)
    settled = median(losses[-high - _SETTLED : -high])
    first, last = (median(some) - settled for some in (losses[-high : third - high], losses[-third:]))
    return last < 0.7 * first


def slowdown(paces: Sequence[float]) -> int | None:
    """Where the pace got persistently worse and stayed so, as an index into ``paces``; None when it did not.

    ``paces`` are seconds per step of consecutive intervals; the first ones are left out (warm-up).
    """
    skipped = 2
    n = len(paces) - skipped
    if n < _MIN_RECORDS or not all(pace > 0 for pace in paces[skipped:]):
        return None
    values = paces[skipped:]
    middle = median(values)
    at = _steepest([math.log(min(max(value, middle / 8), middle * 8)) for value in values])
    if at is None:
        return None
    before, after = sorted(values[:at]), sorted(values[at:])
    usual = median(before)
    worse = (
        median(after) > _SLOWER * usual
        and median(values[-_STAYS:]) > _SLOWER * usual
        and sum(value > 1.2 * usual for value in after) / len(after) >= 0.85
        and _quantile(after, 0.2) > _quantile(before, 0.8)
    )
    return at + skipped if worse else None


def _steepest(values: Sequence[float]) -> int | None:
    """Where to part values so that those after it lie above those before it, and by most; None where none do. At least
    `_STAYS` are left on each side."""
    n, best, found = len(values), 0.0, None
    sums = list(accumulate(values))
    for at in range(_STAYS, n - _STAYS + 1):
        left, right = sums[at - 1] / at, (sums[-1] - sums[at - 1]) / (n - at)
        gain = (right - left) * (right - left) * at * (n - at) if right > left else 0.0
        if gain > best:
            best, found = gain, at
    return found


def _quantile(ascending: Sequence[float], share: float) -> float:
    """The value that a share of them (0..1) lies below, between two of them in proportion."""
    place = share * (len(ascending) - 1)
    low = int(place)
    above = ascending[min(low + 1, len(ascending) - 1)]
    return ascending[low] + (above - ascending[low]) * (place - low)


def straggler(paces: dict[int, float]) -> int | None:
    """The rank whose own seconds per step stand well above all others', or None. Needs three ranks."""
    if len(paces) < 3:
        return None
    slowest = max(paces, key=lambda rank: paces[rank])
    others = [pace for rank, pace in paces.items() if rank != slowest]
    return slowest if paces[slowest] > _STRAGGLES * median(others) and paces[slowest] > 1.2 * max(others) else None


def lagging(steps: dict[int, int], stride: int) -> int | None:
    """The rank that is many records (of ``stride`` steps) behind while the others are together, or None."""
    if len(steps) < 3:
        return None
    slowest = min(steps, key=lambda rank: steps[rank])
    others = [step for rank, step in steps.items() if rank != slowest]
    together = max(others) - min(others) <= 2 * stride
    return slowest if together and min(others) - steps[slowest] > 5 * stride else None
