"""Whether training stands still: silent for longer than a pause at this place of this run can last.

Three usual gaps, unless a pause is due. One is due where lines have announced it, and where silences keep coming (every
so many steps, every so much time, at the end of each epoch); it may then last half as long again as the longest such.
What has not been seen yet (the first evaluation, a round step that is reached for the first time) is given longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from analyzers.logs.evenly import Even
from analyzers.logs.pauses import Sign, Silence
from analyzers.logs.series import Record, Series
from analyzers.logs.tracker import Tracker

_GAPS = 3.0
_SHORTEST_S = 60.0
#: While fewer gaps are known, and while a compiler is said to work.
_FIRST_STEPS_S = 1800.0
_FEWEST = 4
#: A pause that is due may last so many times the longest one; one that was seen once, longer.
_LONGER, _SEEN_ONCE = 1.5, 2.0
#: A first pause may last so many gaps, but at least and at most so many seconds.
_FIRST_GAPS, _FIRST_LEAST_S, _FIRST_MOST_S = 20.0, 300.0, 900.0
_ANNOUNCED_GAPS, _ANNOUNCED_S = 30.0, 1800.0
_RECENT = 64
_UNEVEN = 2.2
#: The longer a run goes on without any pause, the less time a first one is given: less from so many records on.
_NO_HABITS = 30
#: Steps that something is done at for the first time: so many strides apart at least.
_ROUND = (1, 2, 2.5, 5)
_ROUND_STRIDES = 5
#: A silence without a reason may come again; the longest of them only where it is not the only one in so many gaps.
_ONE_OFF_GAPS = 20
#: Nothing but other lines tells the time, and the next record may be about to be written.
_UNSURE = 2.0


def stands_still(tracker: Tracker, series: Series) -> bool:
    """Whether no record of the series has come for far longer than a pause can last at its last one."""
    last = series.last
    if last is None or last.time is None:
        return False
    present = tracker.present(last.time)
    now = max(tracker.last_time or last.time, present if present is not None else last.time)
    unsure = 1.0 if present is not None else _UNSURE
    gap = usual_gap(series)
    if gap is None:
        recent = [record.time for record in series.recent() if record.time is not None]
        longest = max((b - a for a, b in pairwise(recent)), default=0.0)
        return now - last.time > unsure * max(_FIRST_STEPS_S, 10 * longest)
    base = max(_GAPS * gap, _SHORTEST_S)
    signs = tracker.signs.between(last.order, tracker.order + 1)
    lives = max([base, *(_GAPS * sign.gap() for sign in signs[-1:])])
    if now - _life(last.time, signs) <= unsure * lives:
        return False
    base = max(base, _without_reason(tracker, series, gap))
    return now - last.time > unsure * max(base, _due(tracker, series, last, gap, signs))


def usual_gap(series: Series) -> float | None:
    """Seconds from record to record, without pauses; None while too few are known."""
    latest = series.recent()[-_RECENT:]
    gaps = [
        b.time - a.time
        for a, b in pairwise(latest)
        if a.time is not None and b.time is not None and b.time > a.time and a.gap == b.gap
    ]
    if len(gaps) < _FEWEST:  # most of the lines are passed over
        gaps = [b.time - a.time for a, b in pairwise(latest) if a.time is not None and b.time is not None]
        gaps = [gap for gap in gaps if gap > 0]
    return median(gaps) if len(gaps) >= _FEWEST else None


def _life(last: float, signs: Sequence[Sign]) -> float:
    """When the job last wrote something of its own: a record, or a line of an evaluation or a save."""
    return max([last, *(sign.time for sign in signs if sign.time is not None)])


def _due(tracker: Tracker, series: Series, last: Record, gap: float, signs: Sequence[Sign]) -> float:
    """How long a pause after the last record may last; 0 where none is due."""
    first = max(_GAPS * gap, min(max(_FIRST_GAPS * gap, _FIRST_LEAST_S), _FIRST_MOST_S))
    silences = _pauses(series, gap)
    announced = {sign.kind: _announced(tracker, silences, sign, last, gap) for sign in signs}
    allowed = [sum(announced.values())]  # one after the other
    here, stride = series.travelled, _stride(series)
    if not silences:
        allowed.append(min(_FIRST_GAPS * gap, _FIRST_MOST_S) * min(1.0, _NO_HABITS / max(1, series.gaps.count)))
    if _ends_epoch(series, last, stride):
        some = [one for one in silences if one.is_new_epoch]
        passed = last.epoch is not None and int(last.epoch) > int(series.first_epoch or 0)
        allowed.append(_again(some, gap) if some else 0.0 if passed else first)
    if _is_new_round(series, here, stride):
        allowed.append(first)
    for evenly, place in zip(_places(series, silences, gap), (here, last.time or 0.0), strict=True):
        allowed.append(_again([silences[at] for at in evenly.due(place)], gap))
    return max(allowed)


def _pauses(series: Series, gap: float) -> list[Silence]:
    """The silences that are longer than an uneven pace makes them."""
    return [one for one in series.gaps.silences if one.seconds > _UNEVEN * gap]


def _places(series: Series, silences: Sequence[Silence], gap: float) -> tuple[Even, Even]:
    """Where silences came, by steps and by the clock."""
    is_all = len(series.gaps.silences) < (series.gaps.silences.maxlen or 0)
    since = series.started if is_all or not silences else silences[0].position
    return (
        Even([one.position for one in silences], 1.01 * _stride(series), since, from_zero=True),
        Even(sorted(one.time for one in silences), 1.5 * gap, 0.0, from_zero=False),
    )


def _announced(tracker: Tracker, silences: Sequence[Silence], sign: Sign, last: Record, gap: float) -> float:
    """How long what a line speaks of may last: as it did before, or as long as a first one."""
    before = [one for one in tracker.signs.known if one.kind == sign.kind and one.first < last.order]
    alike = [one for one in silences if any(one.since < said.last and said.first < one.until for said in before)]
    if alike or (before and sign.kind != "compile"):
        return _again(alike, gap)
    return _FIRST_STEPS_S if sign.kind == "compile" else max(_ANNOUNCED_GAPS * gap, _ANNOUNCED_S)


def _again(alike: Sequence[Silence], gap: float) -> float:
    """How long a pause may last that has lasted so long before."""
    longest = max((one.seconds for one in alike), default=0.0)
    return (_LONGER if len(alike) > 1 else _SEEN_ONCE) * longest + gap if longest else 0.0


def _without_reason(tracker: Tracker, series: Series, gap: float) -> float:
    """How long a silence may last that nothing explains, by those before: none at first, then half as long again."""
    silences = _pauses(series, gap)
    by_step, by_time = _places(series, silences, gap)
    odd = sorted(
        one.seconds
        for index, one in enumerate(silences)
        if not one.is_new_epoch
        and not tracker.signs.between(one.since, one.until)
        and not by_step.keeps_coming(index)
        and not by_time.keeps_coming(index)
    )
    if series.gaps.count >= _ONE_OFF_GAPS:
        odd = odd[:-1]
    return _LONGER * odd[-1] if odd else 0.0


def _stride(series: Series) -> float:
    """Steps from record to record."""
    steps = [(b.step or 0) - (a.step or 0) for a, b in pairwise(series.recent()[-_RECENT:])]
    forward = [step for step in steps if step > 0]
    return float(median(forward)) if forward else 1.0


def _ends_epoch(series: Series, last: Record, stride: float) -> bool:
    """Whether the next record would be of another epoch."""
    if last.epoch is None:
        return False
    if series.fractional_epochs:
        epochs = [record.epoch for record in series.recent()[-3:] if record.epoch is not None]
        ahead = max((b - a for a, b in pairwise(epochs)), default=0.0)
        return math.floor(last.epoch + 1.5 * ahead + 0.01) > math.floor(last.epoch - 0.01)
    return last.total is not None and (last.step or 0) + stride > last.total


def _is_new_round(series: Series, here: float, stride: float) -> bool:
    """Whether a multiple of a rounder number than ever before lies between the last record and the next."""
    size = 10 ** max(0, math.floor(math.log10(max(1.0, here + stride))) - 1)
    for times in (*_ROUND, *(10 * one for one in _ROUND)):
        every = times * size
        reached = math.floor((here + stride) / every) * every
        is_first = math.floor((here - 1) / every) <= math.floor(series.started / every)
        if every >= _ROUND_STRIDES * stride and reached >= max(here, 1) and is_first:
            return True
    return False
