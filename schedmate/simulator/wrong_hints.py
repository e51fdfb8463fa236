"""Hints that are wrong in ways of which each has a name, to try what they cost and who pays for it.

All are said by the owner of the job: its tenant, else its user, else one of `TENANTS` drawn by a seed. All claim to be
certain, and leave the hard limit what it is in the trace, as `Perfect` does.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

from analyzers.types import JobRecord
from schedmate.scheduler import Hints, Job
from schedmate.simulator.estimates import Around, Estimates, Perfect, told

#: So many tenants are drawn where a trace names neither tenants nor users.
TENANTS = 8

#: What every job is said to take by those who say the same of all.
CONSTANT_S = 3600.0
ONE_MINUTE_S = 60.0

#: Reversed hints are mirrored at this: what takes a minute is said to take 2.5 days.
MIRROR_S = 3600.0

#: Standard deviation of the natural logarithm of what `Noisy` hints are off by.
SIGMA = 1.0


class Owners:
    """Whose a job is."""

    def __init__(self, seed: int = 1) -> None:
        self._seed = seed

    def of(self, record: JobRecord) -> str:
        """The tenant, else the user, else one that is drawn: the same for the same seed and job id."""
        named = record.tenant or record.user
        return named or f"tenant-{crc32(f'{self._seed} {record.job_id}'.encode()) % TENANTS + 1}"


class OwnedBy(Around):
    """Other estimates, of jobs that have their owner as account."""

    def __init__(self, estimates: Estimates, owners: Owners) -> None:
        super().__init__(estimates)
        self._owners = owners

    def job(self, record: JobRecord) -> Job:
        """The job with its account."""
        return replace(self._estimates.job(record), account=self._owners.of(record))


class _Told:
    """Says something of each job and learns nothing."""

    name = ""
    learns = False

    def job(self, record: JobRecord) -> Job:
        """Estimate and hints are the same time in seconds."""
        said_s = self.said_s(record)
        return told(record, Hints(said_s, said_s, self.name, confidence=1.0))

    def said_s(self, record: JobRecord) -> float:
        """What is said of the job, in seconds."""
        raise NotImplementedError

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


class Noisy(_Told):
    """The truth times a log-normal factor of median 1, drawn anew for every job. ``ValueError`` for a ``sigma`` that is
    negative or not finite."""

    def __init__(self, sigma: float = SIGMA, seed: int = 1) -> None:
        if not 0 <= sigma < math.inf:
            raise ValueError(f"a standard deviation of {sigma}")
        self.name = f"noisy:{sigma:g}"
        self._sigma, self._seed = sigma, seed

    def said_s(self, record: JobRecord) -> float:
        """The same for the same seed and job id, in whatever order the jobs come."""
        draw = random.Random(f"{self._seed} {record.job_id}")
        return (record.duration_s or 0.0) * math.exp(draw.gauss(0.0, self._sigma))


class Constant(_Told):
    """The same of every job."""

    def __init__(self, seconds: float = CONSTANT_S, name: str = "constant") -> None:
        self.name, self._seconds = name, seconds

    def said_s(self, record: JobRecord) -> float:
        """That."""
        return self._seconds


class Reversed(_Told):
    """The truth mirrored on the log scale, so that of two jobs the longer one is always said to be the shorter."""

    name = "reversed"

    def said_s(self, record: JobRecord) -> float:
        """`MIRROR_S` squared by the truth; nothing is taken to be shorter than a second."""
        return MIRROR_S**2 / max(1.0, record.duration_s or 0.0)


class OneLies:
    """One owner says of every job of its own that it takes a minute; all others tell the truth."""

    name = "one-lies"
    learns = False

    def __init__(self, liar: str, owners: Owners) -> None:
        self._liar, self._owners = liar, owners
        self._lie, self._truth = Constant(ONE_MINUTE_S, "user"), Perfect()

    def job(self, record: JobRecord) -> Job:
        """All hints come from one source, as those that users give do."""
        owner = self._owners.of(record)
        job = (self._lie if owner == self._liar else self._truth).job(record)
        hints = None if job.hints is None else replace(job.hints, source="user")
        return replace(job, hints=hints, account=record.user or owner)

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


def liar_among(records: Iterable[JobRecord], owners: Owners, seed: int = 1) -> str:
    """The owner of a job that is drawn, so that who has many is likelier to be; empty where there are no jobs."""
    names = [owners.of(record) for record in records]
    return random.Random(seed).choice(names) if names else ""
