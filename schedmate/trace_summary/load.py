"""GPUs in use over time, from the starts and ends of a trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedmate.trace_summary.collect import Collected, Floats

POINTS = 240


@dataclass(frozen=True, slots=True)
class Load:
    """Mean GPUs in each of equal stretches from ``begin_s`` to ``end_s``.

    ``recorded``: from recorded starts. Otherwise every job is drawn as if it had started when it was submitted: what
    was asked for, not what was used. ``mean`` times the time from begin to end is the GPU time that jobs held.
    """

    begin_s: float
    end_s: float
    gpus: Floats
    mean: float
    peak: float
    recorded: bool

    @property
    def step_s(self) -> float:
        """Length of a stretch."""
        return (self.end_s - self.begin_s) / max(1, self.gpus.size)


def held_s(jobs: Collected) -> Floats:
    """For how long each job held its GPUs: its runtime; of one that still ran, until the trace's last moment; 0 for one
    that never ran. GPU hours, wherever a trace is described, are GPUs (parts of one count as such) times this."""
    start_s, ran_s = jobs.times["start_s"], jobs.times["duration_s"]
    running = np.isfinite(start_s) & ~np.isfinite(ran_s) & ~np.isfinite(jobs.times["end_s"])
    if not running.any():
        return np.nan_to_num(ran_s)
    moments = np.concatenate([jobs.times[name] for name in ("submit_s", "start_s", "end_s")])
    last_s = float(np.nanmax(np.append(moments, _begin_s(jobs) + ran_s)))
    return np.where(running, last_s - start_s, np.nan_to_num(ran_s))


def _begin_s(jobs: Collected) -> Floats:
    """The recorded start; where there is none the submission."""
    start_s = jobs.times["start_s"]
    return np.where(np.isfinite(start_s), start_s, jobs.times["submit_s"])


def load_of(jobs: Collected) -> Load | None:
    """The load of all jobs that ran, None where none did. One that still ran counts to the trace's last moment."""
    start_s = jobs.times["start_s"]
    recorded = bool(np.isfinite(start_s).any())
    begin_s = _begin_s(jobs)
    end_s = begin_s + held_s(jobs)
    runs = np.isfinite(begin_s) & np.isfinite(end_s) & (end_s > begin_s) & (jobs.gpus > 0)
    if not runs.any():
        return None
    begin_s, end_s, gpus = begin_s[runs], end_s[runs], jobs.gpus[runs]
    times = np.concatenate([begin_s, end_s])
    change = np.concatenate([gpus, -gpus])
    order = np.argsort(times, kind="stable")
    times, used = times[order], np.cumsum(change[order])
    changes = np.append(np.diff(times) > 0, True)  # at one moment only the last value holds
    times, used = times[changes], np.maximum(used[changes], 0.0)
    area = np.concatenate([[0.0], np.cumsum(used[:-1] * np.diff(times))])
    edges = np.linspace(times[0], times[-1], POINTS + 1)
    means = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return Load(
        float(times[0]), float(times[-1]), means, float(area[-1] / (times[-1] - times[0])), float(used.max()), recorded
    )
