"""What an order is worth: the waiting that it makes, counted on jobs of which is known how large they were.

Let some jobs wait together, and one server, the whole cluster, take one after the other in the order of a key. Then of
every two jobs one waits for the other: for as long as the first one takes. The sum over all pairs is least where the
key is the true size (W. E. Smith, "Various optimizers for single-stage production", Naval Research Logistics Quarterly
1956), so the sums of two keys tell which order is the better one, and by how much, with what is large counting as much
as it would in the queue. Sizes are GPU seconds; only the order of keys matters, not what they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Others:
    """Jobs that the judged ones are put among, each at its true size; shape (others,)."""

    __slots__ = ("_before", "_sizes")

    def __init__(self, sizes: Sequence[float]) -> None:
        self._sizes: Floats = np.sort(np.asarray(sizes, dtype=np.float64))
        self._before: Floats = np.concatenate(([0.0], np.cumsum(self._sizes)))

    def waiting(self, keys: Floats, sizes: Floats) -> Floats:
        """The waiting, in GPU seconds, that each judged job causes and has among the others if it stands where its key
        puts it; half of it where the two are alike. ``keys`` and ``sizes`` have shape (judged,), as has the answer."""
        first = np.searchsorted(self._sizes, keys, "left")
        last = np.searchsorted(self._sizes, keys, "right")
        behind = len(self._sizes) - (first + last) / 2
        found: Floats = sizes * behind + (self._before[first] + self._before[last]) / 2
        return found


def ratio(others: Others, said: Floats, blind: Floats, sizes: Floats) -> float | None:
    """The waiting that keys ``said`` make, as a multiple of that of the keys ``blind``; None where there is none at
    all. Below 1 the first order is the better one. All have shape (judged,)."""
    without = float(others.waiting(blind, sizes).sum())
    return float(others.waiting(said, sizes).sum()) / without if without > 0 else None
