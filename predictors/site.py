"""A guess made from facts and published figures, corrected by the ended jobs of the site that it is made for.

How large the site's own effects are is learned anew whenever there are some more jobs, on a schedule of ended jobs
alone: when anyone asks changes nothing. Between, a job that has ended only joins those that are solved for. See
`effects` for the model, `traits` for what tells jobs apart.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from predictors import effects
from predictors.censored import Censored, exceeding
from predictors.effects import Floats
from predictors.mixture import Mixture
from predictors.traits import Traits

#: So many of the newest jobs are learned from.
WINDOW_JOBS = 200
#: The effects are learned from so many jobs on, and anew whenever there are this much more of them, or this many.
_FIRST_FIT_JOBS = 6
_GROWTH = 1.3
_MOST_JOBS_BETWEEN = 100
#: No more than so many of the newest jobs decide what is said: the window, as it was when the effects were learned.
LOOKED_BACK = WINDOW_JOBS + _MOST_JOBS_BETWEEN
#: Before any was seen, misses are those of a bell; it is worth so many jobs, and as wide as this: the standard
#: deviations are only guessed.
_BELL_JOBS = 20.0
_BELL_WIDTH = 1.5
#: A standard bell as three points, exact up to the fifth moment.
_BEYOND_AT: Floats = math.sqrt(3.0) * np.array([-1.0, 0.0, 1.0])
_BEYOND_WEIGHTS: Floats = np.array([1.0, 4.0, 1.0]) / 6.0
_BELL: Floats = _BELL_WIDTH * np.array([NormalDist().inv_cdf((i + 0.5) / 21) for i in range(21)])


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has ended: ``residual`` is the logarithm of what came over what was guessed, ``trust`` what it counts
    (1: fully), ``doubt`` how far the guess was expected to be off beside others (1: as far)."""

    traits: Traits
    residual: float
    trust: float = 1.0
    doubt: float = 1.0


@dataclass(frozen=True, slots=True)
class Lasting:
    """A job in flight: its residual is not known, but that it exceeds the ``bound``, unless it is one of those that
    never come to their end, against which are ``odds`` to one; the others as of a `Job`."""

    traits: Traits
    bound: float
    odds: float = 0.0
    doubt: float = 1.0


@dataclass(frozen=True, slots=True)
class Said:
    """Of one job: the logarithm of the middle and its standard deviation. Of the jobs that it rests on: how far
    each is ``off`` what the others say of it, and that in standard deviations (``misses``)."""

    middle: float
    spread: float
    off: Floats
    misses: Floats


class Solved:
    """Some ended jobs, in order of their ends, and some in flight, at least one together, solved for; ``say`` is then
    cheap."""

    def __init__(
        self,
        logs: Floats,
        jobs: Sequence[Job],
        running: Sequence[Lasting] = (),
        comparison: Comparison | None = None,
    ) -> None:
        """``logs``: of the standard deviations; ``comparison``: where these jobs may have been compared."""
        self._compared, self._doubts, shared = _shared([*jobs, *running], comparison or Comparison(), len(running))
        self._ended = ended = len(jobs)
        residuals, before = _columns(jobs)
        among = shared[:, :ended, :ended]
        self._solved = solved = effects.solve_trusted(logs, residuals, among, before)
        self._censored: Censored | None = None
        #: Of each in flight, by how many standard deviations of what all others say of it it is known to last longer.
        self.exceeded: Floats = np.zeros(0)
        if running:
            kernel = np.tensordot(solved.variances[:-1], shared[:, ended:, :], 1)
            self._through = kernel[:, :ended] @ solved.inverse
            covariance = kernel[:, ended:] - self._through @ kernel[:, :ended].T
            bounds = np.array([each.bound for each in running])
            noise = float(solved.variances[-1])
            odds = np.array([each.odds for each in running])
            told = exceeding(kernel[:, :ended] @ solved.pulled, covariance, noise, bounds, odds)
            self._censored, self.exceeded = told, (bounds - told.middles) / told.spreads

    def say(self, traits: Traits, guess: float, doubt: float = 1.0) -> Said:
        """What the jobs make of the ``guess`` (a logarithm), which is in ``doubt`` beside other guesses."""
        solved, ended = self._solved, self._ended
        cross, own = self._compared.one_more(traits)
        cross *= self._doubts * doubt
        expected, spread = solved.said(cross[:, :ended], own * doubt**2)
        if self._censored is not None:
            weighed = solved.variances[:-1] @ cross
            joint = weighed[ended:] - self._through @ weighed[:ended]
            expected += float(joint @ self._censored.pulls)
            left = spread**2 - float(joint @ self._censored.weights @ joint)
            spread = math.sqrt(max(left, float(solved.variances[-1])))
        return Said(guess + expected, spread, solved.off, solved.misses)


class Effects:
    """``learn(job)`` in order of the ends; ``solved()``: what the newest say, with the effects that suit them."""

    def __init__(self, start: Floats = effects.START) -> None:
        """``start``: the logarithms of the standard deviations before any job was seen."""
        self.jobs: deque[Job] = deque(maxlen=WINDOW_JOBS)
        #: Those in flight, see `lasting`.
        self.running: Sequence[Lasting] = ()
        self._fit = _Fit((), start)
        self._seen = 0
        self._next_fit = _FIRST_FIT_JOBS
        self._solved: Solved | None = None

    def copy(self) -> Effects:
        """The same, to be learned on apart from this one."""
        other = copy.copy(self)
        other.jobs = self.jobs.copy()
        return other

    def learn(self, job: Job) -> None:
        """A job has ended."""
        self.jobs.append(job)
        self._seen += 1
        self._solved = None
        if self._seen == self._next_fit:
            self._fit = _Fit(tuple(self.jobs), self._fit.start)
            self._next_fit = _fit_after(self._seen)

    def passed_over(self, count: int) -> None:
        """So many jobs have ended before the `LOOKED_BACK` that are learned next: they are out of the window by then,
        and count for when the effects are learned anew."""
        self._seen += count
        while self._next_fit <= self._seen:
            self._next_fit = _fit_after(self._next_fit)

    def lasting(self, running: Sequence[Lasting]) -> None:
        """These jobs are in flight now, and no others are known to be."""
        self.running = running
        self._solved = None

    def solved(self) -> Solved:
        """The window and what is in flight, at least one job."""
        if self._solved is None:
            self._solved = Solved(self.logs(), self.jobs, self.running)
        return self._solved

    def logs(self) -> Floats:
        """The logarithms of the standard deviations, as they suited the window when they were last due."""
        return self._fit.logs()


def _fit_after(seen: int) -> int:
    """The number of ended jobs at which the effects are learned next."""
    return min(math.ceil(seen * _GROWTH), seen + _MOST_JOBS_BETWEEN)


class _Fit:
    """The effects that suit some jobs, learned when they are first asked for and kept."""

    def __init__(self, jobs: Sequence[Job], start: Floats) -> None:
        self.start = start
        self._jobs = jobs
        self._logs = None if jobs else start

    def logs(self) -> Floats:
        if self._logs is None:
            _, _, shared = _shared(self._jobs, Comparison())
            residuals, before = _columns(self._jobs)
            trust = effects.trusted(self.start, residuals, shared, before)
            self._logs = effects.fit(residuals, shared, trust, self.start)
            self._jobs = ()
        return self._logs


class Comparison:
    """Jobs compared, kept until others are: of a job that is asked about several things are told, by the same jobs.

    Not for several threads at once.
    """

    def __init__(self) -> None:
        self._traits: list[Traits] = []
        self._in_flight = 0
        self._found: tuple[effects.Compared, Floats] | None = None

    def of(self, traits: list[Traits], in_flight: int = 0) -> tuple[effects.Compared, Floats]:
        """The jobs of these very traits compared, the last so many ``in_flight``, and effects x jobs x jobs shared."""
        same = (len(traits), in_flight) == (len(self._traits), self._in_flight) and all(map(is_, traits, self._traits))
        if self._found is None or not same:
            compared = effects.Compared(traits, in_flight)
            self._traits, self._in_flight, self._found = traits, in_flight, (compared, compared.among())
        return self._found


def _shared(
    jobs: Sequence[Job | Lasting], comparison: Comparison, in_flight: int = 0
) -> tuple[effects.Compared, Floats, Floats]:
    """(the jobs compared, their doubts, effects x jobs x jobs shared: the larger where guesses were in doubt)."""
    compared, among = comparison.of([job.traits for job in jobs], in_flight)
    doubts = np.array([job.doubt for job in jobs])
    if (doubts == 1.0).all():
        return compared, doubts, among
    return compared, doubts, among * (doubts[:, None] * doubts[None, :])


def _columns(jobs: Sequence[Job]) -> tuple[Floats, Floats]:
    """(residuals, what each job counts)."""
    return np.array([job.residual for job in jobs]), np.array([job.trust for job in jobs])


def at_spread(off: Floats, spreads: Floats, spread: float) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """(points, weights, which) of what jobs in ``spreads`` of doubt were ``off``, as of a job that is in ``spread``.

    In less doubt it is off by less, in proportion. In more doubt it is off by as much, and by what it is in doubt
    beyond: that part is the model's own and a bell, drawn with three points (Gauss and Hermite). To stretch what a
    familiar job was off by the doubt in an unfamiliar one would take a familiar one's rare accident for a thousandfold
    one of the other. ``which``: the places in ``off``; the weights of each sum to 1.
    """
    beyond = np.sqrt(np.maximum(spread**2 - spreads**2, 0.0))
    points: Floats = (off * np.minimum(1.0, spread / spreads))[:, None] + beyond[:, None] * _BEYOND_AT
    return points.ravel(), np.tile(_BEYOND_WEIGHTS, len(off)), np.repeat(np.arange(len(off)), len(_BEYOND_AT))


def shaped(misses: Floats, limits: Floats, middle: float, spread: float, weights: Floats | None = None) -> Mixture:
    """The distribution around ``middle`` in which past ``misses`` and a bell as wide as ``spread`` have a say.

    ``limits``: how large each miss could at most have been to be known by now. A job that was submitted an hour ago is
    among the ended ones only if it took less, so those that ended are the short ones of late: each counts for those
    that could not be known yet as well (Lynden-Bell, MNRAS 1971; Woodroofe, Annals of Statistics 1985). Infinite where
    those that have not ended are told as well. ``weights``: in jobs, 1 each if not said. The mass is that of the jobs
    and of those that they count for.
    """
    points = np.concatenate([misses, spread * _BELL])
    own = np.ones(len(misses)) if weights is None else weights
    weights = np.concatenate([own, np.full(len(_BELL), _BELL_JOBS / len(_BELL))])
    known_to = np.concatenate([limits, np.full(len(_BELL), np.inf)])
    order = np.argsort(points, kind="stable")
    points, weights, known_to = points[order], weights[order], known_to[order]
    # Those at or below each point that could have been known had they been as large.
    by_limit = np.argsort(known_to, kind="stable")
    gone = np.append(0.0, np.cumsum(weights[by_limit]))[np.searchsorted(known_to[by_limit], points, side="left")]
    reached = np.append(0.0, np.cumsum(weights))[np.searchsorted(points, points, side="right")]
    stays = np.clip(1.0 - weights / np.maximum(reached - gone, weights), 1e-9, 1.0)
    below = np.append(np.cumprod(stays[::-1])[::-1][1:], 1.0)  # the share up to and with each point
    shares = np.diff(below, prepend=0.0)
    seen = below[np.searchsorted(points, known_to, side="right") - 1]
    return Mixture(middle + points, np.maximum(shares * np.sum(weights / seen), 1e-12))
