"""How long jobs run at a site of which little has been seen: what its own jobs make of published figures, and experts.

Until boosted models can be trained the point is the weighted median of the experts on the past (`online`) and of the
site's own correction of the prior (`site`). Either weighs by how far off it is expected to be: an expert by its own
mistakes, the correction by what it says of its own doubt in this very job, held against how far off it was lately.
Around the point, jobs spread as they did around earlier ones, in units of that doubt.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyzers.types import JobRecord, Submission
from predictors.censored import mean_size_beyond, outlasting
from predictors.duration import hit_its_limit
from predictors.effects import Floats
from predictors.in_flight import Started
from predictors.mixture import Mixture, mix
from predictors.online import expected_weight, weighted_median
from predictors.pace import facts_of
from predictors.prior import ENDS_EARLY, duration_prior
from predictors.site import WINDOW_JOBS, Effects, Job, Lasting, Said, shaped
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
#: Ages of jobs in flight are taken in steps of one part in so many.
_AGE_STEPS = 20.0
#: What is kept of a miss: the truth, what spread was told, since when it could end, and how far off it was.
_TRUTH, _SPREAD, _SINCE, _OFF_MIDDLE, _OFF_POINT = range(5)
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
        self._misses: deque[tuple[float, float, float, float, float]] = deque(maxlen=_MISSES)
        self._broken: deque[float | None] = deque(maxlen=WINDOW_JOBS)
        self._shifts: deque[float] = deque(maxlen=WINDOW_JOBS)
        self._off, self._count = _MEAN_MISS * _MISS_JOBS, _MISS_JOBS
        self._lasting: tuple[list[str], float] = [], -math.inf
        self._known: dict[str, tuple[Traits, float]] = {}
        self._told: Container[str] = ()
        self._told_of_starts = False

    def lasting(self, running: Sequence[Started], now_s: float, told: Container[str] = ()) -> None:
        """These jobs are in flight at ``now_s``; ``told``: of the jobs learned from next, the ids of those that had
        been told of while they ran."""
        self._told = told
        self._told_of_starts = self._told_of_starts or bool(running or told)
        ids = [each.record.job_id for each in running]
        at_s = _stepped(now_s, running)
        if (ids, at_s) == self._lasting:
            return
        self._lasting = ids, at_s
        self._known = {
            job_id: self._known.get(job_id) or _known(each.record) for job_id, each in zip(ids, running, strict=True)
        }
        ages = [math.log(max(1.0, each.age_s(at_s))) for each in running]
        self._effects.lasting([
            Lasting(traits, age - guess, self._breaks_after(age, len(running)))
            for age, (traits, guess) in zip(ages, self._known.values(), strict=True)
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
            around = shaped(_NONE, _NONE, point, doubt)
            return SiteSaid(traits, guess, guess, doubt, point, around, heard, by_jobs=False)
        solved = self._effects.solved()
        said, exceeded = solved.say(traits, guess), solved.exceeded
        shift = shift_of(record, guess)
        beyond = min((shift - each for each in self._shifts), key=abs, default=0.0)
        said, strange = replace(said, middle=said.middle - beyond), abs(beyond)
        off, count = self._off + float(mean_size_beyond(exceeded).sum()), self._count + len(exceeded)
        middle = said.middle
        if self._told_of_starts:  # without the starts those that ended are short enough as it is
            middle = _median(self._around(said, record.submit_s, exceeded, _OFF_MIDDLE))
        spread = math.hypot(said.spread, strange)
        heard.append((middle, expected_weight(math.hypot(said.spread * off / count, strange))))
        point = weighted_median(heard)
        around = self._around(said, record.submit_s, exceeded, _OFF_POINT, middle - said.middle)
        return SiteSaid(traits, guess, said.middle, spread, point, _at(point, around), heard, by_jobs=True)

    def learn(self, record: JobRecord, asked: SiteSaid) -> None:
        """A job that was asked about has ended."""
        cut = hit_its_limit(record)
        truth = math.log(max(1.0, record.duration_s or 0.0)) + _BEYOND_LIMIT * cut
        whole = cut or record.outcome in ("completed", None)
        if asked.by_jobs:
            if whole:
                since_s = -math.inf if record.job_id in self._told else record.submit_s
                self._misses.append((truth, asked.spread, since_s, truth - asked.middle, truth - asked.point))
            off = min(_LARGEST_MISTAKE, abs(truth - asked.middle) / asked.spread)
            self._off, self._count = self._off * _FORGET + off, self._count * _FORGET + 1.0
        self._effects.learn(Job(asked.traits, truth - asked.guess, 1.0 if whole else _BROKEN_OFF))
        self._broken.append(None if whole else truth)
        self._shifts.append(shift_of(record, asked.guess))

    def _around(self, said: Said, now_s: float, exceeded: Floats, of: int, below: float = 0.0) -> Mixture:
        """How long jobs run that are like one of which this is ``said``. Whole runs were off what was told of them
        (``of``: off what) by so many of the standard deviations told, which are those of ``said`` now; what broke off
        did so anywhere beside what is said of its whole run; what is in flight does either, later than it has
        ``exceeded``. What was told is so far ``below`` what is said of whole runs."""
        told = np.array(self._misses).reshape(-1, 5)
        unit = said.spread / told[:, _SPREAD]
        longest = np.maximum(np.log(np.maximum(1.0, now_s - told[:, _SINCE])), told[:, _TRUTH])
        misses = unit * told[:, of]
        seen = shaped(misses, misses + unit * (longest - told[:, _TRUTH]), said.middle, said.spread)
        broken = said.off[np.array([at is not None for at in self._broken], dtype=bool)]
        if len(broken):
            share = (len(broken) + ENDS_EARLY * _SHARE_JOBS) / (len(self._broken) + _SHARE_JOBS)
            parts = Mixture(np.sort(said.middle + broken - below), np.ones(len(broken)))
            seen = mix([seen, parts.scaled(seen.mass * share / (1.0 - share))])
        return outlasting(seen, said.middle + said.spread * exceeded - below, said.spread)


def _known(record: JobRecord) -> tuple[Traits, float]:
    return traits_of(record), guess_of(record)[0]


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


def _median(shape: Mixture) -> float:
    return math.log(float(shape.quantile_s((0.5,))[0]))


def _at(point: float, shape: Mixture) -> Mixture:
    """The same shape with its median at the ``point``."""
    return replace(shape, points=shape.points + (point - _median(shape)))


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
