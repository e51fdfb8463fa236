"""What a site's own ended jobs say of a guess made before any was seen: a mixed model on the log scale.

The *residual* of a job is the logarithm of what came over what was guessed. It is taken to be a sum of effects: of the
site, of the user, of the program, of the very same code, of the request, of the settings (steady ones, and those of
runs that are alike), of what was lately the case; and noise. Every effect is drawn around zero with a standard
deviation of its own, so it counts only as far as jobs have shown it: few jobs move the site's effect, which all of
them share, many tell programs and settings apart. That is best linear unbiased prediction (Robinson, "That BLUP is a
good thing", Statistical Science 1991), the same as a Gaussian process whose kernel is the sum of the effects' own. The
standard deviations themselves are learned (`fit`: maximum posterior, Rasmussen and Williams 2006, section 5.4), so that
what does not tell jobs apart at this site loses its say.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from predictors.threads import in_one_thread
from predictors.traits import GROUPS, KINDS, SCRIPT, USER, Traits

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Each effect with its standard deviation before any job was seen; the last is the noise. Published figures are off by
#: a factor of four and more at a site unlike those that published, and runs of one program by a half either way.
EFFECTS: Mapping[str, float] = {
    "site": 1.5, "user": 1.0, "user and name": 0.5, "script": 0.5, "code": 0.4, "request": 0.3, "user and request": 0.3,
    "kind": 0.5, "settings": 0.3, "settings alike": 0.3, "facts": 0.2, "amount": 0.3, "user lately": 0.3,
    "site lately": 0.15, "noise": 0.3,
}  # fmt: skip
START: Floats = np.log(np.array(list(EFFECTS.values())))
#: How far a guess is expected to be off with these, the noise apart.
OFF = float(np.sqrt(np.sum(np.exp(2.0 * START[:-1]))))
#: How far the logarithms of these are expected to be off, and how far they may go.
_DOUBT = 0.7
_LEAST, _MOST = -3.0, 2.0
#: "Lately" is this many ended jobs ago.
_LATELY_JOBS = 6.0
#: Nothing is followed further than this beyond the amounts that were seen: a factor of e^4.
_FARTHEST = 4.0
_ITERATIONS = 15
#: Of options, words and facts so many are told apart, the frequent ones.
_MOST_COLUMNS = 400
_JITTER = 1e-8
#: Degrees of freedom of the noise: jobs far off the others count less (Lange, Little and Taylor, JASA 1989).
_FREEDOM = 4.0
_ROUNDS = 3


class Compared:
    """Jobs that have ended, in order of their ends, and last so many ``in_flight``, ready to be compared with one
    another and with one more."""

    def __init__(self, traits: Sequence[Traits], in_flight: int = 0) -> None:
        self._codes: dict[Hashable, int] = {}
        self._groups = np.array([self._coded(t.groups, learn=True) for t in traits])
        self._kinds = np.array([self._coded(t.kinds, learn=True) for t in traits])
        self._options = _Columns([t.options for t in traits])
        self._words = _Columns([t.words for t in traits], centred=False)
        self._facts = _Columns([t.facts for t in traits])
        self._amounts = _Columns([t.amounts for t in traits], farthest=_FARTHEST)
        self._settings = np.hstack([self._options.table, self._words.table])
        ended = len(traits) - in_flight
        #: The jobs' place in the order of the ends; those in flight come next.
        self._places = np.minimum(np.arange(len(traits), dtype=float), ended)
        self._next = float(ended)

    def among(self) -> Floats:
        """(effects without the noise) x jobs x jobs: how much of each effect two jobs share."""
        place = self._places
        return self._shared(
            self._groups, self._kinds, self._settings, self._facts.table, self._amounts.table,
            np.abs(place[:, None] - place[None, :]),
        )  # fmt: skip

    def one_more(self, traits: Traits) -> tuple[Floats, Floats]:
        """The same of a job that is yet to end: effects x jobs with the others, and effects with itself."""
        groups, kinds = self._coded(traits.groups, learn=False), self._coded(traits.kinds, learn=False)
        settings = np.append(self._options.row(traits.options), self._words.row(traits.words))[None, :]
        facts, amounts = self._facts.row(traits.facts)[None, :], self._amounts.row(traits.amounts)[None, :]
        age = (self._next - self._places)[None, :]
        cross = self._shared(np.array([groups]), np.array([kinds]), settings, facts, amounts, age)
        known = [float(group is not None) for group in traits.groups]
        own = np.array([
            1.0,
            *known,
            sum(kind is not None for kind in traits.kinds) / len(traits.kinds),
            float(settings[0] @ settings[0]),
            known[SCRIPT],
            float(facts[0] @ facts[0]),
            float(amounts[0] @ amounts[0]),
            known[USER],
            1.0,
        ])  # fmt: skip
        return cross[:, 0, :], own

    def _coded(self, keys: Sequence[Hashable | None], *, learn: bool) -> list[int]:
        """A number for each key; -1 for one that is not known, which is the same as no other."""
        found = []
        for place, key in enumerate(keys):
            code = -1 if key is None else self._codes.get((place, key), -1)
            if code < 0 and key is not None and learn:
                code = self._codes[place, key] = len(self._codes)
            found.append(code)
        return found

    def _shared(
        self, groups: Codes, kinds: Codes, settings: Floats, facts: Floats, amounts: Floats, gap: Floats
    ) -> Floats:
        """Effects x rows x jobs, of rows in the columns of the jobs; ``gap``: how many ended jobs lie between."""
        found = np.empty((len(EFFECTS) - 1, *gap.shape))
        found[0] = 1.0
        for at in range(len(GROUPS)):
            found[1 + at] = _same(groups[:, at], self._groups[:, at])
        kind, steady, alike, by_facts, by_amount, user_lately, lately = range(1 + len(GROUPS), len(found))
        found[kind] = sum(_same(kinds[:, at], self._kinds[:, at]) for at in range(len(KINDS))) / len(KINDS)
        found[steady] = settings @ self._settings.T
        apart = (settings**2).sum(axis=1)[:, None] + (self._settings**2).sum(axis=1)[None, :] - 2.0 * found[steady]
        found[alike] = found[1 + SCRIPT] * np.exp(-0.5 * np.maximum(apart, 0.0))
        found[by_facts] = facts @ self._facts.table.T
        found[by_amount] = amounts @ self._amounts.table.T
        found[lately] = np.exp(-gap / _LATELY_JOBS)
        found[user_lately] = found[1 + USER] * found[lately]
        return found


def _same(rows: Codes, jobs: Codes) -> NDArray[np.bool_]:
    """Rows x jobs: whether both have the same code, and one at all."""
    same: NDArray[np.bool_] = (rows[:, None] == jobs[None, :]) & (jobs >= 0)
    return same


@in_one_thread
def fit(residuals: Floats, shared: Floats, trust: Floats, start: Floats = START) -> Floats:
    """The logarithms of the effects' standard deviations, the noise's last, that make these residuals most likely.

    ``shared``: effects x jobs x jobs, see `Compared`; ``trust``: what each job counts, 1 for most (see `trusted`);
    ``start``: what they were expected to be.
    """
    noise = np.diag(1.0 / trust)

    def loss(logs: Floats) -> tuple[float, Floats]:
        variances = np.exp(2.0 * logs)
        factor = _factor(np.tensordot(variances[:-1], shared, 1), variances[-1], trust)
        inverse = _inverse(factor)
        pulled = inverse @ residuals
        unexplained = inverse - np.outer(pulled, pulled)
        off = (logs - start) / _DOUBT
        value = 0.5 * residuals @ pulled + np.log(np.diag(factor)).sum() + 0.5 * off @ off
        slopes = np.append(np.tensordot(shared, unexplained, 2), (noise * unexplained).sum())
        return float(value), variances * slopes + off / _DOUBT

    bounds = [(each + _LEAST, each + _MOST) for each in start]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _ITERATIONS})
    return np.asarray(found.x, dtype=float)


@dataclass(frozen=True, slots=True)
class Solved:
    """The jobs that have ended, solved for: how far each is pulled, and what would be said of it without it."""

    variances: Floats
    inverse: Floats
    pulled: Floats
    #: Of each job, by what the others say: how far off that is, and in standard deviations of what was expected.
    off: Floats
    misses: Floats

    def said(self, shared: Floats, own: Floats) -> tuple[float, float]:
        """The residual expected of a job and its standard deviation, the noise included. ``shared``: effects x jobs,
        with those that have ended; ``own``: effects, with itself."""
        cross = self.variances[:-1] @ shared
        left = self.variances[:-1] @ own - cross @ self.inverse @ cross
        return float(cross @ self.pulled), float(np.sqrt(max(left, 0.0) + self.variances[-1]))


@in_one_thread
def solve_trusted(logs: Floats, residuals: Floats, shared: Floats, before: Floats) -> Solved:
    """``logs``: of the standard deviations, as `fit` found them. Jobs count as much as `trusted` says; the rest is as
    there."""
    variances = np.exp(2.0 * logs)
    kernel = np.tensordot(variances[:-1], shared, 1)
    return _solve(variances, kernel, residuals, _trusted(variances, kernel, residuals, before))


@in_one_thread
def trusted(logs: Floats, residuals: Floats, shared: Floats, before: Floats) -> Floats:
    """What each job counts: as much as ``before``, less where it is far off what the others say."""
    variances = np.exp(2.0 * logs)
    return _trusted(variances, np.tensordot(variances[:-1], shared, 1), residuals, before)


def _trusted(variances: Floats, kernel: Floats, residuals: Floats, before: Floats) -> Floats:
    trust = before
    for _ in range(_ROUNDS):
        misses = _solve(variances, kernel, residuals, trust).misses
        trust = before * np.minimum(1.0, (_FREEDOM + 1.0) / (_FREEDOM + misses**2))
    return trust


def _solve(variances: Floats, kernel: Floats, residuals: Floats, trust: Floats) -> Solved:
    inverse = _inverse(_factor(kernel, variances[-1], trust))
    pulled = inverse @ residuals
    # Leaving one out, without solving anew (Rasmussen and Williams, section 5.4.2).
    alone = 1.0 / np.diag(inverse)
    expected = np.maximum(alone - variances[-1] / trust, 0.0) + variances[-1]
    off = pulled * alone
    return Solved(variances, inverse, pulled, off, off / np.sqrt(expected))


def _factor(kernel: Floats, noise: float, trust: Floats) -> Floats:
    """The lower Cholesky factor of the kernel with the noise of each job; what is above its diagonal is no part."""
    covariance = kernel.copy()
    covariance.flat[:: len(trust) + 1] += noise / trust + _JITTER  # the diagonal
    factor: Floats = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)[0]
    return factor


def _inverse(factor: Floats) -> Floats:
    """The inverse of what has that lower Cholesky factor: a third of the work of solving for every column."""
    if not len(factor):
        return factor
    lower, failed = dpotri(factor, lower=1)
    if failed:
        raise np.linalg.LinAlgError(f"column {failed} is no part of a covariance")
    inverse: Floats = np.where(_below(len(factor)), lower, lower.T)
    return inverse


@lru_cache(maxsize=16)
def _below(size: int) -> NDArray[np.bool_]:
    """What is on the diagonal and below it."""
    return np.tri(size, dtype=bool)


class _Columns:
    """Numbers by name as a table of jobs x names, the frequent ones; a name that a job has not counts as nothing."""

    def __init__(
        self, rows: Sequence[Mapping[Any, float]], *, centred: bool = True, farthest: float = math.inf
    ) -> None:
        """``centred``: each number around the mean of those that have it, at most ``farthest`` from it."""
        sums: dict[Hashable, list[float]] = {}
        for row in rows:
            for name, value in row.items():
                kept = sums.setdefault(name, [0.0, 0.0])
                kept[0] += value
                kept[1] += 1.0
        frequent = sorted(sums, key=lambda name: -sums[name][1])[:_MOST_COLUMNS]
        self._at = {name: place for place, name in enumerate(frequent)}
        self._middles = [sums[name][0] / sums[name][1] if centred else 0.0 for name in frequent]
        self._farthest = farthest
        self.table: Floats = np.zeros((len(rows), len(frequent)))
        for row, values in zip(self.table, rows, strict=True):
            self._fill(row, values)

    def row(self, values: Mapping[Any, float]) -> Floats:
        """One more job in these columns."""
        found: Floats = np.zeros(len(self._middles))
        self._fill(found, values)
        return found

    def _fill(self, row: Floats, values: Mapping[Any, float]) -> None:
        for name, value in values.items():
            place = self._at.get(name)
            if place is not None:
                row[place] = min(self._farthest, max(-self._farthest, value - self._middles[place]))
