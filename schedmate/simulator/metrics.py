"""The metrics of a replay. Definitions with worked examples: docs/metrics.md; vocabulary of the field throughout.

Quantiles are interpolated linearly between order statistics (as numpy does by default). All times are seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Sizes in GPUs, both ends included.
SIZE_BUCKETS: tuple[tuple[str, int, float], ...] = (
    ("1", 1, 1), ("2-4", 2, 4), ("5-8", 5, 8), ("9-64", 9, 64), ("65-512", 65, 512), (">512", 513, np.inf),
)  # fmt: skip

SHORTEST_RUNTIME_S = 10.0

#: Share by which a job slows down when it is spread over twice the nodes it needs. Two GPUs on two servers instead
#: of one trained ResNet-50 at 98.0 instead of 114.8 images/s: Jeon et al., USENIX ATC 2019, table 4.
SLOWDOWN_PER_SPREAD = 114.8 / 98.0 - 1.0

SERIES_POINTS = 200


@dataclass(frozen=True, slots=True)
class Distribution:
    """A handful of quantiles; all None for no values."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None

    @classmethod
    def of(cls, values: Floats) -> Distribution:
        """Of an array of any length."""
        if values.size == 0:
            return cls(None, None, None, None, None)
        p50, p90, p99 = (float(q) for q in np.quantile(values, (0.5, 0.9, 0.99)))
        return cls(float(values.mean()), p50, p90, p99, float(values.max()))


@dataclass(frozen=True, slots=True)
class Steps:
    """A quantity that is constant between moments: ``values[i]`` holds from ``times_s[i]`` to ``times_s[i + 1]``."""

    times_s: Floats
    values: Floats

    def integral(self) -> float:
        """Value times seconds from the first to the last moment."""
        return float(np.dot(self.values[:-1], np.diff(self.times_s))) if self.times_s.size > 1 else 0.0

    def mean(self) -> float | None:
        """Time-weighted mean from the first to the last moment; None without any time between them."""
        seconds = float(self.times_s[-1] - self.times_s[0]) if self.times_s.size else 0.0
        return self.integral() / seconds if seconds > 0 else None

    def until(self, end_s: float) -> Steps:
        """The part up to ``end_s``; the value that holds then closes it."""
        kept = int(np.searchsorted(self.times_s, end_s, side="left"))
        if kept == self.times_s.size:
            return self
        held = self.values[max(0, kept - 1)]
        return Steps(np.append(self.times_s[:kept], end_s), np.append(self.values[:kept], held))

    def resampled(self, points: int = SERIES_POINTS) -> Steps:
        """The time-weighted mean of each of ``points`` equal stretches, at the time where each begins."""
        if self.times_s.size < 2 or self.times_s[-1] <= self.times_s[0]:
            return Steps(self.times_s[:1], self.values[:1])
        edges = np.linspace(self.times_s[0], self.times_s[-1], points + 1)
        if not (np.diff(edges) > 0).all():  # shorter than the clock can be divided: a few ticks of a late hour
            return Steps(self.times_s[:1], np.array([self.mean()]))
        area = np.concatenate(([0.0], np.cumsum(self.values[:-1] * np.diff(self.times_s))))
        return Steps(edges[:-1], np.diff(np.interp(edges, self.times_s, area)) / np.diff(edges))


def bounded_slowdown(jct_s: Floats, runtime_s: Floats) -> Floats:
    """max(1, JCT / max(runtime, 10 s))."""
    return np.maximum(1.0, jct_s / np.maximum(runtime_s, SHORTEST_RUNTIME_S))


def jtted(nodes: Floats, least_nodes: Floats) -> Floats:
    """Estimated training time over ideal training time: 1 on the fewest possible nodes, more the more it is spread."""
    return 1.0 + SLOWDOWN_PER_SPREAD * (nodes / least_nodes - 1.0)


def waiting_by_size(gpus: Floats, waiting_s: Floats) -> dict[str, tuple[int, Distribution]]:
    """JWTD: per size bucket the number of jobs and the distribution of the time from submission to first start."""
    found = {}
    for name, least, most in SIZE_BUCKETS:
        inside = waiting_s[(gpus >= least) & (gpus <= most)]
        found[name] = (int(inside.size), Distribution.of(inside))
    return found


def least_nodes(gpus: Floats, gpus_per_node: Sequence[int], pool: NDArray[np.int64]) -> Floats:
    """Fewest nodes of its pool that hold each gang."""
    return np.ceil(gpus / np.asarray(gpus_per_node, dtype=np.float64)[pool])
