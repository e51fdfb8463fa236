"""Random numbers by name: each part of the workload has its own stream, so adding one never shifts another."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")

#: Steps of the two-dimensional low-discrepancy sequence: powers of the inverse plastic number (Roberts, 2018).
_PLASTIC = 1.32471795724474602596
_STEPS = (1 / _PLASTIC, 1 / _PLASTIC**2)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on nothing but ``seed`` and ``names``."""
    return np.random.default_rng([seed, *(zlib.crc32(str(name).encode()) for name in names)])


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of ``items``, each as likely."""
    return items[int(rng.integers(len(items)))]


def pick_weighted(rng: np.random.Generator, shares: Mapping[T, float]) -> T:
    """One key of ``shares``, as likely as its value."""
    at = float(rng.random()) * sum(shares.values())
    for key, share in shares.items():
        at -= share
        if at < 0:
            return key
    return next(reversed(list(shares)))


def lognormal(rng: np.random.Generator, median: float, sigma: float) -> float:
    """A log-normal draw by its median and the standard deviation of its logarithm."""
    return float(median * math.exp(sigma * float(rng.standard_normal())))


def loguniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A draw between two positive numbers, uniform in its logarithm."""
    return float(low * (high / low) ** float(rng.random()))


def spread_pair(seed: int, index: int) -> tuple[float, float]:
    """The ``index``-th of a sequence of points that fill the unit square evenly, so that few already look like many."""
    start = stream(seed, "spread").random(2)
    return float((start[0] + index * _STEPS[0]) % 1), float((start[1] + index * _STEPS[1]) % 1)


class Hand(Generic[T]):
    """Cards in proportion to shares, dealt from shuffled decks; a draw may prefer some of those held.

    Whatever the preferences, every card of a deck is played in the end, so the shares over all draws stay.
    """

    def __init__(self, rng: np.random.Generator, shares: Mapping[T, float], size: int = 200, held: int = 60) -> None:
        self._rng = rng
        total = sum(shares.values())
        self._deck = [key for key, share in shares.items() for _ in range(max(1, round(size * share / total)))]
        self._held = held
        self._cards: list[T] = []

    def draw(self, weights: Mapping[T, float]) -> T:
        """A card held, as likely as its weight (1 where none is given); one of weight 0 is never drawn."""
        while len(self._cards) < self._held or not any(weights.get(card, 1.0) > 0 for card in self._cards):
            self._cards += [self._deck[int(i)] for i in self._rng.permutation(len(self._deck))]
        chances = np.cumsum([weights.get(card, 1.0) for card in self._cards])
        place = int(np.searchsorted(chances, float(self._rng.random()) * chances[-1], side="right"))
        return self._cards.pop(min(place, len(self._cards) - 1))
