"""Axes: from values to pixels, with ticks at round values and labels with units (joined by no-break spaces)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

NBSP = "\N{NO-BREAK SPACE}"
#: Round durations for logarithmic time axes, in seconds.
DURATIONS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps ``low..high`` to 0..1 through ``warp``; values outside are clamped. ``ticks`` are (value, label)."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    warp: Callable[[float], float]

    def place(self, value: float) -> float:
        """Position of a value in 0..1."""
        start, end = self.warp(self.low), self.warp(self.high)
        at = (self.warp(min(max(value, self.low), self.high)) - start) / (end - start)
        return min(max(at, 0.0), 1.0)


def _same(value: float) -> float:
    return value


def linear(low: float, high: float, label: Callable[[float], str], ticks: Sequence[float] | None = None) -> Scale:
    """A linear axis; without ``ticks`` about five at round values."""
    high = high if high > low else low + 1.0
    values = list(ticks) if ticks is not None else _round_steps(low, high)
    return Scale(low, high, tuple((value, label(value)) for value in values), _same)


def logarithmic(low: float, high: float, label: Callable[[float], str], ticks: Sequence[float] = DURATIONS_S) -> Scale:
    """A logarithmic axis with those of ``ticks`` that lie on it; ``low`` must be above 0."""
    high = high if high > low else low * 10
    inside = tuple((value, label(value)) for value in ticks if low <= value <= high)
    return Scale(low, high, inside, math.log10)


def duration(seconds: float) -> str:
    """Seconds in the largest unit that leaves a readable number: ``45 s``, ``12 min``, ``3.5 h``, ``2 d``."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit * (2 if unit == 86_400 else 1):
            value = seconds / unit
            digits = 0 if value >= 9.95 or value == round(value) else 1
            return f"{value:.{digits}f}{NBSP}{name}"
    return f"{seconds:.0f}{NBSP}s"


def tick_duration(seconds: float) -> str:
    """A duration for a tick: whole units, one day as ``1 d``."""
    return f"1{NBSP}d" if seconds == 86_400 else duration(seconds)


def percent(share: float) -> str:
    """A share as whole per cent."""
    return f"{100 * share:.0f}{NBSP}%"


def _round_steps(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    digits = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * digits for factor in (1, 2, 2.5, 5, 10) if factor * digits >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]
