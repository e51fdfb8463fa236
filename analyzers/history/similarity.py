"""How alike a submission and a past job are, 0..1."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from analyzers.history.text import grams, overlap, script, words
from analyzers.types import JobRecord, Submission

#: What each sign counts for where both sides have it. The same code says most, then the same person's habit
#: (recurring users dominate: Hu et al., SC'21; Weng et al., NSDI'22), then what was asked for.
_FINGERPRINT = 4.0
_USER = 2.0
_NAME = 2.0
_COMMAND = 2.0
_GPUS = 1.0
_LIMIT = 1.0
_GPU_TYPE = 0.5
_TENANT = 0.5
_RECENCY = 0.5
#: A sign that one side lacks counts this share of its weight as a miss: less evidence is less similarity.
_UNKNOWN = 0.15
#: Where neither code nor name nor command can be compared, nothing says that it is the same work: each of these signs
#: that the submission has then counts for more of a miss. Who asked for how much is a habit, not an identity.
_UNKNOWN_WORK = 0.25
#: Requests that differ by this factor have nothing to do with each other.
_GPUS_FAR = 8.0
_LIMIT_FAR = 8.0
_RECENCY_HALF_S = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class Query:
    """A submission prepared for many comparisons. ``now_s`` is the time of asking, for recency; None: unknown.

    Most of the jobs that are compared are alike, or differ in the same way, so what all signs but recency make of such
    a job is kept; and of the others what they are is often the same, or how they were asked for.
    """

    submission: Submission
    fingerprint: str
    now_s: float | None
    seen: dict[Hashable, _Sum] = field(default_factory=dict)
    seen_work: dict[Hashable, _Sum] = field(default_factory=dict)
    seen_requests: dict[Hashable, list[_Sum]] = field(default_factory=dict)


def similarity(query: Query, record: JobRecord, end_s: float) -> float:
    """The weighted mean of all signs; 1 only for a job that agrees in every sign the submission has."""
    # Of code and user it only counts whether they are the same (None: not known).
    code = record.fingerprint == query.fingerprint if record.fingerprint else None
    user = record.user == query.submission.user if record.user is not None else None
    alike = code, record.name, record.command, user, record.gpus, record.requested_s, record.gpu_type, record.tenant
    summed = query.seen.get(alike)
    if summed is None:
        summed = query.seen[alike] = _summed(query, record, alike[:3], alike[3:])
    got, total = summed
    if query.now_s is not None:
        age_s = max(0.0, query.now_s - end_s)
        got += _RECENCY * 0.5 ** (age_s / _RECENCY_HALF_S)
        total += _RECENCY
    return got / total if total else 0.0


#: The sum of weight x share, and that of the weights.
_Sum = tuple[float, float]


def _summed(query: Query, record: JobRecord, what: Hashable, how: Hashable) -> _Sum:
    """Of all signs but recency; ``what`` the job is and ``how`` it was asked for tell which are the same."""
    work = query.seen_work.get(what)
    if work is None:
        signs = _work_signs(query, record)
        unknown = _UNKNOWN if any(known for _, known, _ in signs) else _UNKNOWN_WORK
        work = query.seen_work[what] = _added((0.0, 0.0), _parts(signs, unknown))
    request = query.seen_requests.get(how)
    if request is None:
        request = query.seen_requests[how] = _parts(_request_signs(query, record), _UNKNOWN)
    return _added(work, request)


def _added(start: _Sum, parts: list[_Sum]) -> _Sum:
    got, total = start
    for share, weight in parts:
        got += share
        total += weight
    return got, total


#: One comparison: its weight, whether both sides have it, and how far they agree, 0..1. A plain tuple, as hundreds of
#: jobs are compared for one prediction.
_Sign = tuple[float, bool, float]


def _parts(signs: list[_Sign], unknown: float) -> list[_Sum]:
    """What each sign adds; ``unknown``: the share of its weight that one counts as a miss which a side lacks."""
    return [(weight * share, weight) if known else (0.0, weight * unknown) for weight, known, share in signs]


def _work_signs(query: Query, record: JobRecord) -> list[_Sign]:
    """What the job is: its code and settings, its name, its command."""
    asked = query.submission
    signs: list[_Sign] = []
    if query.fingerprint:
        same_code = record.fingerprint == query.fingerprint
        signs.append((_FINGERPRINT, bool(record.fingerprint), float(same_code)))
    if asked.name:
        share = overlap(grams(asked.name), grams(record.name)) if record.name else 0.0
        signs.append((_NAME, record.name is not None, share))
    if asked.command:
        signs.append((_COMMAND, record.command is not None, _commands(asked.command, record.command)))
    return signs


def _request_signs(query: Query, record: JobRecord) -> list[_Sign]:
    """Who asked for how much."""
    asked = query.submission
    signs: list[_Sign] = []
    if asked.user:
        signs.append((_USER, record.user is not None, float(record.user == asked.user)))
    if asked.gpus:
        signs.append((_GPUS, record.gpus > 0, _near(asked.gpus, record.gpus, _GPUS_FAR)))
    if asked.limit_s:
        share = _near(asked.limit_s, record.requested_s or 0.0, _LIMIT_FAR)
        signs.append((_LIMIT, record.requested_s is not None, share))
    if asked.gpu_type:
        same_type = (record.gpu_type or "").lower() == asked.gpu_type.lower()
        signs.append((_GPU_TYPE, record.gpu_type is not None, float(same_type)))
    if asked.tenant:
        signs.append((_TENANT, record.tenant is not None, float(record.tenant == asked.tenant)))
    return signs


def _commands(asked: str, past: str | None) -> float:
    if not past:
        return 0.0
    if asked == past:
        return 1.0
    same_script = bool(script(asked)) and script(asked) == script(past)
    return 0.5 * same_script + 0.5 * overlap(words(asked), words(past))


def _near(a: float, b: float, far: float) -> float:
    if a <= 0 or b <= 0:
        return 0.0
    if a == b:
        return 1.0
    return max(0.0, 1.0 - abs(math.log(a) - math.log(b)) / math.log(far))  # a / b may be too small for a number
