"""Peaks of memory: arithmetic and published figures, corrected by the peaks that this site's own jobs had.

Memory repeats itself far better than time, so a few jobs tell most of it: what is in doubt at first is what a program
of this site takes at all, which all of them share.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from analyzers.history.index import end_s
from analyzers.types import JobRecord
from predictors import effects
from predictors.site import WINDOW_JOBS, Effects, Job, Solved, shaped
from predictors.traits import traits_of
from predictors.types import Interval

#: The logarithm of a peak before any was seen, and the standard deviation of how far that is off.
Guess = tuple[float, float]
#: Two runs of the same differ by a tenth.
_NOISE = 0.1
_START = np.append(effects.START[:-1], math.log(_NOISE))
#: Where jobs older than the window are among those most like it, so many of them and of the newest are looked at.
_NEWEST, _ALIKE = 40, 20


class SitePeaks:
    """``learn(record)`` in order of the ends, then ``corrected(record, guess, similar)``."""

    def __init__(self, peak_of: Callable[[JobRecord], float | None], guess_of: Callable[[JobRecord], Guess]) -> None:
        """``peak_of``: the MiB that an ended job was seen to take; ``guess_of``: what was guessed of it."""
        self._peak_of, self._guess_of = peak_of, guess_of
        self._effects = Effects(_START)
        self._names: deque[str] = deque(maxlen=WINDOW_JOBS)

    def learn(self, record: JobRecord) -> None:
        """A job has ended; one of which no peak is known is passed over."""
        job = self._job(record)
        if job is not None:
            self._effects.learn(job)
            self._names.append(record.job_id)

    def corrected(
        self, record: JobRecord, guess: Guess, similar: Sequence[tuple[JobRecord, float]]
    ) -> tuple[Interval, int] | None:
        """The peak in MiB and how many jobs were looked at; None where none is known. ``similar``: ended jobs, the most
        similar first."""
        doubt = guess[1] / effects.OFF
        known = set(self._names)
        older = sorted((each for each, _ in similar[:_ALIKE] if each.job_id not in known), key=end_s)
        jobs = [job for each in older if (job := self._job(each)) is not None]
        if jobs:  # a large site: the newest of all of it are less alike than these
            jobs += list(self._effects.jobs)[-_NEWEST:]
            said = Solved(self._effects.logs(), jobs).say(traits_of(record), guess[0], doubt)
        elif self._effects.jobs:
            said = self._effects.solved().say(traits_of(record), guess[0], doubt)
        else:
            return None
        around = shaped(said.spread * said.misses, np.full(len(said.misses), np.inf), said.middle, said.spread)
        low, middle, high = (float(value) for value in around.quantile_s((0.1, 0.5, 0.9)))
        return Interval(middle, low, high), len(said.misses)

    def _job(self, record: JobRecord) -> Job | None:
        peak_mib = self._peak_of(record)
        if peak_mib is None or not 0.0 < peak_mib < math.inf:
            return None
        guess, spread = self._guess_of(record)
        return Job(traits_of(record), math.log(peak_mib) - guess, doubt=spread / effects.OFF)
