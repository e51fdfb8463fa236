"""Random numbers by name: each part of the workload has its own stream, so adding one never shifts another."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on nothing but ``seed`` and ``names``."""
    return np.random.default_rng([seed, *(zlib.crc32(str(name).encode()) for name in names)])


def pick(rng: np.random.Generator, items: Sequence[T]) -> T:
    """One of ``items``, each as likely."""
    return items[int(rng.integers(len(items)))]


def pick_weighted(rng: np.random.Generator, shares: Mapping[T, float]) -> T:
    """One key of ``shares``, as likely as its value."""
    keys = list(shares)
    weights = np.array([shares[key] for key in keys], dtype=float)
    return keys[int(rng.choice(len(keys), p=weights / weights.sum()))]


def lognormal(rng: np.random.Generator, median: float, sigma: float) -> float:
    """A log-normal draw by its median and the standard deviation of its logarithm."""
    return float(median * np.exp(sigma * rng.standard_normal()))


class Deck(Generic[T]):
    """Deals keys in proportion to their shares, as from a shuffled deck: few draws already look like the shares."""

    def __init__(self, rng: np.random.Generator, shares: Mapping[T, float], size: int = 50) -> None:
        self._rng = rng
        self._shares = shares
        self._size = size
        self._cards: list[T] = []

    def deal(self, allowed: Collection[T]) -> T:
        """The next card that is one of ``allowed``; the others stay in the deck."""
        while True:
            for index, card in enumerate(self._cards):
                if card in allowed:
                    return self._cards.pop(index)
            total = sum(self._shares.values())
            fresh = [
                key for key, share in self._shares.items() for _ in range(max(1, round(self._size * share / total)))
            ]
            self._cards += [fresh[int(i)] for i in self._rng.permutation(len(fresh))]
