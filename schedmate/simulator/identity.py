"""Which jobs a replay was of, so that two of them can be told to be of the same or of others."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from analyzers.types import JobRecord


def jobs_key(jobs: Sequence[JobRecord]) -> str:
    """The same for the same submissions (time since the first, GPUs, runtime) in whatever file and order they stand."""
    first_s = min((job.submit_s for job in jobs), default=0.0)
    rows = sorted(f"{job.submit_s - first_s:.3f} {job.gpus} {job.duration_s}" for job in jobs)
    return sha256("\n".join(rows).encode()).hexdigest()[:16]
