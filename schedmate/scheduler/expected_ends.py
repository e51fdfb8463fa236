"""Running jobs by the time at which they are expected, or bound, to end."""

from __future__ import annotations

from bisect import bisect_left, insort


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
