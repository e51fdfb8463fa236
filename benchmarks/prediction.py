"""How good the predictions are on a real trace, in order of time and without look-ahead.

Run: python -m benchmarks.prediction TRACE [--jobs N] [--similar 3000]
     python -m benchmarks.prediction --latency [--jobs 1000000]
For example on the KTH SP2 log of the Parallel Workloads Archive (real data, 1996-97; acknowledge Lars Malinowsky).

Jobs are asked about in order of submission. A job's record may be used from the moment it had ended in the trace (start
plus runtime; submission plus runtime where the trace has no start); before, only that it was submitted and started.
Whoever has fewer than 10 ended jobs at that moment is a new user, fewer than 100 a light one, others are heavy.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from benchmarks.prediction_baselines import boosted_on_metadata, in_time, last_two
from predictors import OnlineDurationPredictor, predict
from predictors.boosted_outcome import EARLY_S, kind_of_end
from predictors.forecast import Forecast
from predictors.stacked import HEAVY_USER_JOBS, NEW_USER_JOBS, StackedDurations
from schedmate.traces import open_trace, told_skips

Floats = NDArray[np.float64]
SHARES = (0.5, 0.8, 0.95)
_BINS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)


def experts_alone(records: Sequence[JobRecord]) -> Floats:
    """The predictor that replays use, in seconds."""
    predictor, guesses = OnlineDurationPredictor(), []
    for record, ended in in_time(records):
        for past in ended:
            predictor.observe(past)
        guesses.append(predictor.predict(replace(record, duration_s=None)))
    return np.array(guesses)


def from_history(records: Sequence[JobRecord], chosen: Sequence[int]) -> Floats:
    """What `schedmate predict` says of the chosen jobs without any source, in seconds."""
    history, guesses = MemoryHistoryStore(records), []
    for record in (records[number] for number in chosen):
        submission = Submission(
            command=record.command or "",
            user=record.user,
            tenant=record.tenant,
            name=record.name,
            gpus=record.gpus,
            limit_s=record.requested_s,
            submit_s=record.submit_s,
        )
        guesses.append(predict(submission, SourceFacts(), history).duration_s.p50)
    return np.array(guesses)


def error_row(name: str, guess_s: Floats, actual_s: Floats) -> str:
    """Mean and median absolute error, and the mean on each third, in seconds."""
    error_s = np.abs(guess_s - actual_s)
    thirds = " / ".join(f"{part.mean():,.0f}" for part in np.array_split(error_s, 3))
    return f"| {name} | {len(actual_s):,} | {error_s.mean():,.0f} | {np.median(error_s):,.0f} | {thirds} |"


def coverage_rows(forecasts: Sequence[Forecast], actual_s: Floats, classes: Sequence[str]) -> list[str]:
    """The share of jobs (%) within their 50, 80 and 95 % intervals: all, by third of the trace, by class of user."""
    inside = {share: _inside(forecasts, actual_s, share) for share in SHARES}
    everyone = np.arange(len(actual_s))
    parts = {"all jobs": everyone}
    parts |= {f"third {i} of the trace": part for i, part in enumerate(np.array_split(everyone, 3), start=1)}
    named = np.asarray(classes)
    parts |= {f"{name} users": np.flatnonzero(named == name) for name in ("new", "light", "heavy")}
    return [
        f"| {name} | {len(part):,} | " + " | ".join(f"{inside[share][part].mean():.1%}" for share in SHARES) + " |"
        for name, part in parts.items()
        if len(part)
    ]


def _inside(forecasts: Sequence[Forecast], actual_s: Floats, share: float) -> NDArray[np.bool_]:
    bounds = np.array([forecast.interval_s(share) for forecast in forecasts])
    hair = 1e-9  # a job killed at a limit that is the bound is inside
    return (bounds[:, 0] <= actual_s * (1 + hair)) & (actual_s <= bounds[:, 1] * (1 + hair))


def user_classes(records: Sequence[JobRecord]) -> list[str]:
    """new, light or heavy, by the jobs of the user that had ended."""
    ended_of: dict[str | None, int] = {}
    classes = []
    for record, ended in in_time(records):
        for job in ended:
            ended_of[job.user] = ended_of.get(job.user, 0) + 1
        jobs = ended_of.get(record.user, 0)
        classes.append("new" if jobs < NEW_USER_JOBS else "light" if jobs < HEAVY_USER_JOBS else "heavy")
    return classes


def outcome_lines(records: Sequence[JobRecord], forecasts: Sequence[Forecast]) -> list[str]:
    """Brier score of every way to end against the trace's own base rate, and how reliable "completed" is."""
    asked = [(r, f.ending) for r, f in zip(records, forecasts, strict=True) if f.ending and r.outcome]
    if not asked:
        return ["Outcomes: n/a (too few jobs, or the trace names no outcome or one only)."]
    kinds = np.array([kind_of_end(record) for record, _ in asked])
    early = np.array([k == "failed" and (r.duration_s or 0) <= EARLY_S for k, (r, _) in zip(kinds, asked, strict=True)])
    told = {"completed": np.array([ending.outcome.completed for _, ending in asked])}
    for name in ("failed", "cancelled", "timeout"):
        told[name] = np.array([getattr(ending.outcome, name) for _, ending in asked])
    came = {name: kinds == name for name in told} | {f"failed within {EARLY_S:.0f} s": early}
    told[f"failed within {EARLY_S:.0f} s"] = np.array([ending.fails_early for _, ending in asked])
    rows = [
        f"Outcomes of {len(asked):,} jobs.\n",
        "| ends | share | Brier | base rate's | below it |",
        "|---|---|---|---|---|",
    ]
    for name, truth in came.items():
        if truth.any():
            score, base = float(np.mean((told[name] - truth) ** 2)), float(truth.mean() * (1 - truth.mean()))
            rows.append(f"| {name} | {truth.mean():.1%} | {score:.4f} | {base:.4f} | {1 - score / base:.1%} |")
    return [*rows, "", *_reliability(told["completed"], came["completed"])]


def _reliability(told: Floats, came: NDArray[np.bool_]) -> list[str]:
    rows = ['| told chance of "completed" | jobs | mean told | came true |', "|---|---|---|---|"]
    for low, high in pairwise(_BINS):
        part = (told >= low) & ((told < high) if high < 1 else (told <= high))
        if part.any():
            rows.append(
                f"| {low:.2f}-{high:.2f} | {part.sum():,} | {told[part].mean():.3f} | {came[part].mean():.3f} |"
            )
    return rows


def tell(path: Path, jobs: int | None, similar: int) -> None:
    """Print all tables of one trace."""
    stream, notes = open_trace(path)
    records = sorted(stream, key=lambda record: record.submit_s)[:jobs]
    print(*told_skips(path, notes), sep="\n")
    actual_s = np.array([record.duration_s or 0.0 for record in records])
    start = time.process_time()
    forecasts = [f for f in StackedDurations().replay(records) if f is not None]
    took_s = time.process_time() - start

    print(f"\n{path.name}: absolute errors in seconds, time-ordered, no look-ahead\n")
    print("| predictor | jobs | mean | median | mean by third of the trace |\n|---|---|---|---|---|")
    if all(record.requested_s for record in records):
        print(error_row("requested time", np.array([record.requested_s or 0.0 for record in records]), actual_s))
    if any(record.user is not None for record in records):
        print(error_row("user's last two", last_two(records), actual_s))
    for of_request, name in ((False, "of seconds"), (True, "of the share of the request")):
        guess_s = boosted_on_metadata(records, of_request=of_request)
        if guess_s is not None:
            print(error_row(f"gradient boosting, L1, metadata, {name}", guess_s, actual_s))
    print(error_row("experts alone (replays)", experts_alone(records), actual_s))
    print(error_row("stacked", np.array([forecast.point_s for forecast in forecasts]), actual_s))
    if similar:
        chosen = sorted(random.Random(0).sample(range(len(records)), min(similar, len(records))))
        print(error_row("similar jobs (predict), sampled", from_history(records, chosen), actual_s[chosen]))
    print("\nStacked: jobs within their intervals\n\n| | jobs | 50 % | 80 % | 95 % |\n|---|---|---|---|---|")
    print(*coverage_rows(forecasts, actual_s, user_classes(records)), sep="\n")
    print("", *outcome_lines(records, forecasts), sep="\n")
    print(f"\nStacked: {took_s:.0f} s of CPU time for the whole replay, trainings included.")


def main() -> None:
    """Read the arguments, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--jobs", type=int, help="only the first N jobs; with --latency how many to make")
    parser.add_argument("--similar", type=int, default=0, help="jobs to ask `predict` about as well (slow; default 0)")
    parser.add_argument("--latency", action="store_true", help="time of a prediction with a long history")
    arguments = parser.parse_args()
    if arguments.latency:
        from benchmarks.prediction_latency import tell_latency

        tell_latency(arguments.jobs or 1_000_000)
    elif arguments.trace is None:
        parser.error("name a trace, or --latency")
    else:
        tell(arguments.trace, arguments.jobs, arguments.similar)


if __name__ == "__main__":
    main()
