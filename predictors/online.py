"""The fast predictor for replays: learns from jobs as they end, a few tens of microseconds a job.

Several simple experts guess; each is trusted by how wrong it was lately, for this user and overall. Among them is the
mean of the user's last two jobs (Tsafrir, Etsion and Feitelson, IEEE TPDS 2007), hard to beat where users resubmit.
Nothing of a job's own end is read before it is observed: `predict` looks at who asks for what, never at the duration.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from analyzers.history.text import stem
from analyzers.types import JobRecord
from predictors import pace
from predictors.types import Quantiles

_RECENT = 40
_KEPT_GUESSES = 1_000_000
#: Half-life, in ended jobs, of what an expert's mistakes count: a user's own, and everyone's.
_FORGET_USER = 0.5 ** (1 / 15)
_FORGET_ALL = 0.5 ** (1 / 500)
#: A user's own record of mistakes counts fully only after about this many jobs.
_USER_TRUST_JOBS = 20.0
#: How sharply the better expert is preferred: e-fold for a mistake smaller by 1/16 on the log scale.
_SHARPNESS = 16.0
_LARGEST_MISTAKE = 4.0
#: Nobody is expected to be further off: a weight would be zero.
_FARTHEST_OFF = 40.0
#: While there is something else to go by, an expert's mistakes are believed by half after so many.
_UNHEARD_JOBS = 3.0
_RESIDUALS = 400
_USER_RESIDUALS = 40
_DEFAULT_S = 700.0  # between the published medians, see predictors.prior
#: The share of a requested time that a job uses before any was seen, and how many jobs that is worth: the median of
#: what the literature cited in predictors.prior found. Without it every long request looks as short as any other job.
_DEFAULT_SHARE = math.log(0.22)
_DEFAULT_SHARE_JOBS = 3.0
_SHARES = 400
#: Of the groups in `_request_keys` so many share the limit; jobs of any other limit tell less than their share of it.
_KEYS_WITH_LIMIT = 2
_DEFAULT_SPREAD = 2.0
#: No guess is longer (the logarithm of seconds): absurd requests would lead to absurd guesses.
_LONGEST = math.log(1e12)
_LEVELS = (0.1, 0.5, 0.9, 0.99)
#: Share of jobs that may fall out of the interval on either side; how fast its width follows what happens, how far it
#: may go (a factor of e^2 either way), and the least width that there is to follow with.
_OUTSIDE = 0.1
_WIDTH_STEP = 0.02
_WIDTH_REACH = 2.0
_LEAST_WIDTH = 0.05

EXPERTS = (
    "last two", "same request", "same name", "same request, last", "share of the request", "alike", "everyone",
    *pace.EXPERTS,
)  # fmt: skip

#: Which experts repeat what other runs took, and how much of a difference in work they are expected to miss.
_REPEATS = [0.0 if name in pace.BY_WORK else 0.5 for name in EXPERTS]


@dataclass(slots=True)
class _Scores:
    """Discounted mistakes of each expert."""

    loss: list[float] = field(default_factory=lambda: [0.0] * len(EXPERTS))
    count: list[float] = field(default_factory=lambda: [0.0] * len(EXPERTS))

    def add(self, guesses: list[float | None], truth: float, keep: float) -> None:
        for i, guess in enumerate(guesses):
            if guess is not None:
                self.loss[i] = self.loss[i] * keep + min(_LARGEST_MISTAKE, abs(guess - truth))
                self.count[i] = self.count[i] * keep + 1.0


@dataclass(slots=True)
class _User:
    jobs: deque[tuple[float, JobRecord]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    scores: _Scores = field(default_factory=_Scores)
    residuals: deque[float] = field(default_factory=lambda: deque(maxlen=_USER_RESIDUALS))


@dataclass(frozen=True, slots=True)
class Opinion:
    """Each expert's guess, in the order of `EXPERTS` (None: no idea), and what they make of it: logs of seconds."""

    guesses: list[float | None]
    middle: float
    work: pace.Work | None = None
    novelty: float = 0.0


class OnlineDurationPredictor:
    """``predict(record)`` in seconds, then ``observe(record)`` when it has ended, in any interleaving.

    A user that the trace does not name counts as one user for each size of job.
    """

    def __init__(self) -> None:
        self._users: dict[Hashable, _User] = {}
        self._by_request: dict[Hashable, deque[float]] = {}
        self._shares: deque[float] = deque(maxlen=_SHARES)
        self._everyone = _Scores()
        self._residuals: deque[float] = deque(maxlen=_RESIDUALS)
        self._paces = pace.Paces()
        self._guesses: dict[str, Opinion] = {}
        self._claims: dict[str, tuple[float, float]] = {}
        self._below, self._above = 0.0, 0.0  # logarithms of the widths' factors

    def predict(self, record: JobRecord) -> float:
        """The median of the runtime in seconds, at most the requested time; ``record.duration_s`` is not read."""
        opinion = self.opinion(record)
        self.keep(record.job_id, opinion)
        return _cut(math.exp(opinion.middle), record.requested_s)

    def opinion(self, record: JobRecord) -> Opinion:
        """What the experts say of a job; nothing is kept, so they are not judged by it."""
        work = pace.work_of(record)
        guesses = [None if guess is None else min(max(0.0, guess), _LONGEST) for guess in self._ask(record, work)]
        novelty = self._paces.novelty(record, work)
        return Opinion(guesses, self._combined(record, guesses, novelty), work, novelty)

    def voices(self, record: JobRecord) -> list[tuple[str, float, float]]:
        """Each expert with an idea: its name, its guess in seconds, and its share (0..1) of the say."""
        opinion = self.opinion(record)
        guesses, weights = opinion.guesses, self._weights(record, opinion.guesses, opinion.novelty)
        total = sum(weight for weight in weights if weight is not None)
        return [
            (name, _cut(math.exp(guess), record.requested_s), weight / total)
            for name, guess, weight in zip(EXPERTS, guesses, weights, strict=True)
            if guess is not None and weight is not None
        ]

    def weighed(self, record: JobRecord, opinion: Opinion, doubt: float) -> list[tuple[float, float]]:
        """Each expert's guess (the logarithm of seconds) with its weight; without those that have none. ``doubt``: how
        far off who has hardly been heard yet is expected to be, on the log scale."""
        user = self._users.get(_who(record))
        found = []
        for i, guess in enumerate(opinion.guesses):
            if guess is not None:
                heard = self._everyone.count[i]
                mistake = (heard * self._expected_mistake(user, i) + _UNHEARD_JOBS * doubt) / (heard + _UNHEARD_JOBS)
                found.append((guess, expected_weight(mistake + opinion.novelty * _REPEATS[i])))
        return found

    def keep(self, job_id: str, opinion: Opinion) -> None:
        """The experts are judged by this opinion when the job has ended."""
        if len(self._guesses) < _KEPT_GUESSES:
            self._guesses[job_id] = opinion

    def quantiles(self, record: JobRecord) -> Quantiles:
        """Quantiles from the mistakes made lately, this user's own first. ``record.duration_s`` is not read.

        Where too many jobs fell out of the interval lately it grows until the share is right, and shrinks where too
        few did (after Gibbs and Candes, "Adaptive Conformal Inference", NeurIPS 2021).
        """
        middle = self.opinion(record).middle
        user = self._users.get(_who(record)) if record.user is not None else None
        r10, r50, r90, r99 = _residual_quantiles(user.residuals if user else deque(), self._residuals)
        low = middle + r50 - (r50 - r10 + _LEAST_WIDTH) * math.exp(self._below)
        widened = math.exp(self._above)
        high = middle + r50 + (r90 - r50 + _LEAST_WIDTH) * widened
        highest = middle + r50 + (r99 - r50 + _LEAST_WIDTH) * widened
        if len(self._claims) < _KEPT_GUESSES:
            self._claims[record.job_id] = (low, high)
        return Quantiles(*(_cut(math.exp(q), record.requested_s) for q in (low, middle + r50, high, highest)))

    def observe(self, record: JobRecord) -> None:
        """Learn from a job that has ended; one without a duration is ignored."""
        if record.duration_s is None:
            return
        truth = math.log(max(1.0, record.duration_s))
        user = self._users.setdefault(_who(record), _User())
        self._adapt(self._claims.pop(record.job_id, None), truth)
        asked = self._guesses.pop(record.job_id, None)
        if asked is not None:
            user.scores.add(asked.guesses, truth, _FORGET_USER)
            self._everyone.add(asked.guesses, truth, _FORGET_ALL)
            user.residuals.append(truth - asked.middle)
            self._residuals.append(truth - asked.middle)
        self._paces.observe(record, asked.work if asked is not None else pace.work_of(record))
        user.jobs.append((truth, record))
        if record.requested_s:
            self._shares.append(truth - math.log(max(1.0, record.requested_s)))
        for key in _request_keys(record):
            self._by_request.setdefault(key, deque(maxlen=_RECENT)).append(truth)

    def _adapt(self, claim: tuple[float, float] | None, truth: float) -> None:
        if claim is None:
            return
        below = self._below + _WIDTH_STEP * ((truth < claim[0]) - _OUTSIDE)
        above = self._above + _WIDTH_STEP * ((truth > claim[1]) - _OUTSIDE)
        self._below, self._above = (min(_WIDTH_REACH, max(-_WIDTH_REACH, width)) for width in (below, above))

    def _ask(self, record: JobRecord, work: pace.Work | None) -> list[float | None]:
        """Each expert's guess on the log scale; None where it has nothing to go by."""
        user = self._users.get(_who(record))
        jobs = list(user.jobs) if user else []
        same = [t for t, past in jobs if past.gpus == record.gpus and past.requested_s == record.requested_s]
        name = stem(record.name) if record.name else ""
        named = [t for t, past in jobs if name and past.name and stem(past.name) == name]
        last_two = [math.exp(t) for t, _ in jobs[-2:]]
        return [
            math.log(sum(last_two) / len(last_two)) if last_two else None,
            _median(same[-7:]),
            _median(named[-7:]),
            same[-1] if same else None,
            _by_share(jobs, record),
            _alike(jobs, record, name),
            self._general(record),
            *self._paces.guesses(record, work),
        ]

    def _general(self, record: JobRecord) -> float:
        """What everyone's jobs of this request took; of a request never seen, the share of it that jobs use."""
        keys = _request_keys(record)
        for key in keys[:_KEYS_WITH_LIMIT] if record.requested_s else keys:
            seen = self._by_request.get(key)
            if seen and len(seen) >= 3:
                return _median(list(seen)) or 0.0
        if not record.requested_s:
            return math.log(_DEFAULT_S)
        jobs = len(self._shares)
        share = (_DEFAULT_SHARE_JOBS * _DEFAULT_SHARE + jobs * (_median(list(self._shares)) or 0.0)) / (
            _DEFAULT_SHARE_JOBS + jobs
        )
        return math.log(max(1.0, record.requested_s)) + share

    def _combined(self, record: JobRecord, guesses: list[float | None], novelty: float) -> float:
        """The weighted median of the guesses."""
        weights = self._weights(record, guesses, novelty)
        return weighted_median(
            [(g, w) for g, w in zip(guesses, weights, strict=True) if g is not None and w is not None]
        )

    def _weights(self, record: JobRecord, guesses: list[float | None], novelty: float) -> list[float | None]:
        """How much each expert's guess counts for this user; None where it has none.

        Who repeats what earlier runs took is expected to be further off the more another amount of work this is.
        """
        user = self._users.get(_who(record))
        return [
            None if guess is None else expected_weight(self._expected_mistake(user, i) + novelty * _REPEATS[i])
            for i, guess in enumerate(guesses)
        ]

    def _expected_mistake(self, user: _User | None, expert: int) -> float:
        everyone = self._everyone
        general = (everyone.loss[expert] + 1.0) / (everyone.count[expert] + 1.0)
        if user is None:
            return general
        own = user.scores
        return (own.loss[expert] + _USER_TRUST_JOBS * general) / (own.count[expert] + _USER_TRUST_JOBS)


def _who(record: JobRecord) -> Hashable:
    return record.user if record.user is not None else ("no user", record.gpus)


def _request_keys(record: JobRecord) -> tuple[Hashable, ...]:
    """Groups of jobs that ask for the same, the closest first."""
    return (("both", record.gpus, record.requested_s), ("limit", record.requested_s), ("gpus", record.gpus), "all")


def _by_share(jobs: list[tuple[float, JobRecord]], record: JobRecord) -> float | None:
    """The share of the requested time that this user's recent jobs used."""
    if not record.requested_s:
        return None
    shares = [t - math.log(max(1.0, past.requested_s)) for t, past in jobs[-9:] if past.requested_s]
    share = _median(shares)
    return None if share is None else math.log(max(1.0, record.requested_s)) + share


def _alike(jobs: list[tuple[float, JobRecord]], record: JobRecord, name: str) -> float | None:
    """Median of the user's recent jobs, weighted by how alike they are and how recent."""
    if not jobs:
        return None
    weighted = []
    for age, (truth, past) in enumerate(reversed(jobs)):
        weight = 0.85**age
        weight *= 4.0 if past.gpus == record.gpus else 1.0
        weight *= 4.0 if past.requested_s == record.requested_s else 1.0
        weight *= 4.0 if name and past.name and stem(past.name) == name else 1.0
        weighted.append((truth, weight))
    return weighted_median(weighted)


def _median(values: list[float]) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else 0.5 * (ordered[half - 1] + ordered[half])


def expected_weight(mistake: float) -> float:
    """How much a guess counts that is expected to be so far off, on the log scale; never nothing, so that there is
    always somebody to go by."""
    return math.exp(-_SHARPNESS * min(mistake, _FARTHEST_OFF))


def weighted_median(weighted: Sequence[tuple[float, float]]) -> float:
    """The median of at least one (value, weight)."""
    ordered = sorted(weighted)
    half = 0.5 * sum(weight for _, weight in ordered)
    reached = 0.0
    for value, weight in ordered:
        reached += weight
        if reached >= half:
            return value
    return ordered[-1][0]


def _residual_quantiles(own: deque[float], everyone: deque[float]) -> list[float]:
    """Quantiles of past mistakes: the user's own weigh as much as everyone's once there are enough of them."""
    if len(everyone) < 20:
        return [_DEFAULT_SPREAD * z for z in (-1.2816, 0.0, 1.2816, 2.3263)]
    share = len(own) / (len(own) + 10.0)
    pool = [(r, (1.0 - share) / len(everyone)) for r in everyone]
    pool += [(r, share / len(own)) for r in own] if own else []
    pool.sort()
    found, reached, position = [], 0.0, 0
    for level in _LEVELS:
        while position < len(pool) - 1 and reached + pool[position][1] < level:
            reached += pool[position][1]
            position += 1
        found.append(pool[position][0])
    return found


def _cut(seconds: float, limit_s: float | None) -> float:
    return max(1.0, min(seconds, limit_s) if limit_s else seconds)
