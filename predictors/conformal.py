"""Intervals that hold: each group's widths follow what happens, in order of time.

After Gibbs and Candes, "Adaptive Conformal Inference Under Distribution Shift" (NeurIPS 2021), for every quantile and
every group (class of user, class of size) on its own: too many jobs beyond a bound and it moves out, too few and it
moves in. Nothing is assumed about how durations are distributed; what is kept is the long-run share beyond each bound.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

#: The quantiles that bound the 50, 80 and 95 % intervals.
LEVELS = (0.025, 0.1, 0.25, 0.75, 0.9, 0.975)
_REACH = 6.0
#: How far a bound moves for one job; the first jobs of a group move it further.
_STEP = 0.08
_EARLY_STEP = 0.5
#: A distance of nothing can not be widened: this much, on the log scale, is there always.
_LEAST_WIDTH = 0.02
#: Before anything was seen: distances are in units of that from the middle to the boosted 10 or 90 % quantile.
_START: tuple[float, ...] = tuple(math.log(f) for f in (1.7, 1.0, 0.5, 0.5, 1.0, 1.7))


@dataclass(slots=True)
class _Bounds:
    """Logarithms of the factors on each level's distance from the middle, and the jobs they have followed."""

    factor: list[float] = field(default_factory=lambda: list(_START))
    jobs: int = 0


class AdaptiveBounds:
    """``quantiles(group, ...)`` at `LEVELS`, and ``learn`` from what was claimed and what came true."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Bounds] = {}
        self._all = _Bounds()

    def quantiles(self, group: Hashable, low: float, middle: float, high: float) -> list[float]:
        """Log quantiles at `LEVELS`, never decreasing, around ``middle``, from rough 10 and 90 % ones."""
        bounds = self._groups.get(group) or self._all
        below = max(0.0, middle - low) + _LEAST_WIDTH
        above = max(0.0, high - middle) + _LEAST_WIDTH
        found = [
            middle - below * math.exp(factor) if level < 0.5 else middle + above * math.exp(factor)
            for level, factor in zip(LEVELS, bounds.factor, strict=True)
        ]
        half = len(LEVELS) // 2
        for i in range(half - 2, -1, -1):
            found[i] = min(found[i], found[i + 1])
        for i in range(half + 1, len(LEVELS)):
            found[i] = max(found[i], found[i - 1])
        return found

    def learn(self, group: Hashable, claimed: Sequence[float], truth: float) -> None:
        """``claimed``: what `quantiles` said, cut as it was told to people; ``truth``: the logarithm of what came."""
        own = self._groups.get(group)
        if own is None:
            own = self._groups[group] = _Bounds(list(self._all.factor))
        for bounds in (own, self._all):
            bounds.jobs += 1
            step = max(_STEP, _EARLY_STEP / math.sqrt(bounds.jobs))
            for i, (level, bound) in enumerate(zip(LEVELS, claimed, strict=True)):
                if level < 0.5:
                    moved = bounds.factor[i] + step * ((truth < bound) - level)
                else:
                    moved = bounds.factor[i] + step * ((truth > bound) - (1.0 - level))
                bounds.factor[i] = min(_REACH, max(-_REACH, moved))
