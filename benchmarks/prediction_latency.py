"""How long a prediction takes with a million ended jobs behind it, and what learning from them costs.

The jobs are made by rule (synthetic): users of very different activity, each with a few habits that drift, a launch
command, facts as they are kept of source, and peaks of memory. Timed are the trained model alone, and all of
``Predictor.predict`` from facts that are known: similar jobs, duration, outcome, memory and the reasons.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from analyzers.history import MemoryHistoryStore
from analyzers.types import Fact, JobRecord, SourceFacts, Submission
from predictors import Predictor
from predictors.stacked import StackedDurations

_USERS = 3_000
_CALIBRATED_JOBS = 10_000
_ASKED = 1_000


def made_jobs(count: int, seed: int = 0) -> Iterator[JobRecord]:
    """Jobs in order of submission, about one every 20 s."""
    rng = np.random.default_rng(seed)
    activity = rng.pareto(1.1, _USERS) + 0.01
    users = rng.choice(_USERS, count, p=activity / activity.sum())
    habit_s = np.exp(rng.normal(6.5, 1.8, (_USERS, 4)))
    habits = rng.integers(0, 4, count)
    noise = np.exp(rng.normal(0.0, 0.4, count))
    submits_s = np.cumsum(rng.exponential(20.0, count))
    waits_s = rng.exponential(600.0, count)
    ends = rng.choice(3, count, p=(0.7, 0.2, 0.1))
    widths, epochs = rng.choice((64, 128, 256), count), rng.integers(1, 30, count)
    for number in range(count):
        user, habit = int(users[number]), int(habits[number])
        ran_s = float(habit_s[user, habit] * noise[number] * (1.0 if ends[number] == 0 else 0.2))
        limit_s = float(3_600 * (1, 4, 12, 48)[habit])
        yield JobRecord(
            job_id=str(number),
            submit_s=float(submits_s[number]),
            duration_s=max(1.0, min(ran_s, limit_s)),
            gpus=(1, 2, 8, 16)[habit],
            start_s=float(submits_s[number] + waits_s[number]),
            user=f"u{user}",
            name=f"train-{habit}",
            requested_s=limit_s,
            outcome="completed" if ends[number] == 0 else "failed" if ends[number] == 1 else "cancelled",
            command=f"python train_{habit}.py --width {widths[number]}",
            facts={"framework": "pytorch", "epochs": int(epochs[number])},
            peak_gpu_memory_mib=float(2_000 * (1, 2, 4, 8)[habit] * noise[number]),
            peak_host_memory_mib=float(8_000 * noise[number]),
        )


def tell_latency(jobs: int) -> None:
    """Print what learning from ``jobs`` jobs took, and quantiles of a single prediction's time."""
    records = list(made_jobs(jobs))
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start_cpu_s, start_s = time.process_time(), time.perf_counter()
    model = StackedDurations()
    model.replay(records, calibrate_last=_CALIBRATED_JOBS)
    model.train()
    cpu_s, wall_s = time.process_time() - start_cpu_s, time.perf_counter() - start_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"learning from {jobs:,} made jobs: {cpu_s:.0f} s of CPU time, {wall_s:.0f} s on the clock")
    print(f"peak memory of the process: {peak_mib:,.0f} MiB, of which {before_mib:,.0f} MiB for the jobs themselves")
    asked = [
        replace(each, job_id=f"asked-{n}", duration_s=None, start_s=None) for n, each in enumerate(records[-_ASKED:])
    ]
    latest_s = model.latest_s  # before that the trained model would not be asked
    _tell_times("the model alone", asked, lambda each: model.ask(replace(each, submit_s=latest_s)))
    history = MemoryHistoryStore()
    history.add(records)
    predictor = Predictor(history, model)
    start_s = time.perf_counter()
    _whole(predictor, asked[0], latest_s)
    print(f"the first whole prediction, which takes the history in: {time.perf_counter() - start_s:.1f} s")
    _tell_times("all of it", asked, lambda each: _whole(predictor, each, latest_s))


def _whole(predictor: Predictor, record: JobRecord, now_s: float) -> None:
    asked = Submission(
        record.command or "", user=record.user, name=record.name, gpus=record.gpus, limit_s=record.requested_s,
        submit_s=now_s,
    )  # fmt: skip
    predictor.predict(asked, SourceFacts({name: Fact(value, 0.9) for name, value in record.facts.items()}))


def _tell_times(what: str, asked: Sequence[JobRecord], predict: Callable[[JobRecord], object]) -> None:
    took_ms, cpu_ms = [], []
    for record in asked:
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        predict(record)
        took_ms.append((time.perf_counter() - start_s) * 1e3)
        cpu_ms.append((time.process_time() - start_cpu_s) * 1e3)
    for clock, times in (("on the clock", took_ms), ("of CPU time", cpu_ms)):
        p50, p99 = np.percentile(times, (50, 99))
        print(f"one prediction, {what}, {clock}: median {p50:.1f} ms, p99 {p99:.1f} ms ({len(asked):,} predictions)")
