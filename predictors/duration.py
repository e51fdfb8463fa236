"""What similar jobs took, by how alike and how recent they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzers.history.index import end_s
from analyzers.types import JobRecord
from predictors.mixture import Mixture, bells, beyond, mix

Similar = Sequence[tuple[JobRecord, float]]
K_SIMILAR = 50
#: A job of similarity s counts s to this power of a job: half as alike is one sixteenth of the evidence.
_EVIDENCE_POWER = 4.0
#: How that evidence is shared out: sharply to the nearest, and half as much for every few jobs further back in time,
#: since users mostly repeat what they ran last (Tsafrir, Etsion and Feitelson, IEEE TPDS 2007).
_SHARE_POWER = 12.0
_RECENCY_HALF_JOBS = 10.0
#: Runs of the very same job still differ by about a fifth; around few jobs the bell is wider than around many.
_LEAST_SPREAD = 0.2
_LONE_SPREAD = 0.7
#: A job killed at its limit is recorded as lasting at least this share of it.
_AT_LIMIT = 0.99


def evidence(similar: Similar) -> list[float]:
    """How many jobs' worth each similar job counts, 0..1."""
    return [score**_EVIDENCE_POWER for _, score in similar]


def hit_its_limit(record: JobRecord) -> bool:
    """Whether the job was ended by its own time limit, so that it is only known to need at least that long."""
    if record.outcome == "timeout":
        return True
    limit_s = record.requested_s
    return record.outcome != "completed" and bool(limit_s) and (record.duration_s or 0.0) >= _AT_LIMIT * (limit_s or 0)


def seen_distribution(similar: Similar, limit_s: float | None) -> Mixture | None:
    """Their durations, each a bell, with a mass of the jobs that they are worth; None where they are worth nothing.

    The runtime if nothing cut it at ``limit_s``: cut quantiles and the chance of a timeout both follow from it.
    """
    total = sum(evidence(similar))
    if total <= 0:
        return None
    width = spread(similar)
    weighted = [(record, share * total) for (record, _), share in zip(similar, _shares(similar), strict=True)]
    # Without a limit to compare with, jobs are expected to get the limit that those before them got.
    cut = [(r, w) for r, w in weighted if limit_s and hit_its_limit(r)]
    whole = [(r, w) for r, w in weighted if not (limit_s and hit_its_limit(r))]
    parts = [
        shape(lengths, [width] * len(jobs), [w for _, w in jobs])
        for shape, jobs, lengths in (
            (bells, whole, [r.duration_s or 0.0 for r, _ in whole]),
            (beyond, cut, [_cut_at_s(r) for r, _ in cut]),
        )
        if jobs
    ]
    return mix(parts)


def spread(similar: Similar) -> float:
    """The standard deviation, on the log scale, of one more run around each similar one."""
    shares = _shares(similar)
    independent = 1.0 / sum(share**2 for share in shares)
    return math.hypot(_LEAST_SPREAD, _LONE_SPREAD / math.sqrt(1.0 + min(independent, sum(evidence(similar)))))


def _cut_at_s(record: JobRecord) -> float:
    """At least how long a job that hit its limit needed: recorded ends are a little before or after the limit."""
    ran_s, limit_s = record.duration_s or 0.0, record.requested_s or 0.0
    return max(ran_s, limit_s) if ran_s >= _AT_LIMIT * limit_s else ran_s


def _shares(similar: Similar) -> list[float]:
    """Each similar job's share of their evidence; the shares sum to 1."""
    latest_first = sorted(range(len(similar)), key=lambda i: -end_s(similar[i][0]))
    age = {job: place for place, job in enumerate(latest_first)}
    raw = [score**_SHARE_POWER * 0.5 ** (age[i] / _RECENCY_HALF_JOBS) for i, (_, score) in enumerate(similar)]
    total = sum(raw)
    return [value / total for value in raw] if total > 0 else [1.0 / len(raw)] * len(raw)
