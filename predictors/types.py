"""What the predictors return."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    source the prediction rests on.
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
