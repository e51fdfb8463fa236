"""Predictions on the first day of small busy sites, with nobody telling what runs and with starts told. Synthetic jobs.

Run: python -m benchmarks.small_sites [--generator semantic] [--seeds 21,22] [--jobs 250] [--users 8]

Jobs arrive faster than they end, on a cluster without a queue: each is asked about when it is submitted, starts then,
and is history from its end on. The same predictor that `schedmate predict` asks, from what the source says with the
limit ("source") and from user, name, GPUs and limit alone ("metadata"). *Error* is the median of the larger over the
smaller of what was told and what was so, *told/true* the median of that ratio, *inside* the share between the 10 and
90 % quantiles, *width* the median of the one over the other, *score* the mean interval score on the log scale: the
width and ten times what falls out (Gneiting and Raftery, JASA 2007), the smaller the better.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, Submission
from benchmarks.semantic_prediction import GENERATORS, read
from predictors.in_flight import InFlight
from predictors.pace import facts_of
from predictors.predictor import Predictor
from predictors.types import Quantiles
from schedmate.simulator.estimates import as_submitted
from schedmate.workload import WorkloadSpec

Floats = NDArray[np.float64]
_ENDS, _STARTS = 0, 1


def walk(records: Sequence[JobRecord], *, tell_starts: bool) -> list[Quantiles]:
    """What is said of each job, in order of submission, by who knows of the ends so far and, if told, of what runs."""
    starts, history = InFlight(), MemoryHistoryStore()
    predictor = Predictor(history, in_flight=starts)
    told: dict[int, Quantiles] = {}
    moments = [(record.submit_s, _STARTS, number) for number, record in enumerate(records)]
    moments += [(each.submit_s + (each.duration_s or 0.0), _ENDS, number) for number, each in enumerate(records)]
    for at_s, what, number in sorted(moments):
        record = records[number]
        if what == _ENDS:
            history.add([record])
            starts.ended(record.job_id, at_s)
            continue
        told[number] = predictor.predict(submission_of(record), facts_of(record)).duration_s
        if tell_starts:
            starts.started(as_submitted(record), at_s)
    return [told[number] for number in range(len(records))]


def submission_of(record: JobRecord) -> Submission:
    """The record as it was submitted."""
    return Submission(
        record.command or "", None, record.user, None, record.name, gpus=record.gpus, gpu_type=record.gpu_type,
        nodes=record.nodes, limit_s=record.requested_s, submit_s=record.submit_s,
    )  # fmt: skip


def cell(told: Sequence[Quantiles], truth_s: Floats, part: slice) -> str:
    """Error, told over true, the share inside, width and score, of some of the jobs."""
    off = np.log([each.p50 for each in told[part]]) - np.log(truth_s[part])
    low, high = np.log([(each.p10, each.p90) for each in told[part]]).T
    truth = np.log(truth_s[part])
    inside = np.mean((low <= truth) & (truth <= high))
    score = np.mean(high - low + 10.0 * (np.maximum(0.0, low - truth) + np.maximum(0.0, truth - high)))
    return (
        f"{np.exp(np.median(np.abs(off))):.2f}, {np.exp(np.median(off)):.2f}, {inside:.0%}, "
        f"x{np.exp(np.median(high - low)):.1f}, {score:.2f}"
    )


def tell(name: str, seed: int, jobs: int, users: int) -> None:
    """Print the rows of one workload."""
    with tempfile.TemporaryDirectory() as folder:
        records, _ = read(GENERATORS[name](WorkloadSpec(seed=seed, jobs=jobs, users=users)), Path(folder) / "out")
    truth_s = np.maximum(1.0, [record.duration_s or 0.0 for record in records])
    bare = [replace(record, command=None, fingerprint=None, facts={}) for record in records]
    for what, asked in (("source", records), ("metadata", bare)):
        for tells in (False, True):
            told = walk(asked, tell_starts=tells)
            cells = " | ".join(cell(told, truth_s, part) for part in (slice(50), slice(20, None), slice(None)))
            print(f"| {name} {seed} | {what} | {'yes' if tells else 'no'} | {cells} |", flush=True)


def main() -> None:
    """Read the arguments, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=250)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--seeds", default="21,22")
    parser.add_argument("--generator", action="append", choices=list(GENERATORS), help="default: both")
    wanted = parser.parse_args()
    print("| site | told | starts | first 50: error, told/true, inside, width, score | after the first 20 | all |")
    print("|---|---|---|---|---|---|")
    for name in wanted.generator or list(GENERATORS):
        for seed in map(int, wanted.seeds.split(",")):
            tell(name, seed, wanted.jobs, wanted.users)


if __name__ == "__main__":
    main()
