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

from analyzers.logs.habits import Course, Habit
from analyzers.logs.pauses import PauseKind, Sign, Silence
from analyzers.logs.series import Record, Series
from analyzers.logs.tracker import Tracker
from analyzers.logs.unevenness import longest_again, scatter
from analyzers.types import QuietReason

#: Kinds of pauses that may follow on each other.
_KNOWN: tuple[PauseKind, ...] = ("eval", "save")
_COMPILES_S = 1800.0
#: A first pause that lines, epochs or the configuration speak of may last so many gaps, but at least so many seconds;
#: one that only a round step points at less long, and at most so many seconds.
_SPOKEN_GAPS, _SPOKEN_S = 60.0, 1800.0
_FIRST_GAPS, _FIRST_LEAST_S, _FIRST_MOST_S = 40.0, 300.0, 3600.0
_SECOND_KIND_GAPS = 20.0
#: So long may last what ends the first epochs unseen.
_UNSEEN_GAPS = 30.0
_RECENT = 64
#: A silence is longer than a gap by more than the gaps scatter, within these bounds.
_LONG_SIGMAS, _LONG = 2.5, (1.6, 2.2)
#: In a run without any pause one may come anywhere within the first records, where nothing tells of epochs.
_NO_HABITS = 7
#: Steps that something is done at for the first time: so many strides apart at least.
_ROUND = (1, 2, 2.5, 5)
_ROUND_STRIDES = 8
#: Gaps scatter about like the exponential of a normal variable; so many standard deviations are passed by once in
#: some thousand gaps.
_SIGMAS = 3.5
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
        """The longest pause that may be due after the last record; None where none is. Known ones may follow on each
        other."""
        longest: dict[QuietReason, float] = {}
        for one in self._pauses():
            longest[one.reason] = max(one.seconds, longest.get(one.reason, 0.0))
        known = [Allowance(longest[kind], kind) for kind in _KNOWN if kind in longest]
        if known:
            longest[max(known).reason] = sum(one.seconds for one in known)
        return max((Allowance(seconds, reason) for reason, seconds in longest.items()), default=None)

    def uneven_s(self) -> float:
        """How long a silence may last that nothing explains, by how uneven the gaps have been; 0 for even ones."""
        found = math.exp(_SIGMAS * self._scatter) * self.gap
        odd = sorted(one.seconds for one in self.silences if not self._kinds(one) and not self._habit.is_part(one))
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
        for habit in (self._habit, *self._habits):
            due = [one for one in habit.due(self._here, self.last.at or 0.0) if not self._is_announced(one)]
            if due:
                yield Allowance(self._again(due), self._kind(due))

    def _of_epochs(self) -> Iterator[Allowance]:
        if self.last.epoch is None:
            if not self.silences and not self._are_known:  # epochs may end unseen
                few = min(1.0, _NO_HABITS / max(1, self.series.gaps.count))
                yield Allowance(min(_UNSEEN_GAPS * self.gap, _FIRST_MOST_S) * few, "pause")
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
        if not self._are_known and not self.series.label.endswith("%") and self._is_new_round(here):
            gaps = _SECOND_KIND_GAPS if self._known_kinds.intersection(_KNOWN) else _FIRST_GAPS
            first = max(gaps * self.gap, _FIRST_LEAST_S)
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

    @property
    def _are_known(self) -> bool:
        """Whether both kinds of pauses are."""
        return self._known_kinds.issuperset(_KNOWN)

    @cached_property
    def _habit(self) -> Habit:
        """All silences, whatever they are."""
        return Habit(self.silences, self._course)

    @cached_property
    def _habits(self) -> list[Habit]:
        """The silences of each kind that lines tell of, where not all are of one."""
        kinds = [self._kinds(one) for one in self.silences]
        of_each = [[one for one, of in zip(self.silences, kinds, strict=True) if kind in of] for kind in _KNOWN]
        return [Habit(some, self._course) for some in of_each if 0 < len(some) < len(self.silences)]

    @cached_property
    def _course(self) -> Course:
        known = self.series.gaps.silences
        is_all = len(known) < (known.maxlen or 0)
        first = next((record.at for record in self.series if record.at is not None), 0.0)
        return Course(
            stride=self.stride,
            gap=self.gap,
            since=self.series.started if is_all else min(one.position for one in known),
            before=self._before,
            begun=self.tracker.begins.get(self.last.file, first),
            first=first,
        )

    @cached_property
    def _before(self) -> float:
        """Steps of the epochs before the log's first one, where steps count within an epoch."""
        known = self.series.format.epoch_from if self.series.format is not None else None
        epoch = self.series.first_epoch or 0
        if not self.series.laps_with_new_epoch or self.last.total is None or self.series.fractional_epochs:
            return 0.0
        return float(max(0, int(epoch) - (1 if known is None else known)) * self.last.total)

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
        return longest_again([one.seconds for one in alike]) + self.gap if alike else 0.0

    def _kinds(self, silence: Silence) -> set[PauseKind]:
        """What lines have said of a silence."""
        return {sign.kind for sign in self.tracker.signs.between(silence.since, silence.until)}

    def _kind(self, alike: Sequence[Silence]) -> QuietReason:
        """What most of the silences were; a pause of no known kind where nothing tells."""
        kinds: list[QuietReason] = [kind for one in alike for kind in self._kinds(one)]
        return max(kinds, key=kinds.count, default="pause")

    @cached_property
    def _scatter(self) -> float:
        return scatter(self.series, self.gap, whole_seconds=self.tracker.whole_seconds)

    def _ends_epoch(self) -> bool:
        """Whether the next record would be of another epoch."""
        last = self.last
        if last.epoch is None:
            return False
        if self.series.fractional_epochs:
            epochs = [record.epoch for record in self.series.recent()[-3:] if record.epoch is not None]
            ahead = max((b - a for a, b in pairwise(epochs)), default=0.0)
            said = self.tracker.epoch_lines.get(self.series.rank)  # the line after a bar holds its epoch
            epoch = said.epoch if said is not None and said.epoch and said.order > last.order else last.epoch
            return math.floor(epoch + 1.5 * ahead + 0.01) > math.floor(epoch - 0.01)
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
