"""Chance that depends on the seed and on a key only, so that nothing drawn later changes what was drawn before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Random draws below one key; the same seed and key give the same draws on every machine."""

    __slots__ = ("_random",)

    def __init__(self, seed: int, *key: object) -> None:
        self._random = Random("/".join(map(str, (seed, *key))))

    def chance(self, share: float) -> bool:
        """True for this share of all draws."""
        return self._random.random() < share

    def between(self, low: float, high: float) -> float:
        """Evenly between two numbers."""
        return low + (high - low) * self._random.random()

    def log_between(self, low: float, high: float) -> float:
        """Evenly on a logarithmic scale."""
        return math.exp(self.between(math.log(low), math.log(high)))

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self._random.random() * (high - low + 1))

    def scatter(self, sigma: float) -> float:
        """A factor around 1, log-normal with median 1."""
        return math.exp(sigma * self._random.gauss(0.0, 1.0))

    def noise(self) -> float:
        """A standard normal number."""
        return self._random.gauss(0.0, 1.0)

    def wait(self, mean: float) -> float:
        """Exponential with this mean."""
        return self._random.expovariate(1.0 / mean)

    def one(self, options: Sequence[T]) -> T:
        """One of several, all alike."""
        return options[int(self._random.random() * len(options))]

    def weighted(self, odds: Mapping[T, float]) -> T:
        """One of several by their odds."""
        left = self._random.random() * sum(odds.values())
        for option, weight in odds.items():
            left -= weight
            if left < 0:
                return option
        return list(odds)[-1]
