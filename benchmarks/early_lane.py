"""What the early-failure lane is worth, and what wrong claims cost in it.

    python -m benchmarks.early_lane [--generator semantic] [--seeds 4] [--jobs 600] [--load 1.0] [--keep FOLDER]
    python -m benchmarks.early_lane --trace DIR/kth_sp2.swf.gz [--seeds 4] [--jobs 8000]

Jobs of the workload generators on 128 GPUs, all synthetic, or the first ones of KTH SP2 (real, from the Parallel
Workloads Archive; acknowledge Lars Malinowsky) on its 100 processors, under ``core`` and ``core+early``. Any job may be
evicted, which on KTH SP2 none could; none saves anything, and starting again takes a minute. What is known of runtimes
is either the *limits* of the users alone or *predicted* times (median and 90 % quantile), in every row the same. Of
failing within five minutes is said:

- *off*: there is no lane;
- *perfect*: the truth;
- *predicted*: what the pipeline says, learning from the jobs that have ended by then in that very replay;
- *shuffled*: the same chances, dealt to other jobs;
- *all*: that every job will; *reversed*: that just those will which do not.

With ``--keep FOLDER`` predictions rest on source trees and launch commands, as in benchmarks/semantic_scheduling.py
(reading takes 100 s a workload; what is read is kept there); without it on user, name, GPUs and limit. Those of KTH
SP2 are of `predictors.stacked`, made in the order of the trace from jobs that had ended in it, not in the replay, by
then; its seeds move each submission by up to 30 s.

Columns: mean queueing of the jobs that fail early, mean JCT of the others and of all, as a multiple of *off* (geometric
mean over seeds, in brackets the least and the most of them); how many probes were put back in a workload, and the share
of all GPU time that was lost by it. A job that is put back has started, so the others are told by JCT.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from analyzers.types import JobRecord, SourceFacts
from benchmarks.scheduling import PROCESSORS
from benchmarks.semantic_scheduling import CLUSTER, GENERATORS, Case, estimates, kept
from predictors.boosted_outcome import kind_of_end
from predictors.stacked import StackedDurations
from schedmate.scheduler import POLICIES, ClusterSpec, Hints, Job
from schedmate.scheduler.early_lane import Early
from schedmate.simulator import Estimates, Result, shaken, simulate
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.estimates import Around, Restarts
from schedmate.simulator.load import at_load
from schedmate.traces import open_trace
from schedmate.workload import WorkloadSpec
from schedmate.workload.records import record_of, submission_of

#: A job fails early within this.
EARLY_S = 300.0
TIMES = ("limits", "predicted")
SAID = ("off", "perfect", "predicted", "shuffled", "all", "reversed")
NOTHING_SAVED = Conditions(restarts=Restarts(checkpoint_s=None, restart_s=60.0))

Chance = Callable[[str, float], float]


def unread(name: str, seed: int, jobs: int) -> Case:
    """A workload of which nobody has read the sources."""
    made = list(GENERATORS[name](WorkloadSpec(seed=seed, jobs=jobs)).jobs())
    submissions = {job.ask.job_id: replace(submission_of(job.ask, Path()), workdir=None) for job in made}
    truth = {job.ask.job_id: job.truth for job in made}
    nothing = dict.fromkeys(submissions, SourceFacts())
    return Case([record_of(job.ask, job.truth) for job in made], submissions, nothing, truth)


def fail_early(case: Case) -> frozenset[str]:
    """The jobs that do."""
    return frozenset(
        record.job_id
        for record in case.records
        if case.truth[record.job_id].outcome == "failed" and case.truth[record.job_id].duration_s <= EARLY_S
    )


class Saying(Around):
    """Other estimates, with another word about failing early; ``said`` keeps it by job. ``times`` is one of `TIMES`."""

    def __init__(self, estimates: Estimates, times: str, chance: Chance) -> None:
        super().__init__(estimates)
        self.learns = True
        self._times, self._chance = times, chance
        self.name = f"{times} times"
        self.said: dict[str, float] = {}

    def job(self, record: JobRecord) -> Job:
        """The job as the other estimates have it, or without their times."""
        job = self._estimates.job(record)
        predicted = 0.0 if job.hints is None else job.hints.fails_early or 0.0
        said = self.said[record.job_id] = self._chance(record.job_id, predicted)
        if self._times == "limits" or job.hints is None:
            hints = Hints(fails_early=said, early_s=EARLY_S)
            return replace(job, estimate_s=record.requested_s, hints=hints)
        return replace(job, hints=replace(job.hints, fails_early=said, early_s=EARLY_S))


class Known:
    """Estimates that were made before, by job."""

    learns = False
    name = "known"

    def __init__(self, hints: Mapping[str, Hints]) -> None:
        self._hints = hints

    def job(self, record: JobRecord) -> Job:
        """The job and what is known of it."""
        hints = self._hints[record.job_id]
        return Job(record.job_id, record.gpus, record.submit_s, hints.expected_s, record.requested_s, hints=hints)

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


def forecast_hints(records: Sequence[JobRecord]) -> dict[str, Hints]:
    """What the stacked predictor says of each job of a trace when it is submitted there."""
    found = {}
    for record, forecast in zip(records, StackedDurations().replay(records), strict=True):
        if forecast is None:
            found[record.job_id] = Hints()
            continue
        middle_s, high_s = forecast.quantile_s(0.5), forecast.quantile_s(0.9)
        early = None if forecast.ending is None else min(1.0, forecast.ending.fails_early)
        found[record.job_id] = Hints(middle_s, max(middle_s, high_s), "stacked", fails_early=early)
    return found


def chances(said: str, early: frozenset[str], predicted: dict[str, float], seed: int) -> Chance:
    """What is said of a job and the chance predicted of it; ``predicted``: those of an earlier replay of the same jobs,
    which are dealt out again where they are shuffled."""
    if said in ("off", "predicted"):
        return lambda _, chance: chance
    if said == "shuffled":
        dealt = list(predicted.values())
        Random(seed).shuffle(dealt)
        by_job = dict(zip(predicted, dealt, strict=True))
        return lambda job_id, _: by_job[job_id]
    if said == "all":
        return lambda *_: 1.0
    return lambda job_id, _: float((job_id in early) is (said == "perfect"))


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in order, which of them fail early, where they run, and fresh estimates for a replay."""

    records: Sequence[JobRecord]
    early: frozenset[str]
    cluster: ClusterSpec
    estimates: Callable[[], Estimates]


@dataclass(frozen=True, slots=True)
class Row:
    """One replay. Seconds; ``lost`` is a share of the GPU time that was worked."""

    early_wait_s: float
    others_s: float
    jct_s: float
    put_back: int
    lost: float


def row(result: Result, early: frozenset[str]) -> Row:
    """What counts of one replay."""
    ours: NDArray[np.bool_] = np.array([job_id in early for job_id in result.job_ids])
    worked = float((result.runtime_s * result.gpus).sum())
    return Row(
        float(result.waiting_s[ours].mean()),
        float(result.jct_s[~ours].mean()),
        float(result.jct_s.mean()),
        int(result.evictions),
        float(result.lost_gpu_s) / worked,
    )


def of_case(case: Case, read: bool, load: float) -> Workload:
    """One generated workload at one load (GPU time asked for over GPU time offered)."""
    records, way = at_load(case.records, load / case.load), "source" if read else "metadata"
    return Workload(records, fail_early(case), CLUSTER, lambda: estimates(case, records, way))


def of_trace(records: Sequence[JobRecord], hints: Mapping[str, Hints], seed: int) -> Workload:
    """The jobs of KTH SP2, moved a little."""
    ours = (each for each in records if kind_of_end(each) == "failed" and (each.duration_s or 0.0) <= EARLY_S)
    early, cluster = frozenset(each.job_id for each in ours), ClusterSpec.uniform(PROCESSORS, 1)
    return Workload(shaken(records, seed), early, cluster, lambda: Known(hints))


def rows(workload: Workload, times: str, seed: int, which: Sequence[str], rules: Early) -> Iterator[tuple[str, Row]]:
    """The rows of one workload; ``which`` of `SAID`, the first of which comes in any case."""
    predicted: dict[str, float] = {}
    for said in (said for said in SAID if said == SAID[0] or said in which):
        saying = Saying(workload.estimates(), times, chances(said, workload.early, predicted, seed))
        policy = POLICIES["core"] if said == "off" else POLICIES["core"].with_early(rules)
        result = simulate(workload.records, workload.cluster, policy, saying, conditions=NOTHING_SAVED)
        predicted = saying.said if said == "off" else predicted
        yield said, row(result, workload.early)


def told(times: str, said: str, found: Sequence[Row], off: Sequence[Row]) -> str:
    """One line of the table."""
    cells = []
    for name in ("early_wait_s", "others_s", "jct_s"):
        pairs = [(getattr(one, name), getattr(other, name)) for one, other in zip(found, off, strict=True)]
        ratios = [one / other for one, other in pairs if other > 0 and one > 0]
        mean = math.exp(fmean(math.log(ratio) for ratio in ratios)) if ratios else math.nan
        cells.append(f"{mean:>6.3f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else f"{'-':>18}")
    put_back, lost = fmean(each.put_back for each in found), fmean(each.lost for each in found)
    return f"{times:<10} {said:<10} " + " ".join(f"{cell:>18}" for cell in cells) + f" {put_back:>8.1f} {lost:>7.2%}"


def main(words: Sequence[str] | None = None) -> None:
    """Print a table a generator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", choices=tuple(GENERATORS), action="append", help="default: both")
    parser.add_argument("--trace", type=Path, help="kth_sp2.swf.gz, in place of the generators")
    parser.add_argument("--times", choices=TIMES, action="append", help="default: both")
    parser.add_argument("--said", choices=SAID, action="append", help="rows beside *off*; default: all")
    parser.add_argument("--least", type=float, default=Early().least, help="chance from which on a job is tried")
    parser.add_argument("--seeds", type=int, default=4, help="how many (default 4)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=600, help="jobs of a workload (default 600)")
    parser.add_argument("--load", type=float, default=1.0, help="GPU time asked for over offered (default 1.0)")
    parser.add_argument("--keep", type=Path, help="read sources, and keep what was read in this folder")
    asked = parser.parse_args(words)
    for name, workloads in _workloads(asked):
        found: dict[tuple[str, str], list[Row]] = {}
        for seed, workload in workloads:
            for times in asked.times or TIMES:
                for said, each in rows(workload, times, seed, asked.said or SAID, Early(least=asked.least)):
                    found.setdefault((times, said), []).append(each)
                    print(f"  {name} seed {seed}: {times}, {said} {each}", file=sys.stderr, flush=True)
        print("\n".join(table(name, found)), flush=True)


def _workloads(asked: argparse.Namespace) -> Iterator[tuple[str, Iterator[tuple[int, Workload]]]]:
    """Name of a kind of workload, and seed and workload of each of that kind."""
    seeds = range(asked.first, asked.first + asked.seeds)
    if asked.trace is not None:
        records = sorted(open_trace(asked.trace)[0], key=lambda record: record.submit_s)[: asked.jobs]
        hints = forecast_hints(records)
        yield asked.trace.name, ((seed, of_trace(records, hints, seed)) for seed in seeds)
        return
    for name in asked.generator or tuple(GENERATORS):
        read = asked.keep is not None
        cases = (
            (seed, kept(name, seed, asked.jobs, asked.keep) if read else unread(name, seed, asked.jobs))
            for seed in seeds
        )
        yield name, ((seed, of_case(case, read, asked.load)) for seed, case in cases)


def table(name: str, found: Mapping[tuple[str, str], Sequence[Row]]) -> Iterator[str]:
    """The lines of one table."""
    heads = ("early: queueing", "others: JCT", "all: JCT")
    yield f"{name}, {max(map(len, found.values()))} workloads"
    yield f"{'times':<10} {'said':<10} " + " ".join(f"{head:>18}" for head in heads) + " put back    lost"
    for (times, said), each in found.items():
        yield told(times, said, each, found[times, "off"])
    for times in dict.fromkeys(times for times, _ in found):
        off = found[times, "off"]
        waits, others, jcts = (
            fmean(getattr(each, what) for each in off) for what in ("early_wait_s", "others_s", "jct_s")
        )
        yield f"{times}, no lane: queueing of early failures {waits:,.0f} s, JCT {others:,.0f} s, all {jcts:,.0f} s"


if __name__ == "__main__":
    main()
