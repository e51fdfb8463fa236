"""How long training may be silent at the place where it is now, by what the run has done so far and says of itself.

A pause is expected where lines have announced it, and where silences keep coming (every so many steps, every so much
time, at the end of each epoch). What has not been seen yet (the first evaluation) is expected at the end of the first
epoch, at steps that the log's own configuration names, and at a round step that is reached for the first time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from analyzers.logs.evenly import Even
from analyzers.logs.pauses import PauseKind, Sign, Silence
from analyzers.logs.series import Record, Series
from analyzers.logs.tracker import Tracker
from analyzers.types import QuietReason

#: A pause that is due may last so many times the longest one, and longer the fewer were seen: by so much for one.
_LONGER, _SEEN_ONCE = 1.5, 0.5
_COMPILES_S = 1800.0
#: A first pause that lines, epochs or the configuration speak of may last so many gaps, but at least so many seconds;
#: one that only a round step points at less long, and at most so many seconds.
_SPOKEN_GAPS, _SPOKEN_S = 30.0, 1800.0
_FIRST_GAPS, _FIRST_LEAST_S, _FIRST_MOST_S = 30.0, 300.0, 3600.0
_RECENT = 64
#: A silence is longer than a gap by more than the gaps scatter, within these bounds.
_LONG_SIGMAS, _LONG = 2.5, (1.6, 2.2)
#: In a run without any pause one may come anywhere within the first records, where nothing tells of epochs.
_NO_HABITS = 7
#: Of silences that come evenly by the clock, at least so many are not explained by steps.
_OFF_STEPS = 1 / 3
#: Steps that something is done at for the first time: so many strides apart at least.
_ROUND = (1, 2, 2.5, 5)
_ROUND_STRIDES = 8
#: Times that a pause by the clock comes after.
_BY_CLOCK_S = (600.0, 900.0, 1200.0, 1800.0, 3600.0, 7200.0)
#: Gaps scatter about like the exponential of a normal variable; so many standard deviations are passed by once in
#: some thousand gaps.
_SIGMAS = 3.5
_FEWEST_GAPS, _FEW_GAPS = 6, 20
_AROUND = 4
#: Deviations from a median that the value itself belongs to are smaller by so much.
_FEW_BIAS, _AROUND_BIAS = 1.3, 1.1
_MOST_SCATTER = 0.6
#: Longer silences that nothing explains belong to the run where they are so many, and so many of all gaps.
_ODD_COUNT, _ODD_SHARE, _ODD_LONGER = 3, 0.01, 1.25


class Allowance(NamedTuple):
    """Silence of so many ``seconds`` may be for that ``reason``."""

    seconds: float
    reason: QuietReason


@dataclass(frozen=True)
class Expected:
    """What is expected after the last record of a series, whose usual ``gap`` is in seconds."""

    tracker: Tracker
    series: Series
    last: Record
    gap: float

    def pause(self) -> Allowance | None:
        """The longest pause that may be due after the last record; None where none is."""
        return max(self._pauses(), default=None)

    def uneven_s(self) -> float:
        """How long a silence may last that nothing explains, by how uneven the gaps have been; 0 for even ones."""
        found = math.exp(_SIGMAS * self._scatter) * self.gap
        odd = sorted(
            one.seconds
            for at, one in enumerate(self._on_clock)
            if one.since in self._off_steps and not self._kinds(one) and not self._by_clock.keeps_coming(at)
        )
        if len(odd) >= max(_ODD_COUNT, _ODD_SHARE * self.series.gaps.count):
            found = max(found, _ODD_LONGER * odd[-2])
        return found

    @cached_property
    def signs(self) -> list[Sign]:
        """What lines have said of pauses since the last record."""
        return self.tracker.signs.between(self.last.order, self.tracker.order + 1)

    @cached_property
    def silences(self) -> list[Silence]:
        """The silences that are longer than an uneven pace makes them."""
        long = min(max(math.exp(_LONG_SIGMAS * self._scatter), _LONG[0]), _LONG[1])
        return [one for one in self.series.gaps.silences if one.seconds > long * self.gap]

    @cached_property
    def stride(self) -> float:
        """Steps from record to record."""
        steps = [(b.step or 0) - (a.step or 0) for a, b in pairwise(self.series.recent()[-_RECENT:])]
        forward = [step for step in steps if step > 0]
        return float(median(forward)) if forward else 1.0

    def _pauses(self) -> Iterator[Allowance]:
        announced = {sign.kind: self._announced(sign) for sign in self.signs}
        if announced:  # one after the other
            _, kind = max((seconds, kind) for kind, seconds in announced.items())
            yield Allowance(sum(announced.values()), kind)
        yield from self._of_epochs()
        yield from self._at_steps()
        by_step = [self._on_steps[at] for at in self._by_step.due(self._here)]
        by_clock = [self._on_clock[at] for at in self._by_clock.due(self.last.time or 0.0)]
        if sum(one.since in self._off_steps for one in by_clock) < _OFF_STEPS * len(by_clock):
            by_clock = []
        for alike in (by_step, by_clock):
            silent = [one for one in alike if not self._is_announced(one)]
            yield Allowance(self._again(silent), self._kind(silent))

    def _of_epochs(self) -> Iterator[Allowance]:
        if self.last.epoch is None:
            if not self.silences:  # epochs may end unseen
                few = min(1.0, _NO_HABITS / max(1, self.series.gaps.count))
                yield Allowance(min(_FIRST_GAPS * self.gap, _FIRST_MOST_S) * few, "pause")
        elif self._ends_epoch():
            passed = int(self.last.epoch) > int(self.series.first_epoch or 0)
            some = [one for one in self.silences if one.is_new_epoch and not self._is_announced(one)]
            if some or not passed:
                yield Allowance(self._again(some) if some else self._spoken_s, self._kind(some) if some else "epoch")

    def _at_steps(self) -> Iterator[Allowance]:
        here = self._here
        for kind, every in self.tracker.intervals.items():
            is_first = self._is_first(every) and not any(kind in self._kinds(one) for one in self.silences)
            if is_first and _holds_multiple(here, self.stride, every):
                yield Allowance(self._spoken_s, kind)
        if not {"eval", "save"} <= self._known_kinds and self._is_new_round(here):
            first = max(_FIRST_GAPS * self.gap, _FIRST_LEAST_S)
            yield Allowance(min(first, _FIRST_MOST_S), "pause")

    def _is_first(self, every: float) -> bool:
        """Whether no multiple has been passed so far."""
        begun = self.series.started + self._before
        return math.floor((self._here - 1) / every) <= math.floor(begun / every)

    @property
    def _here(self) -> float:
        """The steps of the whole run up to the last record."""
        return self.series.travelled + self._before

    @property
    def _spoken_s(self) -> float:
        return max(_SPOKEN_GAPS * self.gap, _SPOKEN_S)

    @cached_property
    def _known_kinds(self) -> set[PauseKind]:
        """Kinds of pauses whose place or length is known: they have come, or the configuration names their steps."""
        came = {kind for one in self.silences for kind in self._kinds(one)}
        begun = next(iter(self.series)).order
        return came | set(self.tracker.intervals) | {s.kind for s in self.tracker.signs.known if s.first > begun}

    @cached_property
    def _on_steps(self) -> list[Silence]:
        """The silences by their steps."""
        return sorted(self.silences, key=lambda one: one.position)

    @cached_property
    def _by_step(self) -> Even:
        is_all = len(self.series.gaps.silences) < (self.series.gaps.silences.maxlen or 0)
        since = self.series.started if is_all else min(one.position for one in self.series.gaps.silences)
        places = [one.position + self._before for one in self._on_steps]
        return Even(places, 1.01 * self.stride, since + self._before, from_zero=True)

    @cached_property
    def _before(self) -> float:
        """Steps of the epochs before the log's first one, where steps count within an epoch."""
        known = self.series.format.epoch_from if self.series.format is not None else None
        epoch = self.series.first_epoch or 0
        if not self.series.laps_with_new_epoch or self.last.total is None or self.series.fractional_epochs:
            return 0.0
        return float(max(0, int(epoch) - (1 if known is None else known)) * self.last.total)

    @cached_property
    def _off_steps(self) -> set[int]:
        """The orders of those that no steps explain."""
        return {one.since for at, one in enumerate(self._on_steps) if not self._by_step.keeps_coming(at)}

    @cached_property
    def _on_clock(self) -> list[Silence]:
        """Those within epochs, by their times."""
        return sorted((one for one in self.silences if not one.is_new_epoch), key=lambda one: one.time)

    @cached_property
    def _by_clock(self) -> Even:
        begun = next((record.time for record in self.series if record.time is not None), 0.0)
        times = [one.time for one in self._on_clock]
        return Even(times, 1.5 * self.gap, begun, from_zero=False, usual=_BY_CLOCK_S)

    def _is_announced(self, one: Silence) -> bool:
        """Whether words for it came before it, within a usual gap; the next of its kind will have them too."""
        signs = self.tracker.signs.between(one.since, one.until)
        return any(sign.began is not None and sign.began <= one.time + self.gap for sign in signs)

    def _announced(self, sign: Sign) -> float:
        """How long what a line speaks of may last: as it did before, or as long as a first one."""
        begun = next(iter(self.series)).order
        known = (one for one in self.tracker.signs.known if one.kind == sign.kind)
        before = [one for one in known if begun < one.first < self.last.order]
        alike = [
            one for one in self.silences if any(one.since < said.last and said.first < one.until for said in before)
        ]
        if alike or (before and sign.kind != "compile"):
            return self._again(alike)
        return _COMPILES_S if sign.kind == "compile" else self._spoken_s

    def _again(self, alike: Sequence[Silence]) -> float:
        """How long a pause may last that has lasted so long before."""
        longest = max((one.seconds for one in alike), default=0.0)
        return (_LONGER + _SEEN_ONCE / len(alike)) * longest + self.gap if longest else 0.0

    def _kinds(self, silence: Silence) -> set[PauseKind]:
        """What lines have said of a silence."""
        return {sign.kind for sign in self.tracker.signs.between(silence.since, silence.until)}

    def _kind(self, alike: Sequence[Silence]) -> QuietReason:
        """What most of the silences were; a pause of no known kind where nothing tells."""
        kinds: list[QuietReason] = [kind for one in alike for kind in self._kinds(one)]
        return max(kinds, key=kinds.count, default="pause")

    @cached_property
    def _scatter(self) -> float:
        """How uneven the gaps are: the standard deviation of their logarithms from those around them, so that neither
        pauses nor a slow stretch count."""
        times = [record.time for record in self.series.recent() if record.time is not None]
        gaps = [math.log(b - a) for a, b in pairwise(times) if b > a]
        if len(gaps) < _FEWEST_GAPS:
            return 0.0
        if len(gaps) < _FEW_GAPS:
            off, bias = [abs(gap - median(gaps)) for gap in gaps], _FEW_BIAS
        else:
            inner = range(_AROUND, len(gaps) - _AROUND)
            off, bias = [abs(gaps[at] - median(gaps[at - _AROUND : at + _AROUND + 1])) for at in inner], _AROUND_BIAS
        rounding = 0.5 / self.gap if self.tracker.whole_seconds else 0.0
        return min(max(0.0, 1.4826 * bias * median(off) - rounding), _MOST_SCATTER)

    def _ends_epoch(self) -> bool:
        """Whether the next record would be of another epoch."""
        last = self.last
        if last.epoch is None:
            return False
        if self.series.fractional_epochs:
            epochs = [record.epoch for record in self.series.recent()[-3:] if record.epoch is not None]
            ahead = max((b - a for a, b in pairwise(epochs)), default=0.0)
            return math.floor(last.epoch + 1.5 * ahead + 0.01) > math.floor(last.epoch - 0.01)
        return last.total is not None and (last.step or 0) + self.stride > last.total

    def _is_new_round(self, here: float) -> bool:
        """Whether a multiple of a rounder number than ever before lies between the last record and the next."""
        size = 10 ** max(0, math.floor(math.log10(max(1.0, here + self.stride))) - 1)
        return any(
            every >= _ROUND_STRIDES * self.stride
            and _holds_multiple(here, self.stride, every)
            and self._is_first(every)
            for every in (times * size * more for times in _ROUND for more in (1, 10))
        )


def _holds_multiple(here: float, stride: float, every: float) -> bool:
    """Whether a multiple of ``every`` lies between the last record and the next."""
    return math.floor((here + stride) / every) * every >= max(here, 1)
