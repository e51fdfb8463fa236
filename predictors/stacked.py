"""Durations from everything at once: fast experts, gradient boosting on the past, intervals that are kept honest.

The experts (`online`) repeat what users did last, which is exactly right for most jobs and far off for some. The
boosting (`boosted`) is never exactly right and seldom far off. The point is the experts' answer held between its
40 and 70 % quantiles: the median of a mixture of both, which keeps exact hits and loses the worst misses. The bounds
around it are moved by what happens (`conformal`).

Order of time is the caller's duty: `ask` at submission, `started` when it starts, `observe` when it has ended.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np

from analyzers.history.index import end_s
from analyzers.types import JobRecord
from predictors.boosted import BOOSTED_LEVELS, BoostedShares
from predictors.boosted_outcome import BoostedOutcomes, Ending, kind_of_end
from predictors.conformal import LEVELS, AdaptiveBounds
from predictors.fact_features import NAMES as FACT_NAMES
from predictors.fact_features import fact_row
from predictors.features import NAMES, UNKNOWN, Past, log_s, table, who
from predictors.forecast import Forecast
from predictors.hindsight import Hindsight
from predictors.online import EXPERTS, OnlineDurationPredictor, Opinion
from predictors.site_durations import VOICE, Flying, SiteDurations, SiteSaid
from predictors.types import OutcomeProbabilities

#: The names of the numbers in a row, for explanations and for the files models are kept in.
COLUMNS: tuple[str, ...] = (
    *NAMES, "experts together", *(f"expert: {name}" for name in EXPERTS), *(f"source: {name}" for name in FACT_NAMES),
)  # fmt: skip
#: What a share is of where the trace has no requests: a day.
_NO_REQUEST_S = 86_400.0
#: A job killed at its limit is recorded as ending a little later.
_LIMIT_GRACE_S = 60.0
#: No forecast is longer (the logarithm of seconds), whatever requests and durations it was made of.
_LONGEST = log(1e15)
#: Boosting starts with this many ended jobs and starts anew whenever there are this much more of them.
FIRST_TRAINING_JOBS = 300
_GROWTH = 1.3
#: The newest jobs that are trained on: what came before is in the rows, as what each user did.
WINDOW_JOBS = 50_000
_LOW, _HOLD_LOW, _HOLD_HIGH, _HIGH = range(len(BOOSTED_LEVELS))
_SPREAD = 1.5
_ROUGH = (0.1, 0.9)
#: Half-life, in ended jobs, of what the hold gained: for everyone, and for a user, whose own counts as much as that
#: after some jobs.
_FORGET_HOLD, _FORGET_HOLD_OF_ONE = 0.5 ** (1 / 300), 0.5 ** (1 / 15)
_HOLD_TRUST_JOBS = 5.0
#: Boosted probabilities of how a job ends count half when so many were trained on: plain shares are hard to beat.
_SHARES_WORTH_JOBS = 1_500.0
_LARGEST_MISTAKE = 4.0
NEW_USER_JOBS, HEAVY_USER_JOBS = 10, 100
_SMALL_JOB_GPUS = 8
#: A job with one of these is predicted by runs of the same work, scaled: closer than anything that boosting knows.
_BY_OWN_WORK = tuple(EXPERTS.index(name) for name in ("pace of this work", "whole runs of this code"))
_TOLD_HIGH = LEVELS.index(0.9)
#: What was said of a job when it was submitted: by the experts, and by the site's own jobs.
Recalled = tuple[Opinion, SiteSaid]


@dataclass(slots=True)
class _Asked:
    """What was known of one job when it was asked about."""

    row: array[float]
    scale_s: float
    limit_s: float | None
    experts_s: float
    group: Hashable
    claimed: list[float] | None = None
    who: Hashable = None
    by_work: bool = False
    ends: tuple[float, float, float] = (1.0, 0.0, 0.0)
    held_s: float | None = None
    by_site: SiteSaid | None = None


@dataclass(slots=True)
class _Hold:
    """What holding the experts' answer within the boosted quantiles gained lately, on the log scale, discounted."""

    gain: float = 0.0
    count: float = 0.0

    def learn(self, gain: float, keep: float) -> None:
        self.gain = self.gain * keep + gain
        self.count = self.count * keep + 1.0


@dataclass(slots=True)
class _Ended:
    """A job to train on: what was known of it, and what came."""

    asked: _Asked
    duration_s: float
    kind: str


@dataclass(slots=True)
class _Raw:
    """What the boosted models say of one job: seconds at `BOOSTED_LEVELS`, and how it will end."""

    seconds: list[float]
    ending: Ending | None


class StackedDurations:
    """``ask(record)`` -> `Forecast`; ``observe(record)`` when it has ended. Nothing else is ever learned from."""

    def __init__(
        self,
        trees: int = 80,
        window: int = WINDOW_JOBS,
        seed: int = 0,
        *,
        queue_known: bool = True,
        trains: bool = True,
        by_site: bool = True,
    ) -> None:
        """``queue_known``: jobs in flight are told of; where only ended jobs ever are, none may be learned from either.
        ``trains``: on its own schedule, in the middle of `observe`; else only when `train` is called. ``by_site``: the
        site's own answer while jobs are few; not worth its time where nobody asks before they are many."""
        self.trees = trees
        self.window = window
        self.seed = seed
        #: What the rows are made of: a model of other columns is of another release.
        self.columns = COLUMNS
        self.queue_known = queue_known
        self.trains = trains
        self._few_jobs = FIRST_TRAINING_JOBS if by_site else 0
        #: When the last job that was learned from had ended, seconds.
        self.latest_s = -math.inf
        self._past = Past()
        self._experts = OnlineDurationPredictor()
        self._site = SiteDurations()
        self._hindsight = Hindsight()
        self._boosted = BoostedShares(trees, seed)
        self._endings = BoostedOutcomes(seed=seed)
        self._bounds = AdaptiveBounds()
        self._hold = {by_work: _Hold() for by_work in (False, True)}
        self._hold_of: dict[tuple[Hashable, bool], _Hold] = {}
        self._open: dict[str, _Asked] = {}
        self._ended: list[_Ended] = []
        self._ended_count = self._ended_jobs = self._trained_jobs = 0
        self._next_training = FIRST_TRAINING_JOBS

    def ask(self, record: JobRecord) -> Forecast:
        """The forecast for a job submitted now, at ``record.submit_s``; its own end is not read."""
        asked = self._note(record)
        return self._forecast(asked, self._raw([asked])[0] if self._boosted.ready else None)

    def peek(self, record: JobRecord) -> Forecast:
        """As `ask`, of a job that may never be submitted: nothing is kept."""
        asked = self._known(record, self._experts.opinion(record))
        return self._forecast(asked, self._raw([asked])[0] if self._boosted.ready else None)

    def started(self, job_id: str, at_s: float) -> None:
        """A job that was asked about has started; how long it has been running is known of it from now on."""
        if self.queue_known:
            self._past.started(job_id, at_s)

    def lasting(self, running: Sequence[Flying], now_s: float) -> None:
        """These jobs are in flight at ``now_s``: all that is known of them is that they last so long. Heard while jobs
        are few."""
        if self.hears_of_starts:
            self._site.lasting(running, now_s)

    def recall(self, record: JobRecord, running: Sequence[Flying]) -> Recalled:
        """What would have been said of a job when it was submitted. While jobs are few. ``running``: what was told to
        be in flight then."""
        experts, site = self._hindsight.at(record.submit_s)
        site.lasting(running, record.submit_s)
        opinion = experts.opinion(record)
        return opinion, site.ask(record, partial(experts.weighed, record, opinion))

    def observe_late(self, record: JobRecord, recalled: Recalled, *, told: bool) -> None:
        """Learn from a job that has ended, of which that was said when it was submitted. While jobs are few, and in
        order of the ends. ``told``: whether it was told of while it ran."""
        at_s = ended_s(record)
        opinion, said = recalled
        self._past.submitted(record)
        self._past.ended(record, at_s)
        self._experts.keep(record.job_id, opinion)
        self._experts.observe(record)
        self._site.learn(record, said, told=told)
        self._hindsight.ended(record, at_s, opinion, self._site)
        promised_s = said.around.quantiles(record.requested_s).p90
        self._past.promised(record, kept=log_s(record.duration_s or 0.0) <= log_s(promised_s))
        self.latest_s = max(self.latest_s, at_s)
        self._ended_count += 1
        self._ended_jobs += 1

    @property
    def hears_of_starts(self) -> bool:
        """Whether jobs are so few that those in flight are looked at."""
        return self._ended_count < self._few_jobs

    def observe(self, record: JobRecord, at_s: float | None = None) -> None:
        """Learn from a job that has ended, at ``at_s`` if not when its record says."""
        asked = self._end(record, ended_s(record) if at_s is None else at_s)
        if asked is not None:
            self._learn(asked, record)
            if self._due():
                self._train(self._ended)

    def replay(self, records: Sequence[JobRecord], calibrate_last: int | None = None) -> list[Forecast | None]:
        """Ask about each job in order of submission, learning from those that had ended by then.

        The same as `ask`, `started` and `observe` in order of time, but the boosted models answer many jobs at once.
        ``calibrate_last``: only so many of the last jobs are forecast (None before them), from one model that has
        not seen them; for long histories that are trained on once.
        """
        asked: list[_Asked] = []
        order: list[tuple[bool, int]] = []  # (ended, job)
        for kind, number in events(records):
            record = records[number]
            if kind == "asked":
                asked.append(self._note(record))
                order.append((False, number))
            elif kind == "started":
                self.started(record.job_id, record.start_s or 0.0)
            else:
                self._end(record, ended_s(record))
                order.append((True, number))
        return self._second_pass(records, asked, order, 0 if calibrate_last is None else len(records) - calibrate_last)

    def observe_unasked(self, records: Sequence[JobRecord]) -> None:
        """Learn from jobs in order of their ends that nobody asked about: each is asked about just before its end, so
        it does not matter how many are told of together."""
        asked: list[_Asked] = []
        for record in records:
            asked.append(self._note(record))
            self._end(record, ended_s(record))
        order = [(is_end, number) for number in range(len(records)) for is_end in (False, True)]
        self._second_pass(records, asked, order, 0)

    @property
    def ended_jobs(self) -> int:
        """How many jobs have been learned from."""
        return self._ended_jobs

    @property
    def trained(self) -> bool:
        """Whether there are boosted models."""
        return self._boosted.ready

    def opinion(self, record: JobRecord) -> Opinion:
        """What the experts say of a job, one by one and together; nothing is kept."""
        return self._experts.opinion(record)

    def ends_of(self, record: JobRecord) -> dict[str, float]:
        """Shares of the ways that jobs end, of everyone's and this user's; without those at the limit."""
        return self._past.ends_of(record)

    def early_share(self) -> float:
        """Of the jobs that fail, the share that does so within the first minutes."""
        return self._past.early_share()

    def by_site(self, record: JobRecord) -> SiteSaid | None:
        """What the site's own jobs say of a job; None where there are none, or so many that `peek` tells more."""
        if not self._ended_count and not self._site.knows_any:
            return None
        return self._by_site(record, self._experts.opinion(record))

    def voices(self, record: JobRecord, said: SiteSaid | None = None) -> list[tuple[str, float, float]]:
        """Each expert with an idea of a job and, while they are few, the site's own jobs: name, seconds, weight (the
        weights sum to 1). ``said``: what `by_site` does of this job."""
        if said is None or not said.by_jobs:
            return self._experts.voices(record)
        opinion = self._experts.opinion(record)
        names = [name for name, guess in zip(EXPERTS, opinion.guesses, strict=True) if guess is not None]
        total = sum(weight for _, weight in said.heard)
        longest = log(record.requested_s) if record.requested_s else math.inf
        return [
            (name, math.exp(max(0.0, min(guess, longest))), weight / total)
            for name, (guess, weight) in zip((*names, VOICE), said.heard, strict=True)
        ]

    def kept_promises(self, record: JobRecord) -> float:
        """0.9, or the share of this user's jobs that ended by the 90 % quantile told where that is clearly less."""
        return self._past.kept_promises(record)

    def train(self) -> None:
        """Train anew on the window now, whatever the schedule says; below `FIRST_TRAINING_JOBS` the experts answer."""
        if len(self._ended) >= FIRST_TRAINING_JOBS:
            self._train(self._ended)

    def forget_rows(self) -> None:
        """Let go of the jobs that were trained on, which predicting does not need; a later `train` has none of them."""
        self._ended = []

    def _second_pass(
        self, records: Sequence[JobRecord], asked: list[_Asked], order: list[tuple[bool, int]], first: int
    ) -> list[Forecast | None]:
        """Models on their schedule, forecasts in blocks between two trainings, bounds job by job."""
        forecasts: list[Forecast | None] = [None] * len(records)
        raw: dict[int, _Raw] = {}
        begun = first == 0
        for place, (is_end, number) in enumerate(order):
            if is_end:
                self._learn(asked[number], records[number])
            elif number >= first:
                if not begun or (self._boosted.ready and number not in raw):
                    begun = True
                    if first and self._due():
                        self._train(self._ended)
                    raw = self._block(asked, order, place) if self._boosted.ready else {}
                forecasts[number] = self._forecast(asked[number], raw.get(number))
            if is_end and begun and self._due():
                self._train(self._ended)
                raw = {}
        return forecasts

    def _block(self, asked: list[_Asked], order: list[tuple[bool, int]], place: int) -> dict[int, _Raw]:
        """Boosted quantiles of the jobs asked about from ``place`` on, at most until the next training."""
        left, numbers = self._next_training - self._ended_jobs if self.trains else len(order), []
        for is_end, number in order[place:]:
            left -= is_end
            if not is_end:
                numbers.append(number)
            if left <= 0 or len(numbers) >= _BLOCK:
                break
        return dict(zip(numbers, self._raw([asked[n] for n in numbers]), strict=True))

    def _known(self, record: JobRecord, opinion: Opinion) -> _Asked:
        limit_s = record.requested_s or None
        experts_s = max(1.0, min(math.exp(opinion.middle), limit_s or math.inf))
        guesses = (UNKNOWN if guess is None else guess for guess in opinion.guesses)
        row = array("f", [*self._past.row(record), log(experts_s), *guesses, *fact_row(record, opinion.work)])
        shares = self._past.ends_of(record)
        ends = (shares["completed"], shares["failed"], shares["cancelled"])
        return _Asked(
            row, max(1.0, limit_s or _NO_REQUEST_S), limit_s, experts_s, self.group_of(record), who=who(record),
            by_work=any(opinion.guesses[at] is not None for at in _BY_OWN_WORK), ends=ends,
            by_site=self._by_site(record, opinion),
        )  # fmt: skip

    def _by_site(self, record: JobRecord, opinion: Opinion) -> SiteSaid | None:
        """What the site's own jobs say, while they are few: each of them is compared with every other."""
        if not self.hears_of_starts:
            return None
        return self._site.ask(record, partial(self._experts.weighed, record, opinion))

    def _note(self, record: JobRecord) -> _Asked:
        opinion = self._experts.opinion(record)
        asked = self._open[record.job_id] = self._known(record, opinion)
        self._experts.keep(record.job_id, opinion)
        if self.queue_known:
            self._past.submitted(record)
        return asked

    def _end(self, record: JobRecord, at_s: float) -> _Asked | None:
        if not self.queue_known:
            self._past.submitted(record)
        self.latest_s = max(self.latest_s, at_s)
        self._past.ended(record, at_s)
        self._experts.observe(record)
        self._ended_count += 1
        asked = self._open.pop(record.job_id, None)
        if asked is not None and asked.by_site is not None:
            self._site.learn(record, asked.by_site)
        return asked

    def _learn(self, asked: _Asked, record: JobRecord) -> None:
        duration_s = record.duration_s or 0.0
        if asked.claimed is not None:
            self._bounds.learn(asked.group, asked.claimed, log_s(duration_s))
            self._past.promised(record, kept=log_s(duration_s) <= asked.claimed[_TOLD_HIGH])
            asked.claimed = None
        if asked.held_s is not None:
            truth = log_s(duration_s)
            free, held = (min(_LARGEST_MISTAKE, abs(log_s(s) - truth)) for s in (asked.experts_s, asked.held_s))
            self._hold[asked.by_work].learn(free - held, _FORGET_HOLD)
            key = asked.who, asked.by_work
            self._hold_of.setdefault(key, _Hold()).learn(free - held, _FORGET_HOLD_OF_ONE)
        self._ended.append(_Ended(asked, duration_s, kind_of_end(record)))
        self._ended_jobs += 1
        if len(self._ended) >= 2 * self.window:
            del self._ended[: -self.window]

    def _due(self) -> bool:
        return self.trains and self._ended_jobs >= self._next_training

    def _train(self, ended: list[_Ended]) -> None:
        newest = ended[-self.window :]
        if not newest:
            return
        rows = table([job.asked.row for job in newest])
        scale_s = np.array([job.asked.scale_s for job in newest])
        duration_s = np.array([job.duration_s for job in newest])
        self._boosted.fit(rows, scale_s, duration_s)
        self._endings.fit(rows, [job.kind for job in newest], duration_s)
        self._trained_jobs = len(newest)
        self._next_training = math.ceil(self._ended_jobs * _GROWTH)

    def _raw(self, asked: Sequence[_Asked]) -> list[_Raw]:
        rows = table([each.row for each in asked])
        seconds = self._boosted.predict(rows, np.array([each.scale_s for each in asked])).tolist()
        endings = self._endings.predict(rows) if self._endings.ready else [None] * len(asked)
        return [_Raw(values, ending) for values, ending in zip(seconds, endings, strict=True)]

    def _forecast(self, asked: _Asked, raw: _Raw | None) -> Forecast:
        if raw is None and asked.by_site is not None:
            point_s = math.exp(max(0.0, min(asked.by_site.point, _LONGEST)))
            low, high = (log_s(s) for s in asked.by_site.around.quantile_s(_ROUGH))
        elif raw is None:
            point_s = asked.experts_s
            low, high = log(point_s) - _SPREAD, log(point_s) + _SPREAD
        else:
            asked.held_s = min(max(asked.experts_s, raw.seconds[_HOLD_LOW]), raw.seconds[_HOLD_HIGH])
            point_s = asked.held_s if self._holds(asked) else asked.experts_s
            low, high = log_s(raw.seconds[_LOW]), log_s(raw.seconds[_HIGH])
        if asked.limit_s:
            point_s = max(1.0, min(point_s, asked.limit_s))
        point_s = min(point_s, math.exp(_LONGEST))
        longest = min(log(asked.limit_s + _LIMIT_GRACE_S), _LONGEST) if asked.limit_s else _LONGEST
        bounds = self._bounds.quantiles(asked.group, low, log(point_s), high)
        asked.claimed = [max(0.0, min(bound, longest)) for bound in bounds]
        values = [math.exp(bound) for bound in asked.claimed]
        half = len(LEVELS) // 2
        return Forecast(
            point_s, (*values[:half], point_s, *values[half:]), ending=self._shrunk(raw.ending, asked) if raw else None
        )

    def _shrunk(self, ending: Ending | None, asked: _Asked) -> Ending | None:
        """Boosted probabilities and the shares of how jobs ended lately, weighed by how many jobs were trained on."""
        if ending is None:
            return None
        keep = self._trained_jobs / (self._trained_jobs + _SHARES_WORTH_JOBS)
        boosted, shares = ending.outcome, asked.ends
        rest = (1.0 - keep) * (1.0 - boosted.timeout)  # the shares are of jobs that their limit did not end
        outcome = OutcomeProbabilities(
            completed=keep * boosted.completed + rest * shares[0],
            failed=keep * boosted.failed + rest * shares[1],
            cancelled=keep * boosted.cancelled + rest * shares[2],
            timeout=boosted.timeout,
        )
        return Ending(outcome, min(ending.fails_early, outcome.failed))

    def _holds(self, asked: _Asked) -> bool:
        """Whether the hold has not made things worse lately, for this user, as far as is known, and for everyone; of
        jobs that go by their own work apart from the others."""
        own, everyone = self._hold_of.get((asked.who, asked.by_work)) or _Hold(), self._hold[asked.by_work]
        general = everyone.gain / everyone.count if everyone.count else 0.0
        return own.gain + _HOLD_TRUST_JOBS * general >= 0.0

    def group_of(self, record: JobRecord) -> tuple[str, str]:
        """The class of the job's user, by the jobs of theirs that have ended, and the job's class of size."""
        jobs = self._past.jobs_of(record)
        user = "new" if jobs < NEW_USER_JOBS else "light" if jobs < HEAVY_USER_JOBS else "heavy"
        size = "one" if record.gpus <= 1 else "small" if record.gpus <= _SMALL_JOB_GPUS else "large"
        return user, size


#: So many jobs are asked about at once at most.
_BLOCK = 4_096
_STARTED, _ENDED = 0, 1


def ended_s(record: JobRecord) -> float:
    """When a job's end was known: after its last run where it was started more than once."""
    return max(end_s(record), record.end_s or 0.0)


def events(records: Sequence[JobRecord]) -> Iterator[tuple[str, int]]:
    """("asked" | "started" | "ended", job) in order of time; what ended or started by a submission comes before it.

    ``records`` in order of submission. Those still running after the last submission end after it.
    """
    waiting: list[tuple[float, int, int]] = []
    for number, record in enumerate(records):
        while waiting and waiting[0][0] <= record.submit_s:
            yield _told(heapq.heappop(waiting))
        yield "asked", number
        if record.start_s is not None:
            heapq.heappush(waiting, (record.start_s, _STARTED, number))
        if record.duration_s is not None:
            heapq.heappush(waiting, (ended_s(record), _ENDED, number))
    while waiting:
        yield _told(heapq.heappop(waiting))


def _told(event: tuple[float, int, int]) -> tuple[str, int]:
    _, kind, job = event
    return ("ended" if kind == _ENDED else "started"), job
