"""What the predictors return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from analyzers.types import SourceReading


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of the runtime in seconds until the job ends for whatever reason; never decreasing."""

    p10: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class OutcomeProbabilities:
    """How the job will end; the four sum to 1."""

    completed: float
    failed: float
    cancelled: float
    timeout: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A central value with an 80 % interval."""

    value: float
    low: float
    high: float


#: Whether a job fits a GPU: also at the upper end of what it may need, only at the likely one, only at the lower end.
Verdict = Literal["fits", "tight", "unlikely", "does not fit"]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change with which the job would likely need no more than the GPU has, at its present batch size.

    ``needed_mib`` is the likely need with it, ``largest_batch`` the samples of a GPU that would likely fit then
    (None: as many as wanted).
    """

    change: str
    needed_mib: float
    largest_batch: int | None


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether the job fits the GPU type that it asks for. ``usable_mib`` is what the driver leaves of its memory.

    ``needed_mib`` is the need, not cut at what the GPU has; ``headroom_mib`` what is left at its likely value (below
    zero: missing). ``batch`` are the samples of one forward pass on a GPU, None where nothing says so (then the need
    is for ``assumed_batch``). ``largest_batch`` is the most that likely fit (0: not one), ``safe_batch`` the most that
    fit at the upper end too; None where the model's size is not known. ``remedies`` only where it may not fit.
    """

    gpu: str
    usable_mib: float
    verdict: Verdict
    needed_mib: Interval
    headroom_mib: float
    batch: int | None = None
    assumed_batch: int | None = None
    largest_batch: int | None = None
    safe_batch: int | None = None
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True)
class SimilarJob:
    """A past job that the prediction leans on. ``similarity`` in 0..1."""

    job_id: str
    similarity: float
    user: str | None
    name: str | None
    gpus: int
    duration_s: float
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Assumed:
    """Something that the submission left open and the launch says: its name (``gpus``, ``limit_s``, ...) and the place.

    ``file`` is relative to the work dir, ``"launch"`` for the launch command, None where no one line says so.
    """

    name: str
    value: str | int | float
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Everything predicted for one submission. ``gpu_memory_mib`` is per GPU; ``gpu_utilization`` in 0..1.

    ``assumed``: what was taken from the launch because the submission did not say it. ``source``: how much of the job's
    source the prediction rests on. ``gpu_fit``: None where the GPU type is not known, or nothing of the memory.
    ``fails_early``: the chance that it fails within the first five minutes, part of ``outcome.failed``. ``confidence``:
    0.9, or the share of this user's jobs that ended by the 90 % quantile told of them where that is clearly less.
    ``remaining_s``: of a running job.
    """

    duration_s: Quantiles
    outcome: OutcomeProbabilities
    gpu_memory_mib: Interval
    gpu_utilization: Interval
    host_memory_mib: Interval
    similar_jobs: tuple[SimilarJob, ...] = ()
    reasons: tuple[str, ...] = ()
    model_version: str = ""
    warnings: tuple[str, ...] = field(default=())
    assumed: tuple[Assumed, ...] = ()
    source: SourceReading = field(default_factory=SourceReading)
    gpu_fit: Fit | None = None
    fails_early: float = 0.0
    confidence: float = 0.9
    remaining_s: Quantiles | None = None
