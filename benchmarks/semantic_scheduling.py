"""What hints from source and history are worth to the same scheduler, on 128 GPUs. All jobs are synthetic.

    python -m benchmarks.semantic_scheduling [--generator semantic] [--seeds 10] [--jobs 1000] [--curve] [--plain]
        [--keep FOLDER] [--out FILE] [--svg FILE]

Each workload is read, predicted and replayed through the same code that users run. Arrivals are made faster or slower
until the core without hints (it knows the users' limits) has a mean queueing of three mean runtimes; at that load the
core is told

- *no hints*: the limits alone;
- *metadata*: predictions from user, tenant, name, GPUs and limit, and the history of ended jobs by these;
- *source*: the same with the source tree and the launch command read, and the history by what they say;
- *whole runs*: how long each job runs if it does not break off (within its limit), to the second: as much as the best
  reader of source could know;
- *oracle*: the true runtimes.

Predictions learn from nothing but the jobs that have ended by then in that very replay. *Evicting* is the same once
more on a cluster where any job may be evicted and goes on from a checkpoint (every ten minutes, two minutes to start
again), with priority classes by expected size: by the limit where there are no hints; ``--plain`` leaves it out.
``--curve`` prints loads from 0.6 to 1.1 (GPU time asked for over GPU time offered while jobs arrive) in place of that
one load, ``--svg`` draws them. ``--out`` keeps what was measured, a line a load of a seed; what is there already is not
measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, geometric_mean, stdev
from typing import Any

from analyzers.history import MemoryHistoryStore
from analyzers.types import JobRecord, SourceFacts, Submission
from benchmarks.semantic_picture import svg
from prompts.errors import UserError
from schedmate.demo.history import WalkedHints
from schedmate.pipeline import Pipeline
from schedmate.scheduler import ClusterSpec, Hints, Job
from schedmate.scheduler.policies import Policy
from schedmate.simulator import Estimates, Perfect, Requested, Result, simulate
from schedmate.simulator.conditions import Conditions
from schedmate.simulator.estimates import Restarts
from schedmate.simulator.estimates import told as told_by
from schedmate.simulator.load import at_load
from schedmate.workload import Generator, SemanticGenerator, Truth, WorkloadSpec
from schedmate.workload.folder import OutFolder
from schedmate.workload.records import record_of, submission_of
from schedmate.workload.writer import write_workload
from schedmate.workload_independent import IndependentGenerator

GENERATORS: Mapping[str, Callable[[WorkloadSpec], Generator[Any]]] = {
    "semantic": SemanticGenerator,
    "independent": IndependentGenerator,
}
CLUSTER = ClusterSpec.uniform(16, 8)
GPUS = 128
POLICY = "core"
#: Mean queueing over mean runtime of the core without hints.
WANTED_QUEUE = 3.0
#: No cluster is asked for so many times what it has.
MOST_LOAD = 4.0
LOADS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
EVICTING = Conditions(restarts=Restarts(), size_classes=True)
WHOLE_RUNS = "whole runs"
KNOWS = ("no hints", "metadata", "source", WHOLE_RUNS, "oracle")


@dataclass(frozen=True)
class Case:
    """One generated workload, its sources read. ``truth`` is for the replay, which must know when jobs end."""

    records: list[JobRecord]
    submissions: dict[str, Submission]
    facts: dict[str, SourceFacts]
    truth: dict[str, Truth]

    @property
    def load(self) -> float:
        """As `load_of` its records."""
        return load_of(self.records)


def load_of(records: Sequence[JobRecord]) -> float:
    """GPU time asked for over GPU time offered from the first to the last submission."""
    asked = sum(record.gpus * (record.duration_s or 0.0) for record in records)
    return asked / (GPUS * (records[-1].submit_s - records[0].submit_s))


def make(generator: Generator[Any]) -> Case:
    """Write the workload to a scratch folder and read every job's source."""
    pipeline = Pipeline(MemoryHistoryStore())
    with tempfile.TemporaryDirectory(prefix="schedmate-semantic-") as scratch:
        write_workload(generator, OutFolder(Path(scratch) / "out", "semantic-scheduling"))
        jobs = list(generator.jobs())
        submissions = {job.ask.job_id: submission_of(job.ask, Path(scratch) / "out") for job in jobs}
        facts: dict[str, SourceFacts] = {}
        known: dict[tuple[str, str, int, int], SourceFacts] = {}
        for job in jobs:
            key = (job.ask.tree, job.ask.command, job.ask.gpus, job.ask.nodes)
            if key not in known:
                known[key] = pipeline.facts(submissions[job.ask.job_id])
            facts[job.ask.job_id] = known[key]
    truth = {job.ask.job_id: job.truth for job in jobs}
    return Case([record_of(job.ask, job.truth) for job in jobs], submissions, facts, truth)


def kept(name: str, seed: int, jobs: int, folder: Path | None) -> Case:
    """The case, from the folder where an earlier run of this program left it, if any."""
    path = None if folder is None else folder / f"{name}-{seed}-{jobs}.pickle"
    if path is not None and path.exists():
        with path.open("rb") as stream:
            case: Case = pickle.load(stream)  # this program's own file
            return case
    case = make(GENERATORS[name](WorkloadSpec(seed=seed, jobs=jobs)))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            pickle.dump(case, stream)
    return case


class WholeRuns:
    """Knows how long every job runs that does not break off, and not which do."""

    name = WHOLE_RUNS
    learns = False

    def __init__(self, truth: Mapping[str, Truth]) -> None:
        self._truth = truth

    def job(self, record: JobRecord) -> Job:
        """Estimate and hints are the whole run, at most the limit."""
        truth = self._truth[record.job_id]
        whole_s = truth.duration_s
        if truth.outcome != "completed" or truth.stopped_early:
            whole_s = max(whole_s, truth.startup_s + truth.steps_planned * truth.step_s)
        whole_s = min(whole_s, record.requested_s or math.inf)
        return told_by(record, Hints(whole_s, whole_s, self.name))

    def ended(self, record: JobRecord) -> None:
        """Nothing to learn."""


def play(case: Case, records: Sequence[JobRecord], knows: str, conditions: Conditions = Conditions()) -> Result:
    """One replay; ``knows`` is one of `KNOWS`."""
    return simulate(records, CLUSTER, POLICY, estimates(case, records, knows), conditions=conditions)


def estimates(case: Case, records: Sequence[JobRecord], knows: str) -> Estimates:
    """Fresh estimates for one replay of these records."""
    if knows == "no hints":
        return Requested()
    if knows == "oracle":
        return Perfect()
    if knows == WHOLE_RUNS:
        return WholeRuns(case.truth)
    asked = {record.job_id: replace(case.submissions[record.job_id], submit_s=record.submit_s) for record in records}
    if knows == "source":
        return WalkedHints(Pipeline(MemoryHistoryStore()), asked, case.facts, case.truth)
    bare = {job_id: replace(each, workdir=None, command="") for job_id, each in asked.items()}
    nothing = dict.fromkeys(bare, SourceFacts())
    return WalkedHints(Pipeline(MemoryHistoryStore()), bare, nothing, case.truth)


def queue(result: Result) -> float:
    """Mean queueing over mean runtime."""
    return float(result.waiting_s.mean() / result.runtime_s.mean())


def at_queue(
    records: Sequence[JobRecord], wanted: float, policy: Policy | str = POLICY
) -> tuple[list[JobRecord], float]:
    """The records at the lowest load at which the policy (the core) without hints queues that long, and that load.

    Queueing does not grow steadily with load on a short trace, so loads are tried from low to high in steps of 5 %.
    Raises `UserError` where the jobs are too few to queue that long however fast they arrive.
    """
    load, own = 0.5, load_of(records)
    while load < MOST_LOAD:
        found = at_load(records, load / own)
        if queue(simulate(found, CLUSTER, policy, Requested())) >= wanted:
            return found, load
        load *= 1.05
    raise UserError(f"{len(records)} jobs never queue {wanted:g} mean runtimes", "take more --jobs")


@dataclass(frozen=True, slots=True)
class Row:
    """Mean JCT in seconds by what was known, without and with eviction (empty where that was not asked for), at one
    load of one seed."""

    load: float
    queueing: float
    plain: dict[str, float]
    evicting: dict[str, float]


def row(case: Case, records: Sequence[JobRecord], load: float, evicts: bool = True) -> Row:
    """Replay one seed at one load in all ways."""
    plain = {knows: play(case, records, knows) for knows in KNOWS}
    evicting = {knows: float(play(case, records, knows, EVICTING).jct_s.mean()) for knows in KNOWS if evicts}
    jct_s = {knows: float(result.jct_s.mean()) for knows, result in plain.items()}
    return Row(load, queue(plain["no hints"]), jct_s, evicting)


class Measured:
    """Rows by what they are of, kept in a file where there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                of, row_of = json.loads(line)
                if set(KNOWS) <= row_of["plain"].keys():  # of an earlier release where there is less
                    self._rows[of] = Row(**row_of)

    def row(self, of: str, measure: Callable[[], Row]) -> Row:
        """The row that is kept under this name, else the one that is measured now. Raises what ``measure`` raises."""
        if of not in self._rows:
            self._rows[of] = measure()
            if self._path is not None:
                with self._path.open("a") as stream:
                    stream.write(json.dumps([of, asdict(self._rows[of])]) + "\n")
        return self._rows[of]


def rows(name: str, seed: int, asked: argparse.Namespace, measured: Measured) -> Iterator[Row]:
    """The rows of one seed, by rising load. `UserError` where it never queues as long as wanted."""
    of = f"{name} {seed} {asked.jobs}{' plain' * asked.plain}"
    if not asked.curve:

        def at_three() -> Row:
            case = kept(name, seed, asked.jobs, asked.keep)
            return row(case, *at_queue(case.records, WANTED_QUEUE), not asked.plain)

        yield measured.row(f"{of} queue {WANTED_QUEUE:g}", at_three)
        return

    def at(load: float) -> Row:
        case = kept(name, seed, asked.jobs, asked.keep)
        return row(case, at_load(case.records, load / case.load), load, not asked.plain)

    for load in LOADS:
        yield measured.row(f"{of} load {load:g}", partial(at, load))


def told(name: str, found: Sequence[Row]) -> Iterator[str]:
    """Ratios of mean JCT (no hints over each), as geometric means over seeds with their standard error."""
    load, queueing = fmean(each.load for each in found), fmean(each.queueing for each in found)
    for way, jcts in (("plain", [each.plain for each in found]), ("evicting", [each.evicting for each in found])):
        if not all(jcts):
            continue
        cells = [f"{_ratio([jct['no hints'] / jct[knows] for jct in jcts]):>14}" for knows in KNOWS[1:]]
        gaps = [jct["metadata"] - jct["source"] for jct in jcts]
        whole = [jct["metadata"] - jct["oracle"] for jct in jcts]
        closed = f"{sum(gaps) / sum(whole):.0%}" if sum(whole) > 0 else "-"
        across = _ratio([plain.plain["no hints"] / jct["source"] for plain, jct in zip(found, jcts, strict=True)])
        yield f"{name:<12} {load:>5.2f} {queueing:>6.2f} {way:<9} {''.join(cells)} {closed:>8} {across:>14}"


def _ratio(ratios: Sequence[float]) -> str:
    logs = [math.log(ratio) for ratio in ratios]
    error = stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0
    return f"{math.exp(fmean(logs)):.2f} ±{math.exp(fmean(logs)) * error:.2f}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", choices=tuple(GENERATORS), action="append", help="default: both")
    parser.add_argument("--seeds", type=int, default=10, help="how many (default 10)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of a workload (default 1000)")
    parser.add_argument("--curve", action="store_true", help="loads from 0.6 to 1.1 in place of the one")
    parser.add_argument("--keep", type=Path, help="folder for workloads that were read, to be used again")
    parser.add_argument("--plain", action="store_true", help="without the replays in which jobs are evicted")
    parser.add_argument("--out", type=Path, help="file of what was measured")
    parser.add_argument("--svg", type=Path, help="file for a picture of the curve")
    asked = parser.parse_args(words)
    measured, curves = Measured(asked.out), dict[tuple[str, str], list[tuple[float, float]]]()
    heads = "".join(f"{knows:>14}" for knows in KNOWS[1:])
    print(f"{'generator':<12} {'load':>5} {'queue':>6} {'':<9} {heads} {'closed':>8} {'source/plain':>14}")
    for name in asked.generator or tuple(GENERATORS):
        by_load: dict[int, list[Row]] = {}
        for seed in range(asked.first, asked.first + asked.seeds):
            try:
                for at, found in enumerate(rows(name, seed, asked, measured)):
                    by_load.setdefault(at, []).append(found)
                    print(f"  {name} seed {seed} load {found.load:.2f}", file=sys.stderr, flush=True)
            except UserError as error:
                print(f"  {name} seed {seed} left out: {error.what}", file=sys.stderr, flush=True)
        for each in by_load.values():
            print("\n".join(told(name, each)), flush=True)
            for knows in KNOWS[1:]:
                ratios = [one.plain["no hints"] / one.plain[knows] for one in each]
                curves.setdefault((name, knows), []).append((fmean(one.load for one in each), geometric_mean(ratios)))
    if asked.svg is not None and curves:
        asked.svg.write_text(svg(curves))
    print("\nmean JCT without hints over that with hints (geometric mean over seeds); queue: mean queueing over mean")
    print("runtime without hints; closed: share of the gap from metadata to oracle; source/plain: against no eviction")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"semantic_scheduling: {error}")
