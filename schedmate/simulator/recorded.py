"""The queue that the trace itself records, to be put beside what a replay makes of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from analyzers.types import JobRecord
from schedmate.simulator.detail import held, shown_edges, waiting_cdf, waiting_gpus
from schedmate.simulator.metrics import Distribution, bounded_slowdown, waiting_by_size
from schedmate.simulator.waiters import waiters
from schedmate.simulator.warm_start import when_eligible


def as_recorded(jobs: Sequence[JobRecord], played: Collection[str], cluster_gpus: int = 0) -> dict[str, Any] | None:
    """Waits, completion times and slowdowns by the recorded starts of the jobs that a replay had (``played``, by id);
    None where the trace records no start of any of them. With ``cluster_gpus``, those of the cluster that is
    replayed, also the GPUs in use and waited for over time, as `schedmate.simulator.detail` has them.

    A job that was held (by a dependency, or until a time) waits from when only the queue kept it, as far as the trace
    tells: what its own scheduler could not have started it did not keep waiting.
    """
    known = [job for job in jobs if job.job_id in played and job.start_s is not None and job.duration_s is not None]
    if not known:
        return None
    submit_s = np.array([when_eligible(job).submit_s for job in known])
    start_s = np.array([job.start_s for job in known], dtype=np.float64)
    work_s = np.array([job.duration_s for job in known], dtype=np.float64)
    ends = [job.end_s if job.end_s is not None else (job.start_s or 0.0) + (job.duration_s or 0.0) for job in known]
    waiting_s = np.maximum(0.0, start_s - submit_s)
    end_s = np.array(ends, dtype=np.float64)
    jct_s = np.maximum(waiting_s, end_s - submit_s)
    gpus = np.array([job.gpus for job in known], dtype=np.float64)
    told = {
        "jobs": len(known),
        "of": len(played),
        "jct_s": asdict(Distribution.of(jct_s)),
        "queueing_s": asdict(Distribution.of(waiting_s)),
        "bounded_slowdown": asdict(Distribution.of(bounded_slowdown(jct_s, work_s))),
        "jwtd_s": {
            bucket: {"jobs": count, **asdict(distribution)}
            for bucket, (count, distribution) in waiting_by_size(gpus, waiting_s).items()
        },
        "waiters": waiters(known, waiting_s),
        "waiting_cdf": waiting_cdf(gpus, waiting_s),
    }
    if not cluster_gpus:
        return told
    every_submit_s = np.array([when_eligible(job).submit_s for job in jobs if job.job_id in played])
    edges = shown_edges(every_submit_s, start_s, end_s)
    return told | {
        "start_s": edges[:-1].tolist(),
        "end_s": float(edges[-1]),
        "gar": (held(start_s, np.maximum(start_s, end_s), gpus, edges) / cluster_gpus).round(4).tolist(),
        "waiting_gpus": waiting_gpus(gpus, submit_s, submit_s + waiting_s, edges),
    }
