"""How good the predictions are on a real trace, in order of time and without look-ahead.

Run: python benchmarks/prediction.py TRACE [--sample 3000]
For example on the KTH SP2 log of the Parallel Workloads Archive (real data, 1996-97; acknowledge Lars Malinowsky).

A job's record may be used from the moment it had ended in the trace (start plus runtime; submission plus runtime where
the trace has no start). Nothing else of the future is visible. "Last two" is the mean of the user's last two runtimes
(Tsafrir, Etsion and Feitelson, IEEE TPDS 2007). Both baselines are cut at the requested time, as the predictions are.
"""

from __future__ import annotations

import argparse
import heapq
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from analyzers.history import MemoryHistoryStore
from analyzers.history.index import end_s
from analyzers.types import JobRecord, SourceFacts, Submission
from predictors import OnlineDurationPredictor, predict
from predictors.types import OutcomeProbabilities
from schedmate.traces import open_trace, told_skips

OUTCOMES = ("completed", "failed", "cancelled", "timeout")
_NO_REQUEST_S = 700.0  # what a baseline says of a job without request and without past


@dataclass
class Result:
    """Guesses in seconds and whether the 80 % interval and the 99 % quantile held, in order of submission."""

    actual_s: list[float]
    guess_s: list[float]
    inside_80: list[bool]
    below_99: list[bool]


def in_time(records: Sequence[JobRecord]) -> Iterator[tuple[JobRecord, list[JobRecord]]]:
    """Each job in order of submission with the jobs that ended since the one before."""
    running: list[tuple[float, int, JobRecord]] = []
    for number, record in enumerate(records):
        ended = []
        while running and running[0][0] <= record.submit_s:
            ended.append(heapq.heappop(running)[2])
        yield record, ended
        heapq.heappush(running, (end_s(record), number, record))


def online(records: Sequence[JobRecord]) -> Result:
    """The predictor that replays use."""
    predictor, result = OnlineDurationPredictor(), Result([], [], [], [])
    for record, ended in in_time(records):
        for past in ended:
            predictor.observe(past)
        asked = replace(record, duration_s=None)
        quantiles = predictor.quantiles(asked)
        actual_s = record.duration_s or 0.0
        result.actual_s.append(actual_s)
        result.guess_s.append(predictor.predict(asked))
        result.inside_80.append(quantiles.p10 <= actual_s <= quantiles.p90)
        result.below_99.append(actual_s <= quantiles.p99)
    return result


def last_two(records: Sequence[JobRecord]) -> list[float]:
    """The mean of the user's last two runtimes, the request where there are none."""
    past: dict[str | None, list[float]] = defaultdict(list)
    guesses = []
    for record, ended in in_time(records):
        for job in ended:
            past[job.user].append(job.duration_s or 0.0)
        seen = past[record.user][-2:]
        request_s = record.requested_s or _NO_REQUEST_S
        guess_s = sum(seen) / len(seen) if seen else request_s
        guesses.append(min(guess_s, record.requested_s) if record.requested_s else guess_s)
    return guesses


def from_history(
    records: Sequence[JobRecord], chosen: Sequence[int]
) -> tuple[Result, list[OutcomeProbabilities], float]:
    """What `schedmate predict` says of the chosen jobs without any source; also the 99 % latency in ms."""
    history, result, outcomes, took_s = MemoryHistoryStore(records), Result([], [], [], []), [], []
    for number in chosen:
        record = records[number]
        submission = Submission(
            command=record.command or "",
            user=record.user,
            tenant=record.tenant,
            name=record.name,
            gpus=record.gpus,
            limit_s=record.requested_s,
            submit_s=record.submit_s,
        )
        start = time.perf_counter()
        prediction = predict(submission, SourceFacts(), history)
        took_s.append(time.perf_counter() - start)
        actual_s, quantiles = record.duration_s or 0.0, prediction.duration_s
        result.actual_s.append(actual_s)
        result.guess_s.append(quantiles.p50)
        result.inside_80.append(quantiles.p10 <= actual_s <= quantiles.p90)
        result.below_99.append(actual_s <= quantiles.p99)
        outcomes.append(prediction.outcome)
    return result, outcomes, float(np.percentile(took_s, 99) * 1e3)


def row(name: str, guess_s: Sequence[float], actual_s: Sequence[float], result: Result | None = None) -> str:
    """One line of the table."""
    error_s = np.abs(np.asarray(guess_s) - np.asarray(actual_s))
    text = f"| {name:<42} | {len(actual_s):>6,} | {np.median(error_s):>8,.0f} | {error_s.mean():>8,.0f} |"
    if result is None:
        return f"{text} {'':>9} | {'':>17} | {'':>9} |"
    inside = np.asarray(result.inside_80, dtype=float)
    thirds = " / ".join(f"{part.mean() * 100:.0f}" for part in np.array_split(inside, 3))
    return f"{text} {inside.mean() * 100:>7.1f} % | {thirds:>17} | {np.mean(result.below_99) * 100:>7.1f} % |"


def outcome_lines(records: Sequence[JobRecord], predicted: Sequence[OutcomeProbabilities]) -> list[str]:
    """Brier score of "completes" against always saying the trace's own base rate."""
    known = [(r.outcome, p) for r, p in zip(records, predicted, strict=True) if r.outcome is not None]
    if not known:
        return ["outcomes: the trace has none (n/a)"]
    completed = np.array([outcome == "completed" for outcome, _ in known], dtype=float)
    said = np.array([p.completed for _, p in known])
    rate = completed.mean()
    return [
        f"outcome 'completed': Brier {np.mean((said - completed) ** 2):.4f}, "
        f"always saying the base rate of {rate:.1%}: {rate * (1 - rate):.4f}"
    ]


def main() -> None:
    """Read a trace, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--sample", type=int, default=3_000, help="jobs to ask `predict` about (default 3000)")
    arguments = parser.parse_args()
    stream, notes = open_trace(arguments.trace)
    records = sorted(stream, key=lambda record: record.submit_s)
    print(*told_skips(arguments.trace, notes), sep="\n")
    chosen = sorted(random.Random(0).sample(range(len(records)), min(arguments.sample, len(records))))
    asked = [records[number] for number in chosen]

    start = time.perf_counter()
    live = online(records)
    each_us = (time.perf_counter() - start) / len(records) * 1e6
    stored, outcomes, latency_ms = from_history(records, chosen)
    requests = [record.requested_s for record in records]

    print(f"\n{arguments.trace.name}: errors in seconds, time-ordered, no look-ahead\n")
    print(f"| {'predictor':<42} |   jobs |   median |     mean | in 80 % i | by third of trace | below p99 |")
    print(f"|{'-' * 44}|--------|----------|----------|-----------|-------------------|-----------|")
    if all(request is not None for request in requests):
        print(row("requested time", [request or 0.0 for request in requests], live.actual_s))
    if any(record.user is not None for record in records):
        print(row("user's last two", last_two(records), live.actual_s))
    print(row("online predictor (simulate)", live.guess_s, live.actual_s, live))
    print(row("similar jobs and priors (predict), sampled", stored.guess_s, stored.actual_s, stored))
    print(row("online predictor on that sample", [live.guess_s[i] for i in chosen], stored.actual_s))
    print()
    print(*outcome_lines(asked, outcomes), sep="\n")
    print(f"online predictor: {each_us:.0f} us a job (predict, quantiles, observe); predict: p99 {latency_ms:.1f} ms")


if __name__ == "__main__":
    main()
