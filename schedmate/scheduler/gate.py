"""Which hints are used: those whose order would have been better than none, for the jobs that have ended.

A hint is the word of somebody: of a *source* (a predictor, users), about jobs of an *owner* (account, else tenant).
Every source has a record for each owner, and what one owner's jobs turn out to be never touches the record of another
one. When jobs of an owner have ended, and when they have run for longer than was said, `hint_scores.ratio` compares the
order of what was said with the order that there is without hints. The record is the mean of these ratios, in which
older ones count less and less. Hints are used once it is below `GOOD`, and no more when it is above `BAD`.

Instead of a hint that is not used stands the job's limit, and where it has none what the owner's jobs usually last.

An owner with fewer than `OWN` ended jobs is judged with the others of its tenant who are new: by the first `OWN` jobs
of every owner there. A tenant of whose newcomers fewer have ended is judged with all that are new, by the first `OWN`
such jobs of every tenant; owners without a tenant count as one each. So nothing is believed at first, the word of a
source that has proved itself counts for newcomers at once, and nobody can ruin it for others: under however many names
a tenant lies, after `OWN` jobs it answers for itself.

Who says too little of every job, in good order, is believed as far as the order goes: what an owner says is multiplied
by how much too little it has been on average, beyond chance, and judged as that. Saying too much gains nothing, and is
left alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schedmate.scheduler.hint_scores import Others, ratio

#: A record is looked at again when so many more jobs have ended.
STEP = 25

#: So many jobs of an owner, or of the newcomers of a tenant, have to end before it is judged by them.
OWN = 50

#: Hints are used below the first, and not used above the second.
GOOD, BAD = 0.97, 1.0

#: A single look counts as this at most: whoever was once wrong by more is not judged for ever by that.
WORST = 5.0

#: What has been seen counts half as much when so many more jobs have ended.
HALF_LIFE_JOBS = 500.0

#: The jobs that ended last, of whomever: what the judged ones are put among.
OTHERS = 400

#: The records of no more owners and tenants are kept; those go first of whom nothing has ended for longest.
MOST_RECORDS = 10_000

#: What the jobs of an owner last is told by so many that ended last, and this share of them ended within its bound.
RUNS = 100
BOUND = 0.9

#: A mean counts as more than chance beyond so many standard errors.
ERRORS = 2.0


class Who(NamedTuple):
    """Whom the word of a source is about: the jobs of an owner, and the ``tenant`` among whose newcomers it is judged,
    empty without one. ``owner`` None: all who are new, in that tenant or anywhere."""

    owner: str | None
    source: str
    tenant: str = ""


class Seen(NamedTuple):
    """A job of which something was said: that, and what is assumed of it without hints, in seconds of runtime; its
    GPUs; and how long it really ran, or has run so far."""

    said_s: float
    blind_s: float
    gpus: int
    ran_s: float


@dataclass(frozen=True, slots=True)
class Trust:
    """How hints of a source about the jobs of an owner are used. ``owner`` None: those who are new, in ``tenant`` or,
    where that is empty, anywhere. ``ratio``: the waiting that their order makes for that without hints, None before the
    first look; ``factor``: what they are multiplied by; ``ended``: how many jobs of theirs have."""

    owner: str | None
    source: str
    used: bool
    ratio: float | None
    factor: float
    ended: int
    tenant: str = ""

    def words(self) -> str:
        """For people."""
        of = f"of {self.owner}" if self.owner else ""
        if self.owner is None:
            of = f"of those of {self.tenant} who are new" if self.tenant else "of those who are new"
        hints = " ".join(word for word in ("hints", of, f"from {self.source}" if self.source else "") if word)
        if self.ratio is None:
            return f"{hints} are not used: too few of the jobs have ended"
        so_far = f"by {self.ended} ended jobs their order makes {self.ratio:.2f} times the waiting of none"
        if not self.used:
            return f"{hints} are not used: {so_far}"
        longer = f", and {self.factor:.2f} times what they say is believed" if self.factor > 1 else ""
        return f"{hints} are used: {so_far}{longer}"


class Record:
    """How the hints of a source about the jobs of an owner, or of those who are new, have turned out. ``factor``: what
    is said is multiplied by it; always 1 for those who are new."""

    __slots__ = ("_logs", "_ratios", "_runs", "_squares", "_weight", "ended", "factor", "fresh", "used")

    def __init__(self) -> None:
        self.ended = 0
        self.used = False
        self.factor = 1.0
        #: Ended since the last look.
        self.fresh: list[Seen] = []
        self._runs: deque[float] = deque(maxlen=RUNS)
        self._weight = self._ratios = self._logs = self._squares = 0.0

    @property
    def ratio(self) -> float | None:
        """The mean ratio; None before the first look."""
        return self._ratios / self._weight if self._weight else None

    def add(self, seen: Seen) -> None:
        """A job has ended."""
        self.ended += 1
        self.fresh.append(seen)
        self._runs.append(seen.ran_s)

    @property
    def usual_s(self) -> tuple[float, float]:
        """What the jobs that ended last ran for: the mean, by which the order of jobs that nothing else is known of
        is best (Smith 1956), and what most of them ended within."""
        runs = sorted(self._runs)
        mean_s = sum(runs) / len(runs)
        return mean_s, max(mean_s, runs[math.ceil(BOUND * len(runs)) - 1])

    @property
    def is_due(self) -> bool:
        """Whether there is enough to look at."""
        return len(self.fresh) >= STEP and self.ended >= OWN

    def look(self, others: Others, running: Iterable[Seen]) -> None:
        """Judge by the jobs that have ended since the last look, and by those that have run for longer than was said,
        or than is assumed without hints: they have at least had that."""
        fresh, self.fresh = self.fresh, []
        late = [seen for seen in running if seen.ran_s > min(seen.said_s, seen.blind_s)]
        said, blind, gpus, ran = np.array([*fresh, *late], dtype=np.float64).T
        found = ratio(others, self.factor * said * gpus, blind * gpus, ran * gpus)
        if found is None:
            return
        fades = 0.5 ** (len(fresh) / HALF_LIFE_JOBS)
        logs = np.log(np.maximum(1.0, ran[: len(fresh)]) / np.maximum(1.0, said[: len(fresh)]))
        self._weight = fades * self._weight + len(fresh)
        self._ratios = fades * self._ratios + len(fresh) * min(found, WORST)
        self._logs = fades * self._logs + float(logs.sum())
        self._squares = fades * self._squares + float((logs * logs).sum())
        mean = self._ratios / self._weight
        self.used = mean < GOOD or (self.used and mean <= BAD)

    def correct(self) -> None:
        """From now on multiply what is said by how much too little it was."""
        self.factor = self._short_by()

    def _short_by(self) -> float:
        """By what factor too little is said, at least; 1 where that may be chance."""
        if not self._weight:
            return 1.0
        mean = self._logs / self._weight
        variance = max(0.0, self._squares / self._weight - mean * mean)
        return math.exp(max(0.0, mean - ERRORS * math.sqrt(variance / self._weight)))

    def copy(self) -> Record:
        """The same, to go on by itself."""
        found = Record()
        for name in self.__slots__:
            setattr(found, name, getattr(self, name))
        found.fresh, found._runs = list(self.fresh), self._runs.copy()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]


class Gate:
    """The records of all sources, owners and tenants."""

    __slots__ = ("_ended", "_latest", "_new", "_records")

    def __init__(self) -> None:
        #: Of owners, whatever their tenant, and of the newcomers of tenants.
        self._records: dict[Who, Record] = {}
        #: Of all who are new, by source.
        self._new: dict[str, Record] = {}
        #: Ended, and not yet taken in: job, size in GPU seconds, what was said.
        self._ended: list[tuple[str, float, tuple[tuple[Who, Seen], ...]]] = []
        self._latest: deque[float] = deque(maxlen=OTHERS)

    def judged_by(self, who: Who) -> Who:
        """Whose record counts for an owner at present: its own, that of its tenant's newcomers, or that of all. A
        record that counts is judged by itself."""
        own = _own(who)
        record = self._records.get(own)
        if record is not None and record.ended >= OWN:
            return own
        mates = _mates(who)
        record = self._records.get(mates) if who.tenant else None
        return mates if record is not None and record.ended >= OWN else Who(None, who.source)

    def judge(self, who: Who) -> Record | None:
        """The record that counts for an owner at present; None where there is none."""
        key = self.judged_by(who)
        return self._records.get(key) or self._new.get(key.source)

    def factor(self, who: Who) -> float | None:
        """What a hint is multiplied by; None if it is not used."""
        record = self.judge(who)
        return record.factor if record is not None and record.used else None

    def usual_s(self, who: Who) -> tuple[float, float] | None:
        """What the jobs of an owner last, whatever is said of them: mean and upper bound, in seconds; None of those who
        are new."""
        own = self._records.get(_own(who))
        return own.usual_s if own is not None and own.ended >= OWN else None

    def end(self, job_id: str, said_s: Mapping[Who, float], blind_s: float, gpus: int, ran_s: float) -> None:
        """A job has ended, of which this was said."""
        said = tuple((who, Seen(each_s, blind_s, gpus, ran_s)) for who, each_s in sorted(said_s.items()))
        self._ended.append((job_id, ran_s * gpus, said))

    def take_in(self) -> list[Who]:
        """Take in what has ended since the last time; whose records now have something to look at."""
        if not self._ended:
            return []
        due: dict[Who, None] = {}
        for _, size, said in sorted(self._ended):
            self._latest.append(size)
            for who, seen in said:
                due |= {key: None for key, record in self._add(who, seen) if record.is_due}
        self._ended.clear()
        while len(self._records) > MOST_RECORDS:
            del self._records[next(iter(self._records))]
        return [key for key in due if key in self._records or key == Who(None, key.source)]

    def _add(self, who: Who, seen: Seen) -> list[tuple[Who, Record]]:
        """A job has ended of which this was said; the records that it is part of."""
        own, mates = self._touched(_own(who)), self._touched(_mates(who)) if who.tenant else None
        found = [(_own(who), own)]
        if own.ended < OWN:
            if mates is None or mates.ended < OWN:
                found.append((Who(None, who.source), self._new.setdefault(who.source, Record())))
            if mates is not None:
                found.append((_mates(who), mates))
        for _, record in found:
            record.add(seen)
        return found

    def _touched(self, key: Who) -> Record:
        """The record, moved to the end: the first is the one of whom nothing has ended for longest."""
        record = self._records.pop(key) if key in self._records else Record()
        self._records[key] = record
        return record

    def look(self, which: Sequence[tuple[Who, Iterable[Seen]]]) -> None:
        """Look at records that are due, each with what of its jobs runs."""
        others = Others(self._latest)
        for key, running in which:
            if key in self._records:
                self._records[key].look(others, running)
            else:
                self._new[key.source].look(others, running)
            if key.owner is not None:
                self._records[key].correct()

    def trust(self, who: Who) -> Trust:
        """How hints of a source about the jobs of an owner are used."""
        return _trust(self.judged_by(who), self.judge(who))

    @property
    def trusts(self) -> tuple[Trust, ...]:
        """Of all: those who are new first, then those of tenants, then owners, by name."""
        kept = [who for who, record in self._records.items() if record.ended >= OWN]
        kept.sort(key=lambda who: (who.owner is not None, who.tenant, who.owner or "", who.source))
        new = [_trust(Who(None, source), self._new[source]) for source in sorted(self._new)]
        return (*new, *(_trust(who, self._records[who]) for who in kept))

    def recall(self, other: Gate) -> None:
        """Know what another one knows, and nothing else."""
        self._records = {who: record.copy() for who, record in other._records.items()}
        self._new = {source: record.copy() for source, record in other._new.items()}
        self._latest, self._ended = other._latest.copy(), other._ended.copy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gate) and (
            (self._records, self._new, self._latest, sorted(self._ended))
            == (other._records, other._new, other._latest, sorted(other._ended))
        )

    __hash__ = None  # type: ignore[assignment]


def _own(who: Who) -> Who:
    """The record of an owner: one, in whatever tenant it works."""
    return Who(who.owner, who.source) if who.tenant else who


def _mates(who: Who) -> Who:
    """The record of the newcomers of its tenant."""
    return Who(None, who.source, who.tenant)


def _trust(who: Who, record: Record | None) -> Trust:
    if record is None:
        return Trust(who.owner, who.source, False, None, 1.0, 0, who.tenant)
    factor = record.factor if record.used else 1.0
    return Trust(who.owner, who.source, record.used, record.ratio, factor, record.ended, who.tenant)
