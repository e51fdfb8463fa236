"""What is known of a job at the moment it is submitted, as one row of numbers: the request, and the past it follows.

`Past` takes events in order of time (submitted, started, ended); a row holds nothing but what came before. A number
that is not known is -1, below every known one, so that trees can split it off.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from analyzers.history.text import script, stem
from analyzers.types import JobRecord
from predictors.duration import hit_its_limit

UNKNOWN = -1.0
#: The same for differences, which may be below -1.
_NO_DIFFERENCE = -99.0
_KEPT = 40
_SUBMISSIONS = 10
_ENDINGS = 20
_EVERYONE = 200
#: Of a user's jobs in flight so many, the newest, are compared: a row costs the same however long an array is.
_FLIGHT_COMPARED = 1_000
#: Submissions this close together are one batch.
_BATCH_S = 60.0
#: How jobs end before any was seen: Jeon et al. (ATC'19), shares of Philly's jobs, which had no time limits.
PUBLISHED_ENDS = {"completed": 0.693, "failed": 0.172, "cancelled": 0.135}
#: A job that ends badly within this time has failed early: it wanted no queueing, only a quick look.
EARLY_S = 300.0
_FAILED_BEFORE = 4.0
_PUBLISHED_JOBS, _EVERYONES_JOBS = 3.0, 15.0
#: Of each end that is counted so much is left when the next one comes: everyone's, and a user's own.
_FORGET_ENDS, _FORGET_OWN_ENDS = 0.5 ** (1 / 500), 0.5 ** (1 / 40)
#: The quantile that is told as the high one.
TOLD = 0.9
_HOUR_S, _DAY_S = 3_600.0, 86_400.0
_OF_A_GROUP = ("last", "before last", "median of 5", "median", "p10", "p90", "count", "age")
_GROUPS = ("user", "user, request and size", "user and request", "user and size", "user and name", "request and size",
           "request", "code", "user and script")  # fmt: skip
NAMES: tuple[str, ...] = (
    *("request", "size", "hour", "weekday"),
    *(f"{group}: {each}" for group in _GROUPS for each in _OF_A_GROUP),
    *("share of request, last", "share of request, median", "longest of 5"),
    *("in flight", "in flight alike", "running alike, longest", "running, longest"),
    *("since last submission", "since the one before", "request against last", "size against last", "alike lately"),
    *("in this batch", "how long the last submitted took", "last ended badly", "share that ended badly"),
    "everyone's median",
)


@dataclass(slots=True)
class _Group:
    """Logarithms of the last runtimes of one group of jobs; its summary is made when asked for and kept."""

    runs: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    count: int = 0
    ended_s: float = 0.0
    summary: tuple[float, ...] | None = None

    def add(self, run: float, at_s: float) -> None:
        self.runs.append(run)
        self.count += 1
        self.ended_s = at_s
        self.summary = None

    def told(self, now_s: float) -> tuple[float, ...]:
        if self.summary is None:
            runs, ordered = list(self.runs), sorted(self.runs)
            self.summary = (
                runs[-1],
                runs[-2] if len(runs) > 1 else UNKNOWN,
                quantile_of(sorted(runs[-5:]), 0.5),
                *(quantile_of(ordered, level) for level in (0.5, 0.1, 0.9)),
                math.log1p(self.count),
            )
        return (*self.summary, log_s(now_s - self.ended_s))


@dataclass(slots=True)
class _User:
    shares: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    submissions: deque[JobRecord] = field(default_factory=lambda: deque(maxlen=_SUBMISSIONS))
    in_flight: dict[str, JobRecord] = field(default_factory=dict)
    bad_ends: deque[float] = field(default_factory=lambda: deque(maxlen=_ENDINGS))
    last_done: tuple[str, float] | None = None
    ended: int = 0
    ends: _Ends = field(default_factory=lambda: _Ends())
    promises: int = 0
    kept: int = 0


@dataclass(slots=True)
class _Ends:
    """How often jobs ended in each way, the older the less."""

    counts: dict[str, float] = field(default_factory=dict)

    def add(self, outcome: str, keep: float) -> None:
        self.counts = {name: count * keep for name, count in self.counts.items()}
        self.counts[outcome] = self.counts.get(outcome, 0.0) + 1.0

    def shares(self, before: Mapping[str, float], jobs: float) -> dict[str, float]:
        """Those counted here, smoothed by what was known ``before``, worth so many jobs."""
        total = jobs + sum(self.counts.get(name, 0.0) for name in before)
        return {name: (jobs * share + self.counts.get(name, 0.0)) / total for name, share in before.items()}


class Past:
    """What has happened so far, by user and by request. ``row(record)`` before ``submitted(record)``."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, _Group] = {}
        self._users: dict[Hashable, _User] = {}
        self._started_s: dict[str, float] = {}
        self._everyone: deque[float] = deque(maxlen=_EVERYONE)
        self._middle = UNKNOWN
        self._ends = _Ends()
        self._failed, self._failed_early = _FAILED_BEFORE, 0.5 * _FAILED_BEFORE

    def row(self, record: JobRecord) -> list[float]:
        """The numbers of `NAMES` for a job submitted at ``record.submit_s``; nothing of its end is read."""
        now_s = record.submit_s
        user = self._users.get(who(record)) or _User()
        numbers = [
            log_s(record.requested_s) if record.requested_s else UNKNOWN,
            math.log2(max(1, record.gpus)),
            (now_s / _HOUR_S) % 24.0,
            (now_s / _DAY_S) % 7.0,
        ]
        for key in _keys(record):
            group = self._groups.get(key) if key is not None else None
            numbers += group.told(now_s) if group is not None else [UNKNOWN] * len(_OF_A_GROUP)
        recent = self._groups.get(("user", who(record)))
        numbers += [
            user.shares[-1] if user.shares else UNKNOWN,
            quantile_of(sorted(user.shares), 0.5) if user.shares else UNKNOWN,
            max(list(recent.runs)[-5:]) if recent else UNKNOWN,
        ]
        return [*numbers, *self._flight(user, record), *_habits(user, record), self._middle]

    def submitted(self, record: JobRecord) -> None:
        """A job was submitted; it is in flight until it has ended."""
        user = self._users.setdefault(who(record), _User())
        user.submissions.append(record)
        user.in_flight[record.job_id] = record

    def started(self, job_id: str, at_s: float) -> None:
        """A job in flight started running."""
        self._started_s[job_id] = at_s  # forgotten when it has ended

    def ended(self, record: JobRecord, at_s: float) -> None:
        """A job has ended after ``record.duration_s``."""
        user = self._users.setdefault(who(record), _User())
        user.in_flight.pop(record.job_id, None)
        self._started_s.pop(record.job_id, None)
        user.ended += 1
        run = log_s(record.duration_s or 0.0)
        if user.submissions and user.submissions[-1].job_id == record.job_id:
            user.last_done = (record.job_id, run)
        if record.requested_s:
            user.shares.append(min(1.0, (record.duration_s or 0.0) / record.requested_s))
        if record.outcome is not None:
            user.bad_ends.append(float(record.outcome != "completed"))
            ended = "timeout" if hit_its_limit(record) else record.outcome
            user.ends.add(ended, _FORGET_OWN_ENDS)
            self._ends.add(ended, _FORGET_ENDS)
        if record.outcome == "failed":
            self._failed += 1
            self._failed_early += (record.duration_s or 0.0) <= EARLY_S
        for key in _keys(record):
            if key is not None:
                self._groups.setdefault(key, _Group()).add(run, at_s)
        self._everyone.append(run)
        self._middle = quantile_of(sorted(self._everyone), 0.5)

    def jobs_of(self, record: JobRecord) -> int:
        """How many jobs of this job's user have ended."""
        user = self._users.get(who(record))
        return user.ended if user else 0

    def ends_of(self, record: JobRecord) -> dict[str, float]:
        """Shares of completed, failed and cancelled: the user's, smoothed by everyone's, by published ones."""
        everyone = self._ends.shares(PUBLISHED_ENDS, _PUBLISHED_JOBS)
        user = self._users.get(who(record))
        return user.ends.shares(everyone, _EVERYONES_JOBS) if user else everyone

    def early_share(self) -> float:
        """Of the jobs that fail, the share that does so within `EARLY_S`; a half before any was seen."""
        return self._failed_early / self._failed

    def promised(self, record: JobRecord, *, kept: bool) -> None:
        """A job of which a 90 % quantile was told has ended, by then or later."""
        user = self._users.setdefault(who(record), _User())
        user.promises += 1
        user.kept += kept

    def kept_promises(self, record: JobRecord) -> float:
        """How far the 90 % quantiles told of this user's jobs hold: 0.9, or the share that did where that is less by
        more than chance (two standard deviations)."""
        user = self._users.get(who(record))
        if user is None or not user.promises:
            return TOLD
        share = user.kept / user.promises
        return share if share < TOLD - 2.0 * math.sqrt(TOLD * (1.0 - TOLD) / user.promises) else TOLD

    def _flight(self, user: _User, record: JobRecord) -> Iterator[float]:
        now_s = record.submit_s
        newest = list(islice(reversed(user.in_flight.values()), _FLIGHT_COMPARED))
        alike = [each for each in newest if _alike(each, record)]
        ran = [now_s - self._started_s[each.job_id] for each in newest if each.job_id in self._started_s]
        ran_alike = [now_s - self._started_s[each.job_id] for each in alike if each.job_id in self._started_s]
        yield float(len(user.in_flight))
        yield float(len(alike))
        yield log_s(max(ran_alike)) if ran_alike else UNKNOWN
        yield log_s(max(ran)) if ran else UNKNOWN


def _habits(user: _User, record: JobRecord) -> Iterator[float]:
    now_s, before = record.submit_s, user.submissions
    last = before[-1] if before else None
    yield log_s(now_s - last.submit_s) if last else UNKNOWN
    yield log_s(now_s - before[-2].submit_s) if len(before) > 1 else UNKNOWN
    known = last is not None and last.requested_s and record.requested_s
    yield log_s(record.requested_s or 0.0) - log_s(last.requested_s or 0.0) if known and last else _NO_DIFFERENCE
    yield math.log2(max(1, record.gpus) / max(1, last.gpus)) if last else _NO_DIFFERENCE
    yield sum(_alike(each, record) for each in before) / len(before) if before else UNKNOWN
    yield float(sum(now_s - each.submit_s < _BATCH_S for each in before))
    yield user.last_done[1] if last and user.last_done and user.last_done[0] == last.job_id else UNKNOWN
    yield user.bad_ends[-1] if user.bad_ends else UNKNOWN
    yield sum(user.bad_ends) / len(user.bad_ends) if user.bad_ends else UNKNOWN


def who(record: JobRecord) -> Hashable:
    """Whose habits count: the user's; where none is named, those of jobs of this size."""
    return record.user if record.user is not None else ("no user", record.gpus)


def log_s(seconds: float) -> float:
    """The natural logarithm of seconds, of 1 s at least."""
    return math.log(max(1.0, seconds))


def quantile_of(ordered: Sequence[float], level: float) -> float:
    """The quantile of sorted numbers, interpolated."""
    place = level * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def table(rows: Sequence[Sequence[float]]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Rows as an array of single precision, (jobs, numbers)."""
    return np.asarray(rows, dtype=np.float32).reshape(len(rows), -1)


def _alike(one: JobRecord, other: JobRecord) -> bool:
    return one.gpus == other.gpus and one.requested_s == other.requested_s


def _keys(record: JobRecord) -> tuple[Hashable, ...]:
    """The groups of `_GROUPS` that a job belongs to; None where it has no such sign."""
    user, request, size = who(record), record.requested_s, record.gpus
    name = stem(record.name) if record.name else ""
    path = script(record.command) if record.command else ""
    return (
        ("user", user),
        ("all three", user, request, size),
        ("user and request", user, request),
        ("user and size", user, size),
        ("name", user, name) if name else None,
        ("request and size", request, size),
        ("request", request),
        ("code", record.fingerprint) if record.fingerprint else None,
        ("script", user, path) if path else None,
    )
