"""What the source of a job is worth to its prediction, on both generators of synthetic jobs; in order of time.

Run: python -m benchmarks.semantic_prediction [--jobs 1500] [--users 60] [--seeds 1,2] [--generator semantic]

All of it is synthetic. Every job is asked about when it is submitted, from jobs that had ended by then (a cluster
without a queue): once from user, name and GPUs alone ("metadata"), once with limit, command and what its source says as
well. Both times by the same predictor (`predictors.stacked`), trained on its schedule.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, SourceFacts
from benchmarks.prediction_baselines import in_time
from predictors.boosted_outcome import kind_of_end
from predictors.forecast import Forecast
from predictors.predictor import as_record
from predictors.stacked import StackedDurations
from schedmate.pipeline import Pipeline
from schedmate.workload import Generator, SemanticGenerator, Truth, WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.records import submission_of
from schedmate.workload.writer import write_workload
from schedmate.workload_independent import IndependentGenerator

GENERATORS = {"semantic": SemanticGenerator, "independent": IndependentGenerator}
KINDS = ("completed", "failed", "cancelled", "timeout")
Floats = NDArray[np.float64]


def read(generator: Generator[Any], root: Path) -> tuple[list[JobRecord], list[Truth]]:
    """The jobs as records with what their source says, and the truth that only the generator knows."""
    write_workload(generator, OutFolder(root, "semantic-prediction"))
    pipeline, known = Pipeline(MemoryHistoryStore()), dict[tuple[str, str, int, int], SourceFacts]()
    records, truths = [], []
    for job in generator.jobs():
        ask, truth = job.ask, job.truth
        submission = submission_of(ask, root)
        key = (ask.tree, ask.command, ask.gpus, ask.nodes)
        if key not in known:
            known[key] = pipeline.facts(submission)
        record = as_record(submission, known[key], ask.submit_s)
        records.append(
            replace(
                record,
                job_id=ask.job_id,
                start_s=ask.submit_s,
                duration_s=truth.duration_s,
                outcome=truth.outcome,
            )
        )
        truths.append(truth)
    return records, truths


def metadata(record: JobRecord) -> JobRecord:
    """The record with user, name and GPUs alone."""
    return replace(record, requested_s=None, command=None, fingerprint=None, facts={})


def first_time(records: Sequence[JobRecord]) -> NDArray[np.bool_]:
    """Whether no job of the user had ended when this one was submitted."""
    seen: set[str | None] = set()
    new = []
    for record, ended in in_time(records):
        seen.update(job.user for job in ended)
        new.append(record.user not in seen)
    return np.array(new)


def errors(forecasts: Sequence[Forecast], actual_s: Floats) -> tuple[Floats, Floats]:
    """(absolute error of the logarithm, absolute error in seconds) of each job."""
    point_s = np.array([forecast.point_s for forecast in forecasts])
    return np.abs(np.log(point_s / np.maximum(actual_s, 1.0))), np.abs(point_s - actual_s)


def row(name: str, forecasts: Sequence[Forecast], actual_s: Floats, new: NDArray[np.bool_]) -> str:
    """Median errors of all jobs and of first-time users, and the share within the 80 % interval."""
    logs, seconds = errors(forecasts, actual_s)
    bounds = np.array([forecast.interval_s(0.8) for forecast in forecasts])
    inside = np.mean((bounds[:, 0] <= actual_s) & (actual_s <= bounds[:, 1]))
    cells = [f"{np.exp(np.median(logs[part])):.2f} ({np.median(logs[part]):.3f}) | {np.median(seconds[part]):,.0f}"
             for part in (np.ones(len(new), dtype=bool), new)]  # fmt: skip
    return f"| {name} | {' | '.join(cells)} | {inside:.1%} |"


def brier_below_base(forecasts: Sequence[Forecast], records: Sequence[JobRecord]) -> tuple[int, float]:
    """(jobs, by how much the Brier score over all four ends is below that of always saying the base rate)."""
    asked = [(r, f.ending.outcome) for r, f in zip(records, forecasts, strict=True) if f.ending is not None]
    came = np.array([[kind_of_end(record) == kind for kind in KINDS] for record, _ in asked], dtype=float)
    told = np.array([[getattr(outcome, kind) for kind in KINDS] for _, outcome in asked])
    base = (came.mean(axis=0) * (1 - came.mean(axis=0))).sum()
    return len(asked), float(1 - ((told - came) ** 2).sum(axis=1).mean() / base)


def knowable(records: Sequence[JobRecord], truths: Sequence[Truth]) -> float:
    """The same of who knows why each job was submitted, whether its whole run exceeds its limit, and whether it runs
    out of GPU memory, with the true shares of those: more can hardly be known of how these jobs end."""
    whole_s = [truth.startup_s + truth.steps_planned * truth.step_s for truth in truths]
    keys = np.array([
        f"{t.kind} {w > (r.requested_s or np.inf)} {t.failure in ('cuda_oom', 'gpu_oom')}"
        for r, t, w in zip(records, truths, whole_s, strict=True)
    ])  # fmt: skip
    came = np.array([[truth.outcome == kind for kind in KINDS] for truth in truths], dtype=float)
    told = np.zeros_like(came)
    for key in np.unique(keys):
        told[keys == key] = came[keys == key].mean(axis=0)
    base = (came.mean(axis=0) * (1 - came.mean(axis=0))).sum()
    return float(1 - ((told - came) ** 2).sum(axis=1).mean() / base)


def tell(name: str, seed: int, jobs: int, users: int) -> None:
    """Print the table of one workload."""
    with tempfile.TemporaryDirectory() as folder:
        records, truths = read(GENERATORS[name](WorkloadSpec(seed=seed, jobs=jobs, users=users)), Path(folder) / "out")
    actual_s, new = np.array([record.duration_s or 0.0 for record in records]), first_time(records)
    print(f"\n{name}, seed {seed}: {len(records):,} synthetic jobs of {users} users, {new.sum()} by first-time users\n")
    print("| | median error: factor (log) | seconds | first-time users: factor (log) | seconds | within 80 % |")
    print("|---|---|---|---|---|---|")
    found = {}
    for what, asked in (("metadata", [metadata(record) for record in records]), ("with source", records)):
        found[what] = [forecast for forecast in StackedDurations().replay(asked) if forecast is not None]
        print(row(what, found[what], actual_s, new), flush=True)
    by_what = [errors(found[what], actual_s) for what in ("with source", "metadata")]
    for label, part in (("all", np.ones(len(new), dtype=bool)), ("first-time users", new)):
        logs, seconds = (np.median(by_what[0][i][part]) / np.median(by_what[1][i][part]) for i in (0, 1))
        print(f"{label}: with source over metadata {logs:.2f} of the logarithm, {seconds:.2f} of the seconds")
    count, below = brier_below_base(found["with source"], records)
    print(f"how they end ({count:,} jobs after the first training): Brier {below:.1%} below the base rate's; "
          f"knowing the generator's reasons {knowable(records, truths):.1%}")  # fmt: skip


def main() -> None:
    """Read the arguments, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_500)
    parser.add_argument("--users", type=int, default=60)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--generator", action="append", choices=list(GENERATORS), help="default: both")
    wanted = parser.parse_args()
    for name in wanted.generator or list(GENERATORS):
        for seed in map(int, wanted.seeds.split(",")):
            tell(name, seed, wanted.jobs, wanted.users)


if __name__ == "__main__":
    main()
