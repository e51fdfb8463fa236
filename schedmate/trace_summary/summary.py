"""The numbers of a trace, as they go into ``schedmate trace describe --json``."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, tzinfo
from typing import Any

import numpy as np

from schedmate.ports import TraceNotes
from schedmate.repeats import SAME_ID
from schedmate.simulator.metrics import SIZE_BUCKETS, Distribution
from schedmate.trace_summary.collect import UNKNOWN, Collected, Floats
from schedmate.trace_summary.load import Load, held_s, load_of
from schedmate.trace_summary.missing import missing_from

HOUR_S = 3600.0
#: Times after 2000 are taken for Unix time, also where the format does not say so; no trace runs for 30 years.
_UNIX_SINCE_S = 946_684_800.0
_BUSIEST = 10
_NO_GPU = "0"


def summarise(jobs: Collected, notes: TraceNotes) -> dict[str, Any]:
    """Everything but the names of file and format; `load` as numbers of equal stretches."""
    load = load_of(jobs)
    gpu_s = gpu_seconds(jobs)
    return {
        "rows": notes.rows,
        "rows_skipped": dict(notes.skipped),
        "remarks": dict(notes.remarks),
        "jobs": len(jobs),
        "repeated_ids": notes.remarks.get(SAME_ID, 0),
        "clock": _clock(jobs, notes),
        "gpu_hours": float(gpu_s.sum()) / HOUR_S,
        "sizes": _sizes(jobs, gpu_s),
        "duration_s": _distribution(jobs.times["duration_s"]),
        "waiting_s": _waiting(jobs),
        "requested": _requested(jobs),
        "load": _load(load),
        "users": _owners(jobs, "user", gpu_s),
        "tenants": _owners(jobs, "tenant", gpu_s),
        "partitions": _owners(jobs, "partition", gpu_s),
        "gpu_types": _owners(jobs, "gpu_type", gpu_s),
        "states": _states(jobs, gpu_s),
        "attempts": _attempts(jobs),
        "at_the_end": _at_the_end(jobs),
        "missing": [dataclasses.asdict(each) for each in missing_from(jobs)],
    }


def gpu_seconds(jobs: Collected) -> Floats:
    """GPU time that each job held, `held_s`."""
    return jobs.gpus * held_s(jobs)


def unix_begin_s(jobs: Collected, notes: TraceNotes) -> float | None:
    """Unix time of the first submission, None for a clock of its own."""
    first_s = float(jobs.times["submit_s"].min())
    if notes.epoch_s is not None:
        return notes.epoch_s + first_s
    return first_s if first_s >= _UNIX_SINCE_S else None


def waits(jobs: Collected) -> Floats:
    """Seconds from submission to start, NaN where no start is recorded."""
    return np.maximum(0.0, jobs.times["start_s"] - jobs.times["submit_s"])


def in_bucket(jobs: Collected, least: float, most: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which jobs have a size in ``least..most`` GPUs."""
    return (jobs.sizes >= least) & (jobs.sizes <= most)


def gini(values: Floats) -> float | None:
    """0 where all have the same, towards 1 where one has all; None where there is nothing to share."""
    ordered = np.sort(values)
    total = float(ordered.sum())
    if ordered.size == 0 or total <= 0:
        return None
    ranks = np.arange(1, ordered.size + 1)
    return float((2 * np.dot(ranks, ordered) / total - ordered.size - 1) / ordered.size)


def by_owner(jobs: Collected, field: str, values: Floats) -> Floats:
    """Sums of a value over the jobs of each word of a field."""
    codes = jobs.codes[field]
    has = codes != UNKNOWN
    return np.bincount(codes[has], weights=values[has], minlength=len(jobs.words[field])).astype(np.float64)


def _clock(jobs: Collected, notes: TraceNotes) -> dict[str, Any]:
    submit_s = jobs.times["submit_s"]
    first_s, last_s = float(submit_s.min()), float(submit_s.max())
    unix_s = unix_begin_s(jobs, notes)
    shift_s = None if unix_s is None else unix_s - first_s
    return {
        "first_submit_s": first_s,
        "last_submit_s": last_s,
        "first_submit": _date(first_s, shift_s),
        "last_submit": _date(last_s, shift_s),
        "span_s": last_s - first_s,
        "timezone": notes.header.get("timezone"),
        "in_order": bool((np.diff(submit_s) >= 0).all()),
    }


def _date(seconds: float, shift_s: float | None) -> str | None:
    if shift_s is None:
        return None
    try:
        return datetime.fromtimestamp(seconds + shift_s, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a year beyond 9999
        return None


def local_date(moment: str | None, zone: tzinfo) -> str:
    """A date of the summary as the clock of a zone shows it, to the minute; empty where there is none."""
    if moment is None:
        return ""
    try:
        return f"{datetime.fromisoformat(moment).astimezone(zone):%Y-%m-%dT%H:%M}"
    except (ValueError, OverflowError):  # in that zone it is a year that is none
        return moment[:16]


def _distribution(values: Floats) -> dict[str, float | None]:
    return dataclasses.asdict(Distribution.of(values[np.isfinite(values)]))


def _sizes(jobs: Collected, gpu_s: Floats) -> dict[str, dict[str, Any]]:
    total = float(gpu_s.sum())
    parts: dict[str, dict[str, Any]] = {}
    for name, least, most in ((_NO_GPU, 0, 0), *SIZE_BUCKETS):
        inside = in_bucket(jobs, least, most)
        if name == _NO_GPU and not inside.any():
            continue
        ran = jobs.times["duration_s"][inside]
        parts[name] = {
            "jobs": int(inside.sum()),
            "share_of_gpu_hours": float(gpu_s[inside].sum()) / total if total else None,
            "duration_s": _distribution(ran),
        }
    return parts


def _waiting(jobs: Collected) -> dict[str, Any] | None:
    waited = waits(jobs)
    if not np.isfinite(waited).any():
        return None
    held = jobs.times["eligible_s"] - jobs.times["submit_s"]
    by_size = {name: _distribution(waited[in_bucket(jobs, least, most)]) for name, least, most in SIZE_BUCKETS}
    return {
        "all": _distribution(waited),
        "with_gpus": _distribution(waited[jobs.gpus > 0]),
        "by_size": by_size,
        "held_before_eligible": _distribution(held) if np.isfinite(held).any() else None,
    }


def _requested(jobs: Collected) -> dict[str, Any] | None:
    limit_s, ran_s = jobs.times["requested_s"], jobs.times["duration_s"]
    both = np.isfinite(limit_s) & np.isfinite(ran_s) & (limit_s > 0)
    if not both.any():
        return None
    return {
        "limit_s": _distribution(limit_s),
        "used_share": _distribution(ran_s[both] / limit_s[both]),
        "different_limits": int(np.unique(limit_s[both]).size),
    }


def _load(load: Load | None) -> dict[str, Any] | None:
    if load is None:
        return None
    return {
        "recorded": load.recorded,
        "mean_gpus": load.mean,
        "peak_gpus": load.peak,
        "begin_s": load.begin_s,
        "step_s": load.step_s,
        "gpus": [round(float(value), 3) for value in load.gpus],
    }


def _owners(jobs: Collected, field: str, gpu_s: Floats) -> dict[str, Any] | None:
    words = jobs.words[field]
    if not words:
        return None
    hours = by_owner(jobs, field, gpu_s) / HOUR_S
    counts = by_owner(jobs, field, np.ones(len(jobs)))
    order = np.lexsort((np.arange(len(words)), -counts, -hours))[:_BUSIEST]
    return {
        "count": len(words),
        "gini_gpu_hours": gini(hours),
        "busiest": [{"name": words[i], "jobs": int(counts[i]), "gpu_hours": float(hours[i])} for i in order.tolist()],
    }


def _states(jobs: Collected, gpu_s: Floats) -> dict[str, dict[str, Any]] | None:
    if not jobs.words["state"]:
        return None
    total = float(gpu_s.sum())
    states: dict[str, dict[str, Any]] = {}
    for code, name in enumerate(jobs.words["state"]):
        inside = jobs.codes["state"] == code
        states[name] = {
            "jobs": int(inside.sum()),
            "share_of_gpu_hours": float(gpu_s[inside].sum()) / total if total else None,
            "duration_s": _distribution(jobs.times["duration_s"][inside]),
        }
    return dict(sorted(states.items(), key=lambda item: -int(item[1]["jobs"])))


def _attempts(jobs: Collected) -> dict[str, int] | None:
    tried = jobs.attempts[jobs.attempts > 0]
    if tried.size == 0:
        return None
    return {"jobs_started_again": int((tried > 1).sum()), "most": int(tried.max())}


def _at_the_end(jobs: Collected) -> dict[str, int]:
    """Jobs that had not ended when the trace was taken, from which a replay can start warm."""
    unended = {"running": 0, "suspended": 0, "pending": 0}
    for name in unended:
        if name in jobs.words["state"]:
            unended[name] = int((jobs.codes["state"] == jobs.words["state"].index(name)).sum())
    return unended
