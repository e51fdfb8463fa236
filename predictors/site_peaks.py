"""Peaks of memory: arithmetic and published figures, corrected by the peaks that this site's own jobs had.

Memory repeats itself far better than time, so a few jobs tell most of it: what is in doubt at first is what a program
of this site takes at all, which all of them share.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from analyzers.history.index import end_s
from analyzers.types import JobRecord
from predictors import effects
from predictors.site import LOOKED_BACK, WINDOW_JOBS, Comparison, Effects, Job, Solved, shaped
from predictors.traits import Traits, traits_of
from predictors.types import Interval

#: The logarithm of a peak before any was seen, and the standard deviation of how far that is off.
Guess = tuple[float, float]
#: Two runs of the same differ by a tenth.
_NOISE = 0.1
_START = np.append(effects.START[:-1], math.log(_NOISE))
#: Where jobs older than the window are among those most like it, so many of them and of the newest are looked at.
_NEWEST, _ALIKE = 40, 20
#: So many of those are kept as they were read.
_KEPT = 5_000


class Looks:
    """Jobs as they were read, and compared, kept: several peaks are told of one job, by those that it is like."""

    def __init__(self) -> None:
        self.comparison = Comparison()
        self._ended: dict[int, tuple[JobRecord, Traits]] = {}
        self._asked: tuple[JobRecord, Traits] | None = None

    def ended(self, record: JobRecord) -> Traits:
        """Of a job of the history: a few are those that most others are like."""
        known = self._ended.get(id(record))
        if known is None:
            if len(self._ended) >= _KEPT:
                self._ended.clear()
            known = self._ended[id(record)] = record, traits_of(record)  # holds it, so that its id stays its own
        return known[1]

    def asked(self, record: JobRecord) -> Traits:
        """Of the job that is asked about."""
        if self._asked is None or self._asked[0] is not record:
            self._asked = record, traits_of(record)
        return self._asked[1]


class SitePeaks:
    """``learn(records)`` in order of their ends, then ``corrected(record, guess, similar)``."""

    def __init__(
        self, peak_of: Callable[[JobRecord], float | None], guess_of: Callable[[JobRecord], Guess], looks: Looks
    ) -> None:
        """``peak_of``: the MiB that an ended job was seen to take; ``guess_of``: what was guessed of it."""
        self._peak_of, self._guess_of, self._looks = peak_of, guess_of, looks
        self._effects = Effects(_START)
        self._names: deque[str] = deque(maxlen=WINDOW_JOBS)
        self._looked_at: dict[int, tuple[JobRecord, Job | None]] = {}

    def copy(self) -> SitePeaks:
        """The same, to be learned on apart from this one; how jobs were read is kept in common."""
        other = copy.copy(self)
        other._effects, other._names = self._effects.copy(), self._names.copy()
        return other

    def learn(self, records: Sequence[JobRecord]) -> None:
        """Jobs have ended; those of which no peak is known are passed over, and those that newer ones put out of the
        window count only as having ended."""
        seen = [record for record in records if self._is_known(record)]
        newest = seen[-LOOKED_BACK:]
        self._effects.passed_over(len(seen) - len(newest))
        for record in newest:
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
        jobs = [job for each in older if (job := self._once(each)) is not None]
        if jobs:  # a large site: the newest of all of it are less alike than these
            jobs += list(self._effects.jobs)[-_NEWEST:]
            solved = Solved(self._effects.logs(), jobs, comparison=self._looks.comparison)
        elif self._effects.jobs:
            solved = self._effects.solved()
        else:
            return None
        said = solved.say(self._looks.asked(record), guess[0], doubt)
        around = shaped(said.spread * said.misses, np.full(len(said.misses), np.inf), said.middle, said.spread)
        low, middle, high = (float(value) for value in around.quantile_s((0.1, 0.5, 0.9)))
        return Interval(middle, low, high), len(said.misses)

    def _once(self, record: JobRecord) -> Job | None:
        """`_job`, kept: a few jobs are those that most others are like."""
        known = self._looked_at.get(id(record))
        if known is None:
            if len(self._looked_at) >= _KEPT:
                self._looked_at.clear()
            known = self._looked_at[id(record)] = record, self._job(record)  # holds it, so that its id stays its own
        return known[1]

    def _is_known(self, record: JobRecord) -> bool:
        peak_mib = self._peak_of(record)
        return record.duration_s is not None and peak_mib is not None and 0.0 < peak_mib < math.inf

    def _job(self, record: JobRecord) -> Job | None:
        peak_mib = self._peak_of(record)
        if peak_mib is None or not self._is_known(record):
            return None
        guess, spread = self._guess_of(record)
        return Job(self._looks.ended(record), math.log(peak_mib) - guess, doubt=spread / effects.OFF)
