"""Which hints are used: those whose order would have been better than none, for the jobs that have ended.

A hint is the word of somebody: of a *source* (a predictor, users), about jobs of an *owner* (account, else tenant).
Every source has a record for each owner, and what one owner's jobs turn out to be never touches the record of another
one. When jobs of an owner have ended, and when they have run for longer than was said, `hint_scores.ratio` compares the
order of what was said with the order that there is without hints. The record is the mean of these ratios, in which
older ones count less and less. Hints are used once it is below `GOOD`, and no more when it is above `BAD`.

Instead of a hint that is not used stands the job's limit, and where it has none what the owner's jobs usually last.

An owner with fewer than `OWN` ended jobs is judged with all others who are new: by the first `OWN` jobs of every
owner. So nothing is believed at first, the word of a source that has proved itself counts for newcomers at once, and
nobody can ruin it for others, nor for long under another name.

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

#: Owner and source of a hint.
Who = tuple[str, str]

#: A record is looked at again when so many more jobs have ended.
STEP = 25

#: So many jobs of an owner have to end before it is judged by them.
OWN = 50

#: Hints are used below the first, and not used above the second.
GOOD, BAD = 0.97, 1.0

#: A single look counts as this at most: whoever was once wrong by more is not judged for ever by that.
WORST = 5.0

#: What has been seen counts half as much when so many more jobs have ended.
HALF_LIFE_JOBS = 500.0

#: The jobs that ended last, of whomever: what the judged ones are put among.
OTHERS = 400

#: The records of no more owners are kept; those go first of whom nothing has ended for longest.
MOST_RECORDS = 10_000

#: What the jobs of an owner last is told by so many that ended last, and this share of them ended within its bound.
RUNS = 100
BOUND = 0.9

#: A mean counts as more than chance beyond so many standard errors.
ERRORS = 2.0


class Seen(NamedTuple):
    """A job of which something was said: that, and what is assumed of it without hints, in seconds of runtime; its
    GPUs; and how long it really ran, or has run so far."""

    said_s: float
    blind_s: float
    gpus: int
    ran_s: float


@dataclass(frozen=True, slots=True)
class Trust:
    """How hints of a source about the jobs of an owner are used. ``owner`` None: those who are new. ``ratio``: the
    waiting that their order makes for that without hints, None before the first look; ``factor``: what they are
    multiplied by; ``ended``: how many jobs of theirs have."""

    owner: str | None
    source: str
    used: bool
    ratio: float | None
    factor: float
    ended: int

    def words(self) -> str:
        """For people."""
        of = "of those who are new" if self.owner is None else f"of {self.owner}" if self.owner else ""
        hints = " ".join(word for word in ("hints", of, f"from {self.source}" if self.source else "") if word)
        if self.ratio is None:
            return f"{hints} are not used: too few of the jobs have ended"
        so_far = f"by {self.ended} ended jobs their order makes {self.ratio:.2f} times the waiting of none"
        if not self.used:
            return f"{hints} are not used: {so_far}"
        longer = f", and {self.factor:.2f} times what they say is believed" if self.factor > 1 else ""
        return f"{hints} are used: {so_far}{longer}"


class Record:
    """How the hints of a source about the jobs of an owner, or of all who are new, have turned out. ``factor``: what is
    said is multiplied by it; always 1 for those who are new."""

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
    """The records of all sources and owners."""

    __slots__ = ("_ended", "_latest", "_new", "_records")

    def __init__(self) -> None:
        self._records: dict[Who, Record] = {}
        #: Of those who are new, by source.
        self._new: dict[str, Record] = {}
        #: Ended, and not yet taken in: job, size in GPU seconds, what was said.
        self._ended: list[tuple[str, float, tuple[tuple[Who, Seen], ...]]] = []
        self._latest: deque[float] = deque(maxlen=OTHERS)

    def judge(self, who: Who) -> Record | None:
        """The record that counts for an owner at present; None where there is none."""
        own = self._records.get(who)
        return own if own is not None and own.ended >= OWN else self._new.get(who[1])

    def factor(self, who: Who) -> float | None:
        """What a hint is multiplied by; None if it is not used."""
        record = self.judge(who)
        return record.factor if record is not None and record.used else None

    def usual_s(self, who: Who) -> tuple[float, float] | None:
        """What the jobs of an owner last, whatever is said of them: mean and upper bound, in seconds; None of those who
        are new."""
        own = self._records.get(who)
        return own.usual_s if own is not None and own.ended >= OWN else None

    def is_new(self, who: Who, source: str) -> bool:
        """Whether an owner is judged with all others who are new to this source."""
        own = self._records.get(who)
        return who[1] == source and (own is None or own.ended < OWN)

    def end(self, job_id: str, said_s: Mapping[Who, float], blind_s: float, gpus: int, ran_s: float) -> None:
        """A job has ended, of which this was said."""
        said = tuple((who, Seen(each_s, blind_s, gpus, ran_s)) for who, each_s in sorted(said_s.items()))
        self._ended.append((job_id, ran_s * gpus, said))

    def take_in(self) -> list[Who | str]:
        """Take in what has ended since the last time; the records that now have something to look at, an owner's by its
        name and source, that of all who are new by the source."""
        if not self._ended:
            return []
        due: dict[Who | str, None] = {}
        for _, size, said in sorted(self._ended):
            self._latest.append(size)
            for who, seen in said:
                own = self._records.pop(who, None) or Record()
                new = self._new.get(who[1]) or self._new.setdefault(who[1], Record())
                if own.ended < OWN:
                    new.add(seen)
                own.add(seen)
                self._records[who] = own  # last, so that the first is the one that nothing has ended of for longest
                due |= {key: None for key, each in ((who, own), (who[1], new)) if each.is_due}
        self._ended.clear()
        while len(self._records) > MOST_RECORDS:
            del self._records[next(iter(self._records))]
        return [key for key in due if isinstance(key, str) or key in self._records]

    def look(self, which: Sequence[tuple[Who | str, Iterable[Seen]]]) -> None:
        """Look at records that are due, each with what of its jobs runs."""
        others = Others(self._latest)
        for key, running in which:
            if isinstance(key, str):
                self._new[key].look(others, running)
            else:
                self._records[key].look(others, running)
                self._records[key].correct()

    def trust(self, who: Who) -> Trust:
        """How hints of a source about the jobs of an owner are used."""
        return _trust(None if self.is_new(who, who[1]) else who[0], who[1], self.judge(who))

    @property
    def trusts(self) -> tuple[Trust, ...]:
        """Of all, those who are new first, then owners by name."""
        own = [who for who in sorted(self._records) if self._records[who].ended >= OWN]
        new = [_trust(None, source, self._new[source]) for source in sorted(self._new)]
        return (*new, *(_trust(*who, self._records[who]) for who in own))

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


def _trust(owner: str | None, source: str, record: Record | None) -> Trust:
    if record is None:
        return Trust(owner, source, False, None, 1.0, 0)
    return Trust(owner, source, record.used, record.ratio, record.factor if record.used else 1.0, record.ended)
