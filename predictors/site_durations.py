"""How long jobs run at a site of which little has been seen: what its own jobs make of published figures, and experts.

Until boosted models can be trained the point is the weighted median of the experts on the past (`online`) and of the
site's own correction of the prior (`site`). Either weighs by how far off it is expected to be: an expert by its own
mistakes, the correction by what it says of its own doubt in this very job, held against how far off it was lately.
Around the point, jobs spread as they did around earlier ones, in units of that doubt.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord, Submission
from predictors.censored import mean_size_beyond, outlasting
from predictors.duration import hit_its_limit
from predictors.effects import Floats
from predictors.in_flight import Started
from predictors.mixture import Mixture, mix
from predictors.online import expected_weight, weighted_median
from predictors.pace import facts_of
from predictors.prior import ENDS_EARLY, duration_prior
from predictors.site import WINDOW_JOBS, Effects, Job, Lasting, Said, at_spread, shaped
from predictors.traits import Traits, traits_of

VOICE = "the site's own jobs"
#: What a run counts that broke off: it tells little of how long such work takes.
_BROKEN_OFF = 0.03
#: One that its limit ended would have gone on; on the log scale, half a bell of as much as single runs differ.
_BEYOND_LIMIT = 0.4
_MISSES = 150
#: The published share of jobs that break off is worth so many jobs.
_SHARE_JOBS = 3.0
#: The point is placed at the 10 to 90 % quantile of whole runs.
_MOST_MOVED = 0.9
#: How far the moment at which jobs break off follows how long they would run: half, worth so many squared logarithms.
_FOLLOWS, _FOLLOWS_WORTH = 0.5, 10.0
#: Of a miss half counts after so many more; of one in another doubt 60 % where that is off by this on the log scale.
_HALF_LIFE_JOBS, _ALIKE_WITHIN = 40.0, 0.7
#: The mean of a bell's absolute value, before any was seen; what it is worth in jobs; and the half-life in ended jobs.
_MEAN_MISS, _MISS_JOBS = 0.8, 4.0
_FORGET = 0.5 ** (1 / 30)
_LARGEST_MISTAKE = 4.0
#: Ages of jobs in flight are taken in steps of one part in so many.
_AGE_STEPS = 20.0
#: What is kept of a job that was asked about: what was told of it, and the truth, and since when it could end.
_MIDDLE, _POINT, _SPREAD, _TRUTH, _SINCE = range(5)
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


#: A job in flight with what was said of it when it was submitted.
Flying = tuple[Started, SiteSaid]
#: From how far off guesses without any job are expected to be: (guess, weight) of each expert that has an idea.
Experts = Callable[[float], Sequence[tuple[float, float]]]


class SiteDurations:
    """``ask(record, experts)`` at submission, ``learn(record, asked)`` when it has ended."""

    def __init__(self) -> None:
        self._effects = Effects()
        self._misses: deque[tuple[float, float, float, float, float]] = deque(maxlen=_MISSES)
        #: Of each job that has ended, the logarithm of when it broke off, if it did.
        self._broken: deque[float | None] = deque(maxlen=WINDOW_JOBS)
        self._shifts: deque[float] = deque(maxlen=WINDOW_JOBS)
        self._off, self._count = _MEAN_MISS * _MISS_JOBS, _MISS_JOBS
        #: Of what, and when, what is in flight was last made of; None where it has to be made anew.
        self._lasting: tuple[list[str], float] | None = [], -math.inf
        self._running: tuple[Floats, Floats] = _NONE, _NONE.reshape(0, 3)
        #: Whether one that has ended was told of while it ran. Not what is in flight when someone asks: that is told of
        #: at every question, and whether there were any changes nothing later.
        self._told_of_starts = False

    def copy(self) -> SiteDurations:
        """The same, to be asked and to be learned on apart from this one."""
        other = copy.copy(self)
        other._effects = self._effects.copy()
        other._misses, other._broken, other._shifts = self._misses.copy(), self._broken.copy(), self._shifts.copy()
        return other

    def lasting(self, running: Sequence[Flying], now_s: float) -> None:
        """These jobs are in flight at ``now_s``."""
        ids = [started.record.job_id for started, _ in running]
        at_s = _stepped(now_s, [started for started, _ in running])
        if (ids, at_s) == self._lasting:
            return
        self._lasting = ids, at_s
        ages = np.log([max(1.0, started.age_s(at_s)) for started, _ in running])
        told = np.array([(said.middle, said.point, said.spread) for _, said in running]).reshape(-1, 3)
        self._running = ages, told
        self._effects.lasting([
            Lasting(said.traits, float(age) - said.guess, self._breaks_after(float(age), len(running)))
            for age, (_, said) in zip(ages, running, strict=True)
        ])  # fmt: skip

    def _breaks_after(self, age: float, running: int) -> float:
        """The odds that a job in flight at this age (a logarithm) is one of those that break off."""
        broken = [at for at in self._broken if at is not None]
        whole = len(self._broken) - len(broken) + running
        return (sum(at > age for at in broken) + ENDS_EARLY) / (whole + 1.0 - ENDS_EARLY)

    @property
    def knows_any(self) -> bool:
        """Whether any job has ended or is known to be in flight."""
        return bool(self._effects.jobs or self._effects.running)

    def ask(self, record: JobRecord, experts: Experts) -> SiteSaid:
        """What is said of a job submitted at ``record.submit_s``; its own end is not read."""
        traits, (guess, doubt) = traits_of(record), guess_of(record)
        heard = [*experts(_MEAN_MISS * doubt)]
        if not self.knows_any:
            point = weighted_median(heard) if heard else guess
            unseen = shaped(_NONE, _NONE, point, doubt)
            return SiteSaid(traits, guess, guess, doubt, point, unseen, heard, by_jobs=False)
        solved = self._effects.solved()
        said = solved.say(traits, guess)
        shift = shift_of(record, guess)
        beyond = min((shift - each for each in self._shifts), key=abs, default=0.0)
        strange = abs(beyond)
        said = replace(said, middle=said.middle - beyond, spread=math.hypot(said.spread, strange))
        ages, told = self._running
        exceeded = (ages - told[:, _MIDDLE]) / told[:, _SPREAD]
        off, count = self._off + float(mean_size_beyond(exceeded).sum()), self._count + len(exceeded)
        middle = said.middle
        if self._told_of_starts or len(ages):  # without the starts those that ended are short enough as it is
            middle = self._around(said, solved.exceeded, record.submit_s, _MIDDLE).median
        heard.append((middle, expected_weight(math.hypot(said.spread * off / count, strange))))
        point = weighted_median(heard)
        around = self._around(said, solved.exceeded, record.submit_s, _POINT, middle - said.middle).at(point)
        return SiteSaid(traits, guess, said.middle, said.spread, point, around, heard, by_jobs=True)

    def learn(self, record: JobRecord, asked: SiteSaid, *, told: bool = False) -> None:
        """A job that was asked about when it was submitted has ended; ``told``: while it ran, that was told of."""
        self._told_of_starts = self._told_of_starts or told
        cut = hit_its_limit(record)
        truth = math.log(max(1.0, record.duration_s or 0.0)) + _BEYOND_LIMIT * cut
        whole = cut or record.outcome in ("completed", None)
        if asked.by_jobs:
            if whole:
                since_s = -math.inf if told else record.submit_s
                self._misses.append((asked.middle, asked.point, asked.spread, truth, since_s))
            off = min(_LARGEST_MISTAKE, abs(truth - asked.middle) / asked.spread)
            self._off, self._count = self._off * _FORGET + off, self._count * _FORGET + 1.0
        self._effects.learn(Job(asked.traits, truth - asked.guess, 1.0 if whole else _BROKEN_OFF))
        self._broken.append(None if whole else truth)
        self._shifts.append(shift_of(record, asked.guess))
        self._lasting = None  # the odds of breaking off are others now

    def _around(self, said: Said, exceeded: Floats, now_s: float, of: int, below: float = 0.0) -> Ends:
        """How long jobs run that are like one of which this is ``said``. Whole runs were off what was told of them
        when they were submitted (``of``: off what), as is known of those that ended and of those in flight at least,
        or, if that is later, by as many standard deviations as those have ``exceeded`` what is said of them now;
        what broke off did so anywhere beside what is said of its whole run. What was told is so far ``below`` what is
        said of whole runs."""
        past = np.array(self._misses).reshape(-1, 5)
        truth, spreads = past[:, _TRUTH], past[:, _SPREAD]
        misses, weights, which = at_spread(truth - past[:, of], spreads, said.spread)
        age = len(past) - 1.0 - which
        weights = weights * _alike(spreads[which], said.spread) * 0.5 ** (age / _HALF_LIFE_JOBS)
        longest = np.maximum(np.log(np.maximum(1.0, now_s - past[:, _SINCE])), truth) - truth
        limits = misses + (longest * np.minimum(1.0, said.spread / spreads))[which]
        seen = shaped(misses, limits, said.middle, said.spread, weights)
        broken = np.array([at for at in self._broken if at is not None])
        off = said.off[np.array([at is not None for at in self._broken], dtype=bool)]
        parts = Mixture(np.sort(_breaks_at(broken, broken - off, said.middle) - below), np.ones(len(broken)))
        if len(broken):
            share = (len(broken) + ENDS_EARLY * _SHARE_JOBS) / (len(self._broken) + _SHARE_JOBS)
            parts = parts.scaled(seen.mass * share / (1.0 - share))
        ages, told = self._running
        bounds, weights, which = at_spread(ages - told[:, of], told[:, _SPREAD], said.spread)
        now = said.spread * exceeded[which] - below
        weights = weights * np.where(now > bounds, 1.0, _alike(told[which, _SPREAD], said.spread))
        bounds = np.maximum(bounds, now)
        return Ends.of(seen, parts).outlasting(said.middle + bounds, weights, said.spread)


@dataclass(frozen=True, slots=True)
class Ends:
    """When a job ends: the ``whole`` points are those of whole runs, the others those of jobs that broke off."""

    shape: Mixture
    whole: NDArray[np.bool_]

    @staticmethod
    def of(whole: Mixture, broken: Mixture) -> Ends:
        """Both together, each with the weight it has."""
        points = np.concatenate([whole.points, broken.points])
        order = np.argsort(points, kind="stable")
        weights = np.concatenate([whole.weights, broken.weights])
        return Ends(Mixture(points[order], weights[order]), order < len(whole.points))

    def outlasting(self, bounds: Floats, weights: Floats, beyond: float) -> Ends:
        """As `censored.outlasting`; what outlasts everything seen is a whole run."""
        shape = outlasting(self.shape, bounds, weights, beyond)
        return Ends(shape, np.append(self.whole, np.ones(len(shape.points) - len(self.whole), dtype=bool)))

    @property
    def median(self) -> float:
        """A logarithm of seconds."""
        return math.log(float(self.shape.quantile_s((0.5,))[0]))

    def at(self, point: float) -> Mixture:
        """With the median of all at the ``point``: whole runs are moved, what breaks off does so when it did; where
        more than half break off below the point, nearly all whole runs are above it."""
        points, weights = self.shape.points, self.shape.weights
        whole = np.where(self.whole, weights, 0.0)
        wanted = 0.5 * self.shape.mass - float(weights[~self.whole & (points <= point)].sum())
        level = min(_MOST_MOVED, max(1.0 - _MOST_MOVED, wanted / float(whole.sum())))
        reached = np.cumsum(whole) - 0.5 * whole
        level_at = float(np.interp(level * whole.sum(), reached[self.whole], points[self.whole]))
        moved = mix([
            Mixture(points[self.whole] + (point - level_at), weights[self.whole]),
            Mixture(points[~self.whole], weights[~self.whole]),
        ])  # fmt: skip
        return _halved(moved, point)


def _alike(spreads: Floats, spread: float) -> Floats:
    """What jobs in other doubt tell of one that is in so much: those in as much tell the most (localized conformal
    prediction: Guan, Biometrika 2023)."""
    alike: Floats = np.exp(-0.5 * (np.log(spreads / spread) / _ALIKE_WITHIN) ** 2)
    return alike


def _halved(shape: Mixture, point: float) -> Mixture:
    """The same points, with half of the weight on either side of the ``point``."""
    below = shape.points < point
    share = float(shape.weights[below].sum()) / shape.mass
    if not 0.0 < share < 1.0:
        return shape
    return replace(shape, weights=shape.weights * np.where(below, 0.5 / share, 0.5 / (1.0 - share)))


def _breaks_at(at: Floats, whole: Floats, middle: float) -> Floats:
    """When jobs of which this ``middle`` is said would break off, by when others did and what is said of their
    ``whole`` runs; logarithms.

    Some do at their start, however much there is to do, others anywhere in their work: how far the moment follows the
    work is learned (least squares, shrunk towards half of the way).
    """
    if not len(at):
        return at
    apart = whole - whole.mean()
    follows = (float(apart @ at) + _FOLLOWS * _FOLLOWS_WORTH) / (float(apart @ apart) + _FOLLOWS_WORTH)
    moved: Floats = at + min(1.0, max(0.0, follows)) * (middle - whole)
    return moved


def _stepped(now_s: float, running: Sequence[Started]) -> float:
    """The moment, back to the last step of a twentieth, at most, of their median age: so ages change now and then, and
    no age is told of before it was reached."""
    ages = sorted(each.age_s(now_s) for each in running)
    if not ages:
        return -math.inf
    if ages[len(ages) // 2] <= 0.0:
        return now_s
    step_s = 2.0 ** math.floor(math.log2(ages[len(ages) // 2] / _AGE_STEPS))
    return math.floor(now_s / step_s) * step_s


def shift_of(record: JobRecord, guess: float) -> float:
    """By how much its time limit moves what is guessed of a job, a logarithm. Beyond what was seen of jobs under such
    limits it moves nothing, and is in doubt by as much: who asks for ten seconds, or a week, for what ran for a minute
    without a limit does not change how long it runs."""
    return 0.0 if record.requested_s is None else guess - guess_of(replace(record, requested_s=None))[0]


def guess_of(record: JobRecord) -> tuple[float, float]:
    """The prior's middle and half of its 80 % interval over a bell's, logarithms of seconds."""
    asked = Submission(record.command or "", gpus=record.gpus, gpu_type=record.gpu_type, limit_s=record.requested_s)
    low, middle, high = (
        math.log(s) for s in duration_prior(asked, facts_of(record)).mixture.quantile_s((0.1, 0.5, 0.9))
    )
    return middle, (high - low) / (2 * 1.2816)
