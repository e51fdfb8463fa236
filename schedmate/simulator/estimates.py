"""What a policy may know of a job's runtime. The true runtime stays with the simulator; a `Job` carries only this.

- *perfect*: the true runtime, as an oracle would have it (an upper bound for what any prediction can gain).
- *requested*: the requested time of the trace, the user's own estimate and hard limit.
- *predicted*: what a predictor says at submission, having seen only jobs that had ended by then.
- *hostile*: what someone says who knows the truth and means harm, to try how much harm hints can do.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

from analyzers.types import JobRecord
from schedmate.scheduler import Hints, Job
from schedmate.scheduler.assumptions import expected


class Estimates(Protocol):
    """Turns a record into the job that the scheduler sees. ``learns``: it must be asked at the time of submission."""

    name: str
    learns: bool

    def job(self, record: JobRecord) -> Job:
        """The job as the scheduler may see it when it is submitted."""
        ...

    def ended(self, record: JobRecord) -> None:
        """The job has ended; called in the order of the ends, for estimates that learn."""
        ...


@runtime_checkable
class HearsStarts(Protocol):
    """Estimates that want to know what runs as well: of a job that has started it is known how long it has lasted."""

    def started(self, record: JobRecord, at_s: float) -> None:
        """The job starts running, or starts again; nothing of its end is to be read."""
        ...

    def stopped(self, record: JobRecord, at_s: float) -> None:
        """The job had to leave and waits again, or is gone for good and never `ended`."""
        ...


@runtime_checkable
class ThinksAgain(Protocol):
    """Estimates that say something else of a job that still waits once they have learned more."""

    def again(self, record: JobRecord, at_s: float) -> Hints | None:
        """The hints that the job would come with if it were submitted then, None where there is nothing else to say.
        Nothing is to be read of its run."""
        ...


class QuantilesLike(Protocol):
    """Median and 90 % quantile of the runtime in seconds."""

    @property
    def p50(self) -> float: ...
    @property
    def p90(self) -> float: ...


class Predictor(Protocol):
    """Learns runtimes as jobs end; must not read ``record.duration_s`` before `observe`."""

    def quantiles(self, record: JobRecord) -> QuantilesLike:
        """Quantiles of the runtime in seconds."""
        ...

    def observe(self, record: JobRecord) -> None:
        """A job has ended."""
        ...


def told(record: JobRecord, hints: Hints) -> Job:
    """The job of which someone who knows the truth says this; its requested time is the limit that it keeps."""
    said_s = hints.expected_s
    return Job(record.job_id, record.gpus, record.submit_s, said_s, record.requested_s, record.gpu_type, hints)


class Perfect:
    """The oracle. The requested time, where there is one, still is the hard limit."""

    name = "perfect"
    learns = False

    def job(self, record: JobRecord) -> Job:
        """Estimate and hints are the true runtime."""
        runtime_s = record.duration_s or 0.0
        return told(record, Hints(runtime_s, runtime_s, "oracle"))

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


#: By so much hostile hints are too long or too short.
HOSTILE_FACTOR = 100.0


class Hostile:
    """Hints that mislead, by a seeded draw for every job: the truth mirrored on the log scale within the range of
    runtimes seen so far, so that what is long looks short, or `HOSTILE_FACTOR` times too long, or too short. They claim
    to be certain. The hard limit is that of the trace, as for `Perfect`."""

    name = "hostile"
    learns = False

    def __init__(self, seed: int = 1) -> None:
        self._draw = random.Random(seed)
        self._shortest_s, self._longest_s = math.inf, 0.0

    def job(self, record: JobRecord) -> Job:
        """Estimate and hints are the same wrong time in seconds."""
        runtime_s = record.duration_s or 0.0
        least_s = max(1.0, runtime_s)
        self._shortest_s, self._longest_s = min(self._shortest_s, least_s), max(self._longest_s, least_s)
        mirrored_s = self._shortest_s * self._longest_s / least_s
        wrong_s = self._draw.choice((mirrored_s, least_s * HOSTILE_FACTOR, least_s / HOSTILE_FACTOR))
        return told(record, Hints(wrong_s, wrong_s, "hostile", confidence=1.0))

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


class Requested:
    """The user's requested time; a job without one has no estimate and no limit."""

    name = "requested"
    learns = False

    def job(self, record: JobRecord) -> Job:
        """Estimate and limit are the requested time; there are no hints."""
        requested_s = record.requested_s
        return Job(record.job_id, record.gpus, record.submit_s, requested_s, requested_s, record.gpu_type)

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


def as_submitted(record: JobRecord) -> JobRecord:
    """The record without what only its run tells: all that may be known of a job when it is submitted."""
    return replace(
        record, duration_s=None, start_s=None, end_s=None, outcome=None, state=None, attempts=None, ran_so_far_s=None,
        peak_gpu_memory_mib=None, mean_gpu_utilization=None, peak_host_memory_mib=None,
    )  # fmt: skip


class Predicted:
    """An online predictor, asked when the job is submitted: it is shown nothing of a run before that has ended. The
    requested time stays the hard limit."""

    name = "predicted"
    learns = True

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def job(self, record: JobRecord) -> Job:
        """Estimate is the predicted median, hints are median and 90 % quantile."""
        quantiles = self._predictor.quantiles(as_submitted(record))
        middle_s, high_s = quantiles.p50, max(quantiles.p50, quantiles.p90)
        hints = Hints(middle_s, high_s, "history")
        return Job(record.job_id, record.gpus, record.submit_s, middle_s, record.requested_s, record.gpu_type, hints)

    def ended(self, record: JobRecord) -> None:
        """Hand the ended job to the predictor."""
        self._predictor.observe(record)


class Told(NamedTuple):
    """What was said of a job when it was submitted. Seconds; None where nothing was."""

    owner: str
    expected_s: float | None
    high_s: float | None


class Around:
    """Other estimates, of which something is made: what happens is handed on to them."""

    def __init__(self, estimates: Estimates) -> None:
        self._estimates = estimates
        self.name = estimates.name
        self.learns = estimates.learns

    def job(self, record: JobRecord) -> Job:
        """The job as the other estimates have it."""
        return self._estimates.job(record)

    def ended(self, record: JobRecord) -> None:
        """Hand the ended job on."""
        self._estimates.ended(record)

    def started(self, record: JobRecord, at_s: float) -> None:
        """Hand the start on, if anyone hears of it."""
        if isinstance(self._estimates, HearsStarts):
            self._estimates.started(record, at_s)

    def stopped(self, record: JobRecord, at_s: float) -> None:
        """Hand the stop on, if anyone hears of it."""
        if isinstance(self._estimates, HearsStarts):
            self._estimates.stopped(record, at_s)

    def again(self, record: JobRecord, at_s: float) -> Hints | None:
        """What the other estimates say now, if they think again."""
        return self._estimates.again(record, at_s) if isinstance(self._estimates, ThinksAgain) else None


class Noted(Around):
    """Other estimates, with a note of what they said: ``told`` by job id. The owner is the tenant, else the user."""

    def __init__(self, estimates: Estimates) -> None:
        super().__init__(estimates)
        self.told: dict[str, Told] = {}

    def job(self, record: JobRecord) -> Job:
        """The job as the other estimates have it."""
        job, owner = self._estimates.job(record), record.tenant or record.user or ""
        if job.hints is None:
            self.told[record.job_id] = Told(owner, job.estimate_s, None)
        else:
            self.told[record.job_id] = Told(owner, job.hints.expected_s, job.hints.high_s)
        return job


@dataclass(frozen=True, slots=True)
class Restarts:
    """What being evicted costs: state is saved every ``checkpoint_s`` and within ``grace_s`` of being told to leave,
    and starting again takes ``restart_s`` before any work is done. Saved state costs nothing to write."""

    checkpoint_s: float | None = 600.0
    grace_s: float = 0.0
    restart_s: float = 120.0


class Preemptible(Around):
    """Other estimates, of jobs that may all be evicted."""

    def __init__(self, estimates: Estimates, restarts: Restarts | None = None) -> None:
        super().__init__(estimates)
        self._restarts = restarts or Restarts()

    def job(self, record: JobRecord) -> Job:
        """The job as the other estimates have it, and preemptible."""
        costs = self._restarts
        return replace(
            self._estimates.job(record),
            preemptible=True,
            checkpoint_s=costs.checkpoint_s,
            grace_s=costs.grace_s,
            restart_s=costs.restart_s,
        )


#: The smallest jobs, in GPU seconds, and by what factor a job has to be larger to be of the next lower class.
LEAST_GPU_S = 60.0
CLASS_FACTOR = 10.0


class SizeClasses(Around):
    """Other estimates, of jobs with a priority class by the GPU time that they are expected to take: below ten GPU
    minutes 0, below a hundred -1, and so on. So that a scheduler with classes lets small jobs take the place of large
    ones, which a submit filter of an operator could have it do as well."""

    def job(self, record: JobRecord) -> Job:
        """The job as the other estimates have it, of its class."""
        job = self._estimates.job(record)
        gpu_s = expected(job).ends_s * job.gpus
        return replace(job, priority=-int(math.log(max(1.0, gpu_s / LEAST_GPU_S), CLASS_FACTOR) + 1e-9))
