"""Remembers the longer silences of a run, and what its lines said of pauses, in bounded memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

#: What a line may announce, or tell of afterwards.
PauseKind = Literal["eval", "save", "compile"]

_EVAL = ("eval", "valid", "test", "sampling", "generating", "predict")
_COMPILE = ("compil", "warmup", "warming", "autotun", "captur")
#: A silence is remembered when it is so many times the usual gap.
_LONGER = 1.6
_FIRST_GAPS = 5
_KEPT = 96
#: How fast the usual gap follows the latest ones.
_EARLY, _LATE = 1.1, 1.04
_EARLY_GAPS = 40


class Silence(NamedTuple):
    """A longer silence between two records: their orders (``since``, ``until``), ``position`` (in steps of the whole
    run) and ``time`` of the first, how many ``seconds``, and whether an epoch ended there."""

    since: int
    until: int
    position: float
    time: float
    seconds: float
    is_new_epoch: bool


class GapWatch:
    """Follows a series' gaps: ``usual`` seconds (None while too few are known), the longer ``silences``, ``count``."""

    def __init__(self) -> None:
        self.usual: float | None = None
        self.silences: deque[Silence] = deque(maxlen=_KEPT)
        self.count = 0
        self._first: list[Silence] = []

    def gap(self, silence: Silence) -> None:
        """Take the gap between two records that follow on each other."""
        self.count += 1
        seconds = silence.seconds
        if self.usual is None:
            self._first.append(silence)
            if len(self._first) == _FIRST_GAPS:
                self.usual = median(one.seconds for one in self._first)
                self.silences.extend(one for one in self._first if one.seconds > _LONGER * self.usual)
                self._first = []
            return
        if seconds > _LONGER * self.usual:
            self.silences.append(silence)
        by = _EARLY if self.count < _EARLY_GAPS else _LATE
        self.usual *= by if seconds > self.usual else 1 / by


@dataclass(slots=True)
class Sign:
    """Lines in a row that tell of one kind of pause, from the ``first`` to the ``last`` of them (by their orders), with
    their times ``began`` and ``time``."""

    kind: PauseKind
    first: int
    last: int
    began: float | None
    time: float | None
    count: int = 1

    def gap(self) -> float:
        """Seconds from line to line; 0 for a single one."""
        if self.began is None or self.time is None or self.count < 2:
            return 0.0
        return (self.time - self.began) / (self.count - 1)


class Signs:
    """What was said of pauses, the latest of it."""

    def __init__(self, most: int) -> None:
        self.known: deque[Sign] = deque(maxlen=most)

    def say(self, kind: PauseKind, order: int, time: float | None, trained: int) -> None:
        """A line tells of a pause; ``trained`` is the order of the latest training record."""
        if self.known and self.known[-1].kind == kind and self.known[-1].first > trained:
            here = self.known[-1]
            here.last, here.time, here.count = order, time, here.count + 1
        else:
            self.known.append(Sign(kind, order, order, time, time))

    def between(self, since: int, until: int) -> list[Sign]:
        """What was said after one record and before another."""
        return [sign for sign in self.known if sign.last > since and sign.first < until]


def kind_of(text: str) -> PauseKind:
    """Which pause a line speaks of that speaks of one."""
    lowered = text[:300].lower()
    if any(word in lowered for word in _COMPILE):
        return "compile"
    return "eval" if any(word in lowered for word in _EVAL) else "save"
