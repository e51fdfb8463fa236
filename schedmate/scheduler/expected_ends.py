"""Running jobs by the time at which they are expected, or bound, to end."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable


class ExpectedEnds:
    """Pairs of (expected end, slot) in order; the expected end of a slot can be asked for and moved."""

    __slots__ = ("ends_s", "order")

    def __init__(self) -> None:
        self.order: list[tuple[float, int]] = []
        self.ends_s: dict[int, float] = {}

    def add(self, slot: int, end_s: float) -> None:
        """A job starts."""
        self.ends_s[slot] = end_s
        insort(self.order, (end_s, slot))

    def remove(self, slot: int) -> float:
        """A job is gone; returns when it was expected to end."""
        end_s = self.ends_s.pop(slot)
        del self.order[bisect_left(self.order, (end_s, slot))]
        return end_s

    def next_s(self) -> float:
        """The earliest expected end, infinite when nothing runs."""
        return self.order[0][0] if self.order else float("inf")


def corrected_end_s(
    longer: Callable[[float], float], began_s: float, end_s: float, now: float, limit_s: float
) -> float:
    """When a job that began at ``began_s`` and has outlived ``end_s`` is expected to end: ``longer`` makes a longer run
    of one that was too short, as often as it takes. Not after ``limit_s``, when it is ended, if that is to come."""
    total_s = end_s - began_s
    while began_s + total_s <= now:
        total_s = longer(total_s)
    return limit_s if now < limit_s < began_s + total_s else began_s + total_s
