"""How long jobs run at a site of which little has been seen: what its own jobs make of published figures, and experts.

Until boosted models can be trained the point is the weighted median of the experts on the past (`online`) and of the
site's own correction of the prior (`site`). Either weighs by how far off it is expected to be: an expert by its own
mistakes, the correction by what it says of its own doubt in this very job, held against how far off it was lately.
Around the point, jobs spread as they did around earlier ones, in units of that doubt.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyzers.types import JobRecord, Submission
from predictors.duration import hit_its_limit
from predictors.effects import Floats
from predictors.mixture import Mixture, mix
from predictors.online import expected_weight, weighted_median
from predictors.pace import facts_of
from predictors.prior import ENDS_EARLY, duration_prior
from predictors.site import WINDOW_JOBS, Effects, Job, Said, shaped
from predictors.traits import Traits, traits_of

VOICE = "the site's own jobs"
#: What a run counts that broke off: it tells little of how long such work takes.
_BROKEN_OFF = 0.03
#: One that its limit ended would have gone on; on the log scale, half a bell of as much as single runs differ.
_BEYOND_LIMIT = 0.4
_MISSES = 150
#: The published share of jobs that break off is worth so many jobs.
_SHARE_JOBS = 3.0
#: The mean of a bell's absolute value, before any was seen; what it is worth in jobs; and the half-life in ended jobs.
_MEAN_MISS, _MISS_JOBS = 0.8, 4.0
_FORGET = 0.5 ** (1 / 30)
_LARGEST_MISTAKE = 4.0
_NONE: Floats = np.zeros(0)


@dataclass(frozen=True, slots=True)
class SiteSaid:
    """Of one job, logarithms of seconds: the site's correction and its standard deviation (before any job has ended,
    those of the ``guess``), the ``point`` of all together, and the distribution ``around`` it of the runtime if no
    limit cut it. ``heard``: (guess, weight) of each expert with an idea and, where jobs have ended, last the site's."""

    traits: Traits
    guess: float
    middle: float
    spread: float
    point: float
    around: Mixture
    heard: Sequence[tuple[float, float]]
    by_jobs: bool


#: From how far off guesses without any job are expected to be: (guess, weight) of each expert that has an idea.
Experts = Callable[[float], Sequence[tuple[float, float]]]


class SiteDurations:
    """``ask(record, experts)`` at submission, ``learn(record, asked)`` when it has ended."""

    def __init__(self) -> None:
        self._effects = Effects()
        self._misses: deque[tuple[float, float, float, float]] = deque(maxlen=_MISSES)
        self._broken: deque[bool] = deque(maxlen=WINDOW_JOBS)
        self._off, self._count = _MEAN_MISS * _MISS_JOBS, _MISS_JOBS

    def ask(self, record: JobRecord, experts: Experts) -> SiteSaid:
        """What is said of a job submitted at ``record.submit_s``; its own end is not read."""
        traits, (guess, doubt) = traits_of(record), guess_of(record)
        heard = [*experts(_MEAN_MISS * doubt)]
        if not self._effects.jobs:
            point = weighted_median(heard) if heard else guess
            around = shaped(_NONE, _NONE, point, doubt)
            return SiteSaid(traits, guess, guess, doubt, point, around, heard, by_jobs=False)
        said = self._effects.solved().say(traits, guess)
        heard.append((said.middle, expected_weight(said.spread * self._off / self._count)))
        point = weighted_median(heard)
        around = self._around(point, said, record.submit_s)
        return SiteSaid(traits, guess, said.middle, said.spread, point, around, heard, by_jobs=True)

    def learn(self, record: JobRecord, asked: SiteSaid) -> None:
        """A job that was asked about has ended."""
        cut = hit_its_limit(record)
        truth = math.log(max(1.0, record.duration_s or 0.0)) + _BEYOND_LIMIT * cut
        whole = cut or record.outcome in ("completed", None)
        if asked.by_jobs:
            if whole:
                self._misses.append((truth, truth - asked.point, asked.spread, record.submit_s))
            off = min(_LARGEST_MISTAKE, abs(truth - asked.middle) / asked.spread)
            self._off, self._count = self._off * _FORGET + off, self._count * _FORGET + 1.0
        self._effects.learn(Job(asked.traits, truth - asked.guess, 1.0 if whole else _BROKEN_OFF))
        self._broken.append(not whole)

    def _around(self, point: float, said: Said, now_s: float) -> Mixture:
        """Whole runs were off what was told of them by so many of the standard deviations told, which are those of
        ``said`` now; what broke off did so anywhere beside what is said of its whole run."""
        told = np.array(self._misses).reshape(-1, 4)
        unit = said.spread / told[:, 2]
        longest = np.maximum(np.log(np.maximum(1.0, now_s - told[:, 3])), told[:, 0])
        misses = unit * told[:, 1]
        whole = shaped(misses, misses + unit * (longest - told[:, 0]), point, said.spread)
        broken = said.off[np.array(self._broken)]
        if not len(broken):
            return _at(point, whole)
        share = (len(broken) + ENDS_EARLY * _SHARE_JOBS) / (len(self._broken) + _SHARE_JOBS)
        parts = Mixture(np.sort(point + broken), np.ones(len(broken)))
        return _at(point, mix([whole.scaled(1.0 - share), parts.scaled(share)]))


def _at(point: float, shape: Mixture) -> Mixture:
    """The same shape with its median at the ``point``."""
    return replace(shape, points=shape.points + (point - math.log(float(shape.quantile_s((0.5,))[0]))))


def guess_of(record: JobRecord) -> tuple[float, float]:
    """The prior's middle and half of its 80 % interval over a bell's, logarithms of seconds."""
    asked = Submission(record.command or "", gpus=record.gpus, gpu_type=record.gpu_type, limit_s=record.requested_s)
    low, middle, high = (
        math.log(s) for s in duration_prior(asked, facts_of(record)).mixture.quantile_s((0.1, 0.5, 0.9))
    )
    return middle, (high - low) / (2 * 1.2816)
