"""Whether training stands still: silent for longer than a pause at this place of this run can last.

Three usual gaps, unless a pause is due that may last longer, or the gaps are uneven (`analyzers.logs.expected`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from analyzers.logs.expected import Expected
from analyzers.logs.pauses import Sign
from analyzers.logs.series import Series
from analyzers.logs.skew import ahead_s
from analyzers.logs.tracker import Tracker
from analyzers.logs.unevenness import usual_gap
from analyzers.types import Quiet, QuietReason

_GAPS = 3.0
_SHORTEST_S = 60.0
#: While fewer gaps are known.
_FIRST_STEPS_S = 1800.0
#: Nothing but other lines tells the time, and the next record may be about to be written.
_UNSURE = 2.0
#: A counter with an unknown name must have come this often before its own standstill is a stall; less often with a
#: total.
_TRUSTED_COUNT, _TRUSTED_OF_TOTAL = 20, 8


def is_trusted(series: Series) -> bool:
    """Whether the series is known well enough to count training."""
    has_total = series.last is not None and series.last.total is not None
    fewest = _TRUSTED_OF_TOTAL if has_total else _TRUSTED_COUNT
    return not series.is_mined or (not series.is_other and series.count >= fewest)


def stands_still(tracker: Tracker, series: Series) -> bool:
    """Whether no record of the series has come for far longer than a pause can last at its last one."""
    found = quiet(tracker, series)
    return found is not None and found.seconds > found.stall_after_s


def quiet(tracker: Tracker, series: Series) -> Quiet | None:
    """The silence since the series' last record, once it is longer than three usual gaps and nothing else shows that
    the job lives; None before, and without times."""
    last = series.last
    if last is None or last.at is None:
        return None
    present = tracker.present(last.at)
    now = _now(tracker, series, last.at, present)
    unsure = 1.0 if present is not None else _UNSURE
    silent = now - last.at
    gap = usual_gap(series, tracker.whole_seconds)
    if gap is None:
        recent = [record.at for record in series.recent() if record.at is not None]
        longest = max((b - a for a, b in pairwise(recent)), default=0.0)
        first_s = unsure * max(_FIRST_STEPS_S, 10 * longest)
        return Quiet(silent, longest, first_s) if silent > first_s else None
    base = max(_GAPS * gap, _SHORTEST_S)
    if silent <= unsure * base:
        return None
    expected = Expected(tracker, series, last, gap)
    lives = max([base, *(_GAPS * sign.gap() for sign in expected.signs[-1:])])
    if now - _life(last.at, expected.signs) <= unsure * lives:
        return None
    pause, uneven_s = expected.pause(), expected.uneven_s()
    allowed: float = max(base, uneven_s)
    reason: QuietReason | None = "uneven" if uneven_s > base else None
    if pause is not None and pause.seconds > allowed:
        allowed, reason = pause
    return Quiet(silent, gap, unsure * allowed, reason)


def _now(tracker: Tracker, series: Series, last: float, present: float | None) -> float:
    """The present by the clock of the series' file: as it is given, or the latest time in any file."""
    ahead = ahead_s(tracker, series)
    latest = [time - ahead.get(file, 0.0) for file, time in tracker.latest.items()]
    own = ahead.get(series.last.file, 0.0) if series.last is not None else 0.0
    return max(last, *(time + own for time in latest), last if present is None else present + own)


def _life(last: float, signs: Sequence[Sign]) -> float:
    """When the job last wrote something of its own: a record, or a line of an evaluation or a save."""
    return max([last, *(sign.time for sign in signs if sign.time is not None)])
